"""Files that anybody may have written: measured before they are read, and made harmless before they are printed."""

import json
import re
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError

# The largest JSON of ours is a vocabulary of 2^18 merges with 4 MB; parsed, JSON takes up to 25 times its size.
JSON_LIMIT_BYTES = 8 << 20

# What a terminal would act upon: control characters, marks that turn the writing direction, and half characters.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text from outside, safe to print: what a terminal would obey is shown as a picture of it (␛) or as '�'."""
    return _OBEYED.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd"


def read_small(path: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> bytes:
    """The content of a file that ought to be small; a larger one, a device or a pipe is not read."""
    if not path.is_file():
        raise JobError(f"{path} is {'not a file' if path.exists() else 'missing'}")
    with path.open("rb") as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise JobError(f"{path} is larger than the {limit_bytes:,} bytes that such a file may have: it was not read")
    return content


def read_json(path: Path) -> Any:
    """What a small JSON file holds; ValueError if it is none."""
    try:
        return json.loads(read_small(path).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
