"""Reading and printing files that anyone may have written: size checks before reading, escaping before printing."""

import json
import re
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError
from nanoscope.messages import RIGHT_TO_LEFT_MARK, Text, right_to_left, translator

# Our largest JSON file, a vocabulary of 2^18 merges, has 4 MB. Parsed JSON takes up to 25 times its size in memory.
JSON_LIMIT_BYTES = 8 << 20

# What a terminal would act on: control characters, bidirectional overrides and lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return text that is safe to print: control characters become their symbols (␛), other unsafe ones '�'."""
    return _UNSAFE.sub(_symbol, text)


def to_print(text: object) -> str:
    """Return a text in the user's language that is safe to print."""
    language = translator()
    if language is not None and isinstance(text, Text):
        return language.text(text)  # has made the values safe; escaping all of it would hit the isolates around them
    isolates = "\u2068\u2069" if right_to_left() else ""  # of another process
    return _UNSAFE.sub(lambda match: match[0] if match[0] in isolates else _symbol(match), str(text))


def on_terminal(text: object) -> str:
    """Return the same, where lines that go from right to left begin with a mark that says so."""
    written = to_print(text)
    marked = right_to_left() and isinstance(text, Text)
    return re.sub("^(?=.)", RIGHT_TO_LEFT_MARK, written, flags=re.MULTILINE) if marked else written


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd"


def read_small(path: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> bytes:
    """Return the content of a file that should be small; refuse larger files, devices and pipes."""
    if not path.is_file():
        missing = Text("{path} is missing", path=path)
        raise JobError(Text("{path} is not a file", path=path) if path.exists() else missing)
    with path.open("rb") as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise JobError(
            "{path} was not read: it is larger than {limit:,} bytes, the limit for such a file",
            path=path,
            limit=limit_bytes,
        )
    return content


def read_json(path: Path) -> Any:
    """Return the content of a small JSON file; ValueError if it is not JSON."""
    try:
        return json.loads(read_small(path).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
