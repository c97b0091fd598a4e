"""Downloading a file into the cache: resumed after an interruption, and checked for change before it is used again."""

import hashlib
import http.client
import json
import shutil
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
SPARE_BYTES = 64 << 20  # left free on the disk

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


WAY_OUT = Text("Free some space, or set NANOSCOPE_CACHE to another disk.")


def check_space(folder: Path, needed_bytes: int, way_out: Text) -> None:
    """Raise JobError unless the disk of a folder has room for so much more."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + SPARE_BYTES:
        raise JobError(
            "The disk of {folder} is too full: {needed:,} MB are needed, {free:,} MB are left.\n{way_out}",
            folder=folder,
            needed=needed_bytes >> 20,
            free=free >> 20,
            way_out=way_out,
        )


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
        raise JobError(
            "Cannot use the cache {folder}: {reason}.\nSet NANOSCOPE_CACHE to a writable folder.",
            folder=folder,
            reason=why(error),
        ) from error


class _Transfer:
    """One download, under a lock. The file is complete when it no longer is called `part`."""

    def __init__(self, url: str, folder: Path, on_progress: OnProgress | None) -> None:
        self.url, self.shown, self.folder, self.on_progress = url, without_query(url), folder, on_progress
        self.part, self.complete, self.headers = folder / "part", folder / "content", folder / "headers.json"
        self.answer: dict[str, str] = {}
        with suppress(OSError, ValueError, JobError):  # without headers.json, the download begins anew
            self.answer = dict(read_json(self.headers))

    def run(self) -> Download:
        for _ in range(ATTEMPTS):
            try:
                response = urllib.request.urlopen(self._request(), timeout=TIMEOUT_SECONDS)
            except urllib.error.HTTPError as error:
                if error.code == 304:
                    return self._result()
                if error.code == 416 and self.part.exists():  # the file is shorter than what we have of it
                    self.part.unlink()
                    continue
                raise JobError(
                    "Cannot download {url}: the server answered {code} {reason}.\nCheck the address in a browser.",
                    url=self.shown,
                    code=error.code,
                    reason=error.reason,
                ) from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                return self._unreachable(error)
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
        tag, modified = self.answer.get("etag", ""), self.answer.get("modified", "")
        if self.complete.exists():
            if tag:
                request.add_header("If-None-Match", tag)
            elif modified:
                request.add_header("If-Modified-Since", modified)
        elif self._have() and (tag or modified) and not tag.startswith("W/"):
            request.add_header("Range", f"bytes={self._have()}-")
            request.add_header("If-Range", tag or modified)
        return request

    def _receive(self, response: http.client.HTTPResponse) -> bool:
        """Write the body to `part`; return whether it is complete."""
        continued = response.status == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {self._have()}-"
        )
        start_bytes = self._have() if continued else 0
        length = response.headers.get("Content-Length", "")
        total = start_bytes + int(length) if length.isdecimal() and len(length) < 16 else None
        if not continued:
            self._begin(response)
        check_space(self.folder, (total or 0) - start_bytes, WAY_OUT)
        received = start_bytes
        with self.part.open("ab" if continued else "wb") as file, suppress(http.client.HTTPException, TimeoutError):
            while block := _next_block(response):
                file.write(block)
                received += len(block)
                if total is None:
                    check_space(self.folder, len(block), WAY_OUT)
                if self.on_progress:
                    stage = Text("downloading")
                    if not total:
                        stage = Text("downloading ({size:d} MB)", size=received >> 24 << 4)
                    self.on_progress(stage, received / total if total else 0.0)
            return received == total if total is not None else True
        return False

    def _begin(self, response: http.client.HTTPResponse) -> None:
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise JobError(
                "{url} is a web page, not a text file.\n"
                "Give the address of the file itself (on GitHub: its Raw button), or save the text and give "
                "its path.",
                url=self.shown,
            )
        self.answer = {
            "etag": headers.get("ETag", ""),
            "modified": headers.get("Last-Modified", ""),
            "url": response.url,
            "type": headers.get_content_type() if "Content-Type" in headers else "",
        }
        self.complete.unlink(missing_ok=True)  # a changed file replaces it
        self.part.unlink(missing_ok=True)
        write_atomically(self.headers, json.dumps(self.answer))

    def _unreachable(self, error: Exception) -> Download:
        reason = getattr(error, "reason", None) or error
        if self.complete.exists():
            return self._result(
                str(
                    Text(
                        "{url} cannot be reached ({reason}): using the copy downloaded earlier",
                        url=self.shown,
                        reason=reason,
                    )
                )
            )
        raise JobError(
            "Cannot download {url}: {reason}.\n"
            "Check the network and the address, or get the file in another way and give its path.",
            url=self.shown,
            reason=why(reason),
        ) from None

    def _result(self, note: str = "") -> Download:
        return Download(self.complete, self.answer.get("url", self.url), self.answer.get("type", ""), note)


def _next_block(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(BLOCK_BYTES)
    except OSError as error:  # a broken connection, not a full disk
        raise http.client.HTTPException(str(error)) from error
