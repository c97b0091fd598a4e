"""Downloading a file."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO
from urllib.parse import urlsplit

from nanoscope.errors import JobError, why
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


def why_unreachable(error: Exception) -> Message | str:
    """The reason of a failed request: what the system says, or 'HTTP Error 404: Not Found'."""
    return why(error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error))


def download(url: str, file: IO[bytes], on_progress: OnProgress | None = None) -> None:
    """Copy what a URL names into a file."""
    request = urllib.request.Request(url, headers={"User-Agent": "nanoscope"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            if response.headers.get_content_type() == "text/html":
                raise JobError(
                    "{url} is a web page, not a text file.\n"
                    "Give the address of the file itself (on GitHub: its Raw button), or save the text and give its "
                    "path.",
                    url=without_query(url),
                )
            total, block = response.length, b"-"
            while block:
                block = response.read(BLOCK_BYTES)
                file.write(block)
                if not block and total and file.tell() < total:
                    raise OSError(Message("the connection broke off"))
                if on_progress:
                    on_progress(Message("downloading"), file.tell() / total if total else 0.0)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise JobError(
            "Cannot download {url}: {reason}.\n"
            "Check the network and the address, or get the file in another way and give its path.",
            url=without_query(url),
            reason=why_unreachable(error),
        ) from None
