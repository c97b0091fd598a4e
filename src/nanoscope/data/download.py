"""Downloading a file into the cache: resumed after an interruption, and checked for change before it is used again."""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from nanoscope.errors import JobError, why
from nanoscope.files import cache_folder, write_atomically
from nanoscope.messages import Message, Shown

TIMEOUT_SECONDS = 20  # without any byte
ATTEMPTS = 4  # each continues where the connection broke
BLOCK_BYTES = 1 << 18

OnProgress = Callable[[Shown, float], None]  # gets the name of the stage and the fraction done


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def without_query(url: str) -> str:
    """Return a URL without what may be a password or a token."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def download(url: str, on_progress: OnProgress | None = None) -> tuple[Path, Message | None]:
    """Return a file in the cache, and a note if it is an earlier copy because the server cannot be reached.

    It is not downloaded again if it hasn't changed.
    """
    folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:20]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=0):
            return folder / "content", _download_into(folder, url, on_progress)
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


def why_unreachable(error: Exception) -> Message | str:
    """The reason of a failed request: what the system says, or 'HTTP Error 404: Not Found'."""
    return why(error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error))


def _download_into(folder: Path, url: str, on_progress: OnProgress | None) -> Message | None:
    """Download to `part`, which is renamed to `content` when it is complete. Return the note."""
    part, complete, tag_file = folder / "part", folder / "content", folder / "etag"
    shown = without_query(url)
    for _ in range(ATTEMPTS):
        received = part.stat().st_size if part.exists() else 0
        tag = tag_file.read_text("ascii", "ignore") if tag_file.exists() else ""
        request = urllib.request.Request(url, headers={"User-Agent": "nanoscope"})
        if tag and complete.exists():
            request.add_header("If-None-Match", tag)
        elif tag and received:
            request.add_header("Range", f"bytes={received}-")
            request.add_header("If-Range", tag)
        try:
            response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 304:
                return None
            reason = why_unreachable(error)
            if complete.exists():
                return Message(
                    "{url} cannot be reached ({reason}): using the copy downloaded earlier", url=shown, reason=reason
                )
            raise JobError(
                "Cannot download {url}: {reason}.\n"
                "Check the network and the address, or get the file in another way and give its path.",
                url=shown,
                reason=reason,
            ) from None
        with response:
            if response.headers.get_content_type() == "text/html":
                raise JobError(
                    "{url} is a web page, not a text file.\n"
                    "Give the address of the file itself (on GitHub: its Raw button), or save the text and give "
                    "its path.",
                    url=shown,
                )
            if not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
                received = 0
                complete.unlink(missing_ok=True)  # a changed file replaces it
                part.unlink(missing_ok=True)
                write_atomically(tag_file, response.headers.get("ETag", ""))
            if _receive(response, part, received, on_progress):
                part.replace(complete)
                return None
    raise JobError(
        "The download of {url} broke off {attempts} times; {kilobytes:,} kB are kept.\n"
        "Run the same command again to continue.",
        url=shown,
        attempts=ATTEMPTS,
        kilobytes=part.stat().st_size >> 10,
    )


def _receive(response: http.client.HTTPResponse, part: Path, received: int, on_progress: OnProgress | None) -> bool:
    """Append the body to `part`; return whether it is complete."""
    total = None if response.length is None else received + response.length
    with part.open("ab") as file:
        while True:
            try:
                block = response.read(BLOCK_BYTES)
            except (OSError, http.client.HTTPException):
                return False
            if not block:
                return total is None or received == total
            file.write(block)
            received += len(block)
            if on_progress:
                on_progress(Message("downloading"), received / total if total else 0.0)
