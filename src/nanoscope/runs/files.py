"""Files that are no console logs: notebooks, the trainer's state of Hugging Face, anything compressed.

They are told by their content, so a paste works as well as a file, and become the lines that a console would
have shown.
"""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from nanoscope.errors import JobError, why
from nanoscope.runs.text import clean_lines

HEAD_BYTES = 1 << 16
MOST_BYTES = 64 << 20  # of a JSON document; parsed, it takes several times that much memory
MOST_UNPACKED = 4 << 30
MOST_LAYERS = 4  # of compression, and what is in them
_GZIP = b"\x1f\x8b"
_DOCUMENT = re.compile(
    rb'\s{0,40}\{(?:\s{0,40}"(?:cells|nbformat|metadata)"'
    rb'|(?!.{0,200}"event")(?s:.){0,60000}?"(?:log_history|best_metric|best_model_checkpoint|best_global_step)")'
)
_ROW_ENDS = re.compile(r"</tr>|<table[^<>]{0,200}>|<br\s?/?>|</p>|</div>", re.IGNORECASE)
_CELL_ENDS = re.compile(r"</t[dh]>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,400}>")
# What of a trainer's state the analysis uses.
_STATE_SETTINGS = ("max_steps", "num_train_epochs", "logging_steps", "eval_steps", "save_steps")


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The numbered, clean lines of a log, whatever kind of file holds it."""
    whole = unpacked(stream)
    if _DOCUMENT.match(whole.peek(HEAD_BYTES)):
        content = whole.read(MOST_BYTES)
        text = _text_of(content) if len(content) < MOST_BYTES else None
        whole = _buffered(io.BytesIO(text.encode())) if text is not None else _buffered(whole, content)
    return clean_lines(whole)


def unpacked(stream: BinaryIO) -> "io.BufferedReader[_Raw]":
    """The content of a stream, without its compression if it has any."""
    for _ in range(MOST_LAYERS):
        whole = _buffered(stream)
        if not whole.peek(HEAD_BYTES).startswith(_GZIP):
            return whole
        stream = cast("BinaryIO", _Unpacked(whole))
    raise JobError("Cannot unpack this gzip file: it is compressed {n} times or more.", n=MOST_LAYERS)


class _Raw(io.RawIOBase):
    """What was read already, and then the rest of a stream."""

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        self._head, self._rest = io.BytesIO(head), stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _buffered(stream: BinaryIO, head: bytes = b"") -> "io.BufferedReader[_Raw]":
    return io.BufferedReader(_Raw(stream, head), HEAD_BYTES)


class _Unpacked:
    """A gzip stream that ends where a small file would unpack to more than any log has."""

    def __init__(self, stream: BinaryIO) -> None:
        import gzip  # loaded only where it is needed

        self._file, self._left = gzip.GzipFile(fileobj=stream), MOST_UNPACKED

    def read(self, size: int) -> bytes:
        import zlib

        try:
            chunk = self._file.read(min(size, self._left))
        except (OSError, EOFError, zlib.error) as problem:
            raise JobError("Cannot unpack this gzip file: {reason}.", reason=why(problem)) from None
        self._left -= len(chunk)
        return chunk


def _text_of(content: bytes) -> str | None:
    """The text of a JSON document; None if it has not the form of a notebook or of a trainer's state."""
    try:
        document = json.loads(content)
        if "log_history" in document:
            settings = {name: document[name] for name in _STATE_SETTINGS if document.get(name) is not None}
            return "\n".join(map(json.dumps, [settings, *document["log_history"]]))
        return "\n".join(_shown(output) for cell in document["cells"] for output in cell.get("outputs", ()))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _shown(output: dict[str, Any]) -> str:
    """The output of a notebook's cell, as it stands on its page: a text, or a list of lines with their ends."""
    data = output.get("data", {})
    if "text/html" in data:
        return _page_text("".join(data["text/html"]))
    return "".join(output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", ())))


def _page_text(page: str) -> str:
    """The text of an HTML page, with the cells of a table between tabs."""
    from html import unescape  # it has a large table

    rows = (_CELL_ENDS.sub("\t", " ".join(row.split())) for row in _ROW_ENDS.split(page))
    return "\n".join(
        "\t".join(cell.strip() for cell in unescape(_TAG.sub("", row)).rstrip("\t ").split("\t")) for row in rows
    )
