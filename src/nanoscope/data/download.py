"""Downloading a file into the cache: resumed after an interruption, and checked for change before it is used again."""

import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from nanoscope.errors import JobError, why
from nanoscope.files import cache_folder, read_json, write_atomically
from nanoscope.messages import Text

TIMEOUT_SECONDS = 20  # without any byte
ATTEMPTS = 4  # each continues where the connection broke
BLOCK_BYTES = 1 << 18

OnProgress = Callable[[str, float], None]  # gets the name of the stage and the fraction done


@dataclass(frozen=True)
class Download:
    path: Path
    final_url: str
    """After redirects."""
    media_type: str
    note: str = ""


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def without_query(url: str) -> str:
    """Return a URL without what may be a password or a token."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def download(url: str, on_progress: OnProgress | None = None) -> Download:
    """Return a file in the cache. It is not downloaded again if it hasn't changed, or if the server is unreachable."""
    folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:20]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=0):
            return _Transfer(url, folder, on_progress).run()
    except Timeout:
        raise JobError(
            "Another process is downloading {url}. Try again when it has finished.", url=without_query(url)
        ) from None
    except OSError as error:
        raise unusable_cache(folder, error) from error


def unusable_cache(folder: Path, error: OSError) -> JobError:
    return JobError(
        "Cannot use the cache {folder}: {reason}.\nSet NANOSCOPE_CACHE to a writable folder.",
        folder=folder,
        reason=why(error),
    )


def why_unreachable(error: Exception) -> Text | str:
    """The reason of a failed request: what the system says, or 'HTTP Error 404: Not Found'."""
    return why(error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error))


class _Transfer:
    """One download, under a lock. `part` is renamed to `content` when it is complete."""

    def __init__(self, url: str, folder: Path, on_progress: OnProgress | None) -> None:
        self.url, self.shown, self.on_progress = url, without_query(url), on_progress
        self.part, self.complete, self.headers = folder / "part", folder / "content", folder / "headers.json"
        self.answer: dict[str, str] = {}  # without headers.json, the download begins anew
        with suppress(OSError, ValueError, JobError):
            self.answer = dict(read_json(self.headers))

    def run(self) -> Download:
        for _ in range(ATTEMPTS):
            try:
                response = urllib.request.urlopen(self._request(), timeout=TIMEOUT_SECONDS)
            except (OSError, http.client.HTTPException, ValueError) as error:
                unchanged = isinstance(error, urllib.error.HTTPError) and error.code == 304
                return self._result() if unchanged else self._unreachable(why_unreachable(error))
            with response:
                if self._receive(response):
                    self.part.replace(self.complete)
                    return self._result()
        raise JobError(
            "The download of {url} broke off {attempts} times; {kilobytes:,} kB are kept.\n"
            "Run the same command again to continue.",
            url=self.shown,
            attempts=ATTEMPTS,
            kilobytes=self._have() >> 10,
        )

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _request(self) -> urllib.request.Request:
        request = urllib.request.Request(self.url, headers={"User-Agent": "nanoscope"})
        if tag := self.answer.get("etag"):
            if self.complete.exists():
                request.add_header("If-None-Match", tag)
            elif have := self._have():
                request.add_header("Range", f"bytes={have}-")
                request.add_header("If-Range", tag)
        return request

    def _receive(self, response: http.client.HTTPResponse) -> bool:
        """Write the body to `part`; return whether it is complete."""
        received = self._have()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
            received = 0
            self._begin(response)
        total = None if response.length is None else received + response.length
        with self.part.open("ab") as file:
            while True:
                try:
                    block = response.read(BLOCK_BYTES)
                except (OSError, http.client.HTTPException):
                    return False
                if not block:
                    return total is None or received == total
                file.write(block)
                received += len(block)
                if self.on_progress:
                    self.on_progress(Text("downloading"), received / total if total else 0.0)

    def _begin(self, response: http.client.HTTPResponse) -> None:
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise JobError(
                "{url} is a web page, not a text file.\n"
                "Give the address of the file itself (on GitHub: its Raw button), or save the text and give "
                "its path.",
                url=self.shown,
            )
        media_type = headers.get_content_type() if "Content-Type" in headers else ""
        self.answer = {"etag": headers.get("ETag", ""), "url": response.url, "type": media_type}
        self.complete.unlink(missing_ok=True)  # a changed file replaces it
        self.part.unlink(missing_ok=True)
        write_atomically(self.headers, json.dumps(self.answer))

    def _unreachable(self, reason: Text | str) -> Download:
        if self.complete.exists():
            note = Text(
                "{url} cannot be reached ({reason}): using the copy downloaded earlier", url=self.shown, reason=reason
            )
            return self._result(note)
        raise JobError(
            "Cannot download {url}: {reason}.\n"
            "Check the network and the address, or get the file in another way and give its path.",
            url=self.shown,
            reason=reason,
        ) from None

    def _result(self, note: str = "") -> Download:
        return Download(self.complete, self.answer.get("url", self.url), self.answer.get("type", ""), note)
