"""Reading documents from text, JSON Lines and Parquet files, in pieces of bounded size."""

import codecs
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from nanoscope.errors import JobError, why
from nanoscope.messages import Message

BLOCK_SIZE = 1 << 19  # bytes of a file, or characters of a field, held at once
LINE_LIMIT_CHARACTERS = 1 << 27  # a line of JSON must be held in full
HEAD_BYTES = 1 << 13

RECORDS = (".json", ".jsonl", ".ndjson", ".parquet")
"""Suffixes of files that hold records. A file of any other suffix is text."""

UNICODE_MARKS = {  # UTF-32 first: its little-endian mark begins with that of UTF-16
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


class Piece(NamedTuple):
    """Part of a document. A small document is one piece."""

    text: str
    ends_document: bool


class TextFile:
    """A file to read text from. Its suffix decides how; a download and standard input have another one and a name."""

    def __init__(self, path: Path, name: str = "", suffix: str | None = None) -> None:
        self.path, self.name = path, name or str(path)
        self.suffix = (path.suffix if suffix is None else suffix).lower()
        self.size_bytes = path.stat().st_size
        self.read_bytes = 0
        """How many of them were read so far."""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        try:
            with self.path.open("rb") as stream:
                yield stream
        except OSError as error:
            raise JobError("Cannot read {path}: {reason}.", path=self.name, reason=why(error)) from error

    def head(self) -> bytes:
        with self.open() as stream:
            return stream.read(HEAD_BYTES)


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding that a byte order mark names, except UTF-8's."""
    return next((encoding for mark, encoding in UNICODE_MARKS.items() if head.startswith(mark)), None)


def read_pieces(file: TextFile, field: str, encoding: str) -> Iterator[Piece]:
    """Yield the documents of a file, without empty ones: its text, or the `field` of each record.

    A record is an object with the field, or the text itself; null is skipped.
    """
    blocks = _decoded(file, encoding)
    if file.suffix not in RECORDS:
        held = next(blocks, "")  # one block behind, to know which is the last
        for text in blocks:
            yield Piece(held, ends_document=False)
            held = text
        if held:
            yield Piece(held, ends_document=True)
        return
    try:
        records = _parquet(file, field) if file.suffix == ".parquet" else _json_lines(blocks)
        for number, record in enumerate(records, start=1):
            value = record
            if isinstance(record, dict):
                if field not in record:
                    raise JobError(
                        "{where} has no field {field!r}. It has: {names}.\n"
                        "Name the one with the text, for example: {command}",
                        where=file.name,
                        field=field,
                        names=", ".join(str(name)[:40] for name in islice(record, 20)),
                        command="--field=NAME",
                    )
                value = record[field]
            if value is None:
                continue
            if not isinstance(value, str):
                where = Message("{file}, record {number}", file=file.name, number=number)
                kind = type(value).__name__
                raise JobError("{where}: the field {field!r} is {kind}, not text.", where=where, field=field, kind=kind)
            if not value.isascii():  # an escape of JSON may be a lone surrogate
                value = value.encode("utf-8", "replace").decode("utf-8")
            for start in range(0, len(value), BLOCK_SIZE):
                yield Piece(value[start : start + BLOCK_SIZE], start + BLOCK_SIZE >= len(value))
    except (ValueError, RecursionError) as error:
        kind = file.suffix.removeprefix(".").upper()
        raise JobError(
            "{name} is not a valid {kind} file: {reason}.", name=file.name, kind=kind, reason=why(error)
        ) from error


def _decoded(file: TextFile, encoding: str) -> Iterator[str]:
    """Yield the text of a file in blocks that are not empty, with all line endings converted to \\n."""
    head, encoding = file.head(), codecs.lookup(encoding).name
    if encoding == "utf-8":
        encoding = marked_encoding(head) or encoding
        if encoding == "utf-8" and b"\0" in head:
            raise _wrong_encoding(file, encoding, head.index(0))
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    offset, block = 0, b"-"
    with file.open() as stream:
        while block:
            block = stream.read(BLOCK_SIZE)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:  # its object begins with what was left over of earlier blocks
                raise _wrong_encoding(file, encoding, offset + len(block) - len(error.object) + error.start) from error
            if not offset:
                text = text.removeprefix("\ufeff")  # the byte order mark
            file.read_bytes = offset = offset + len(block)
            if text:
                yield text


def _wrong_encoding(file: TextFile, encoding: str, position: int) -> JobError:
    return JobError(
        "{name} is not {encoding}: byte {position:,} is invalid.\n"
        "If the text has another encoding, name it, for example --encoding=cp1252.",
        name=file.name,
        encoding=encoding.upper(),
        position=position,
    )


def _lines(blocks: Iterator[str]) -> Iterator[str]:
    rest = ""
    for text in blocks:
        *whole, rest = (rest + text).split("\n")
        yield from whole
        if len(rest) > LINE_LIMIT_CHARACTERS:
            raise ValueError(Message("a value has over {n:,} characters", n=LINE_LIMIT_CHARACTERS))
    yield rest


def _json_lines(blocks: Iterator[str]) -> Iterator[Any]:
    for number, line in enumerate(_lines(blocks), start=1):
        if number == 1 and line.lstrip().startswith("["):
            command = "jq -c '.[]'"
            raise ValueError(Message("write an object in each line instead of a list: {command}", command=command))
        try:
            if line.strip():
                yield json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(Message("line {line:,}: {what}", line=number, what=error.msg)) from None


def _parquet(file: TextFile, field: str) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        with file.open() as stream:
            columns = pyarrow.parquet.read_schema(stream).names
            if field not in columns:
                yield dict.fromkeys(columns)
            table = pyarrow.parquet.ParquetFile(stream, read_dictionary=[field])  # repeated texts: held once
            rows = 0
            for batch in table.iter_batches(batch_size=512, columns=[field]):
                rows += len(batch)
                file.read_bytes = file.size_bytes * rows // table.metadata.num_rows
                yield from (value.as_py() for value in batch.column(0))
    except pyarrow.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from error
