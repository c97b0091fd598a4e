"""Downloading a file into the cache, which is checked for change before it is used again."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from nanoscope.errors import JobError, why
from nanoscope.files import cache_folder, write_atomically
from nanoscope.messages import Message, Shown

TIMEOUT_SECONDS = 20  # to wait for the next byte
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
    part = folder / f"part-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "content", _download_into(folder, part, url, on_progress)
    except OSError as error:
        raise unusable_cache(folder, error) from error
    finally:
        part.unlink(missing_ok=True)


def unusable_cache(folder: Path, error: OSError) -> JobError:
    return JobError(
        "Cannot use the cache {folder}: {reason}.\nSet NANOSCOPE_CACHE to a writable folder.",
        folder=folder,
        reason=why(error),
    )


def why_unreachable(error: Exception) -> Message | str:
    """The reason of a failed request: what the system says, or 'HTTP Error 404: Not Found'."""
    return why(error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error))


def _download_into(folder: Path, part: Path, url: str, on_progress: OnProgress | None) -> Message | None:
    """Download to `part`, which is renamed to `content` when it is complete. Return the note."""
    complete, tag_file = folder / "content", folder / "etag"
    request = urllib.request.Request(url, headers={"User-Agent": "nanoscope"})
    if tag_file.exists():
        request.add_header("If-None-Match", tag_file.read_text("ascii", "ignore"))
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 304:
            return None
        if not complete.exists():
            raise _failed(url, error) from None
        return Message(
            "{url} cannot be reached ({reason}): using the copy downloaded earlier",
            url=without_query(url),
            reason=why_unreachable(error),
        )
    with response, part.open("wb") as file:
        if response.headers.get_content_type() == "text/html":
            raise JobError(
                "{url} is a web page, not a text file.\n"
                "Give the address of the file itself (on GitHub: its Raw button), or save the text and give its path.",
                url=without_query(url),
            )
        total, received, block = response.length, 0, b"-"
        while block:
            try:
                block = response.read(BLOCK_BYTES)
                if not block and total and received < total:
                    raise OSError(Message("the connection broke off"))
            except (OSError, http.client.HTTPException) as error:
                raise _failed(url, error) from None
            file.write(block)
            received += len(block)
            if on_progress:
                on_progress(Message("downloading"), received / total if total else 0.0)
    part.replace(complete)
    write_atomically(tag_file, response.headers.get("ETag", ""))
    return None


def _failed(url: str, error: Exception) -> JobError:
    return JobError(
        "Cannot download {url}: {reason}.\n"
        "Check the network and the address, or get the file in another way and give its path.",
        url=without_query(url),
        reason=why_unreachable(error),
    )
