"""Files that are no console logs: notebooks, the trainer's state of Hugging Face, anything compressed.

They are told by their content, so a paste works as well as a file, and become the lines that a console would
have shown.
"""

import io
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
_NOTEBOOK = re.compile(rb'^\s{0,40}\{\s{0,40}"(?:cells|nbformat|metadata)"')
_TRAINER_STATE = re.compile(rb'"(?:log_history|best_metric|best_model_checkpoint|best_global_step)"')
_ROW_ENDS = re.compile(r"</tr>|<table[^<>]{0,200}>|<br\s?/?>|</p>|</div>", re.IGNORECASE)
_CELL_ENDS = re.compile(r"</t[dh]>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,400}>")
# What of a trainer's state the analysis uses.
_STATE_SETTINGS = ("max_steps", "num_train_epochs", "logging_steps", "eval_steps", "save_steps")


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The numbered, clean lines of a log, whatever kind of file holds it."""
    head, whole = _opened(stream)
    text = None
    if head.lstrip()[:1] == b"{":
        if _NOTEBOOK.match(head):
            text = _notebook(_document(whole, b'"nbformat"'))
        elif b'"event"' not in head[:200] and _TRAINER_STATE.search(head):
            text = _trainer_state(_document(whole, b'"log_history"'))
    return clean_lines(io.BytesIO(text.encode()) if text is not None else whole)


def unpacked(stream: BinaryIO) -> BinaryIO:
    """The content of a stream, without its compression if it has any."""
    return _opened(stream)[1]


def _opened(stream: BinaryIO) -> tuple[bytes, "io.BufferedReader[_Rest]"]:
    """The beginning of a stream's content, and all of it."""
    for _ in range(MOST_LAYERS):
        head = stream.read(HEAD_BYTES)
        whole = io.BufferedReader(_Rest(head, stream))
        if not head.startswith(_GZIP):
            return head, whole
        stream = cast("BinaryIO", _Unpacked(whole))
    raise JobError("Cannot unpack this gzip file: it is compressed {n} times or more.", n=MOST_LAYERS)


class _Rest(io.RawIOBase):
    """What was read already, and then the rest of a stream. What is asked for twice can be read again."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._head[: len(buffer)] or self._stream.read(len(buffer))
        self._head = self._head[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def put_back(self, head: bytes) -> None:
        self._head = head + self._head


class _Unpacked:
    """A gzip stream that ends where a small file would unpack to more than any log has."""

    def __init__(self, stream: BinaryIO) -> None:
        import gzip  # this and json are loaded only where they are needed

        self._file = gzip.GzipFile(fileobj=stream)
        self._left = MOST_UNPACKED

    def read(self, size: int) -> bytes:
        import zlib

        try:
            chunk = self._file.read(min(size, self._left))
        except (OSError, EOFError, zlib.error) as problem:
            raise JobError("Cannot unpack this gzip file: {reason}.", reason=why(problem)) from None
        self._left -= len(chunk)
        return chunk


def _document(stream: "io.BufferedReader[_Rest]", sign: bytes) -> dict[str, Any] | None:
    """The JSON document of a stream; None, with nothing consumed, if it is none."""
    import json

    content = stream.read(MOST_BYTES)
    try:
        document = json.loads(content) if sign in content and len(content) < MOST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    stream.raw.put_back(content)
    return None


def _notebook(notebook: dict[str, Any] | None) -> str | None:
    """The outputs of a notebook's cells, as they stand on its page."""
    if notebook is None or not isinstance(notebook.get("cells"), list):
        return None
    texts = []
    for cell in notebook["cells"]:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            if not isinstance(output, dict):
                continue
            data = output.get("data")
            data = data if isinstance(data, dict) else {}
            if "text/html" in data:
                texts.append(_page_text(_joined(data["text/html"])))
            else:
                texts.append(_joined(output.get("text") or data.get("text/plain") or output.get("traceback") or ""))
    return "\n".join(texts)


def _joined(text: Any) -> str:
    if isinstance(text, list):
        lines = [part for part in text if isinstance(part, str)]
        return ("" if all(line.endswith("\n") for line in lines[:-1]) else "\n").join(lines)
    return text if isinstance(text, str) else ""


def _page_text(page: str) -> str:
    """The text of an HTML page, with the cells of a table between tabs."""
    from html import unescape

    rows = (_CELL_ENDS.sub("\t", " ".join(row.split())) for row in _ROW_ENDS.split(page))
    return "\n".join(
        "\t".join(cell.strip() for cell in unescape(_TAG.sub("", row)).rstrip("\t ").split("\t")) for row in rows
    )


def _trainer_state(state: dict[str, Any] | None) -> str | None:
    """The log history in trainer_state.json, as lines of JSON."""
    if state is None or not isinstance(state.get("log_history"), list):
        return None
    import json

    settings = [f"{name} = {state[name]}" for name in _STATE_SETTINGS if isinstance(state.get(name), int | float)]
    logs = [json.dumps(entry) for entry in state["log_history"] if isinstance(entry, dict)]
    return "\n".join([*settings, *logs])
