"""Reading documents from text, JSON, JSON Lines, CSV and Parquet files, in pieces of bounded size."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, NamedTuple

from nanoscope.errors import JobError, why
from nanoscope.messages import Message

BLOCK_SIZE = 1 << 19  # bytes of a file, or characters of a field, held at once
LINE_LIMIT_CHARACTERS = 1 << 27  # a JSON value or a CSV field must be held in full
HEAD_BYTES = 1 << 13
NOT_BETWEEN_VALUES = re.compile(r"[^\s,\[\]]")  # of JSON
LONGEST_TOKEN = 16  # characters of an escape or a literal of JSON that the end of a block may have cut

# No text of over 1 GiB compresses to a 500th of its size: such a file was made to fill a memory or a disk.
BOMB_BYTES, BOMB_RATIO = 1 << 30, 500

COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNICODE_MARKS = {  # UTF-32 first: its little-endian mark begins with that of UTF-16
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


class MissingFieldError(Exception):
    """Holds the record that has no such field."""


class Piece(NamedTuple):
    """Part of a document. A small document is one piece."""

    text: str
    ends_document: bool


@dataclass
class TextFile:
    """Something to read text from: a file, a member of a zip archive, or standard input."""

    name: str
    suffix: str
    """What it holds, which decides how it is read: .txt, .jsonl, …; without that of the compression."""
    size_bytes: int
    open_raw: Callable[[], IO[bytes]]
    compression: str = ""
    read_bytes: Callable[[], int] = int
    """How many of the `size_bytes` were read so far."""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the decompressed content."""
        try:
            with self.open_raw() as raw:
                self.read_bytes = raw.tell
                yield COMPRESSED[self.compression](raw) if self.compression else raw
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
            raise JobError("Cannot read {path}: {reason}.", path=self.name, reason=why(error)) from error
        finally:
            self.read_bytes = lambda: self.size_bytes

    def head(self) -> bytes:
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    def check_unpacked(self, unpacked_bytes: int, packed_bytes: int) -> None:
        """Refuse a file of which so much unpacks to an absurd size."""
        if unpacked_bytes > max(BOMB_BYTES, BOMB_RATIO * packed_bytes):
            raise JobError(
                "{name} was not read: it unpacks to over {size:,} GiB, over {ratio} times its own size.\n"
                "If it really holds text, unpack it yourself and prepare the result.",
                name=self.name,
                size=unpacked_bytes >> 30,
                ratio=BOMB_RATIO,
            )


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding that a byte order mark names, except UTF-8's."""
    return next((encoding for mark, encoding in UNICODE_MARKS.items() if head.startswith(mark)), None)


def read_pieces(file: TextFile, field: str, encoding: str) -> Iterator[Piece]:
    """Yield the documents of a file: of a file of records the `field` of each, else its text. Empty ones are left out.

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
        for number, record in enumerate(RECORDS[file.suffix](file, blocks, field), start=1):
            value = record
            if isinstance(record, dict):
                if field not in record:
                    raise MissingFieldError(record)
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
    except (ValueError, RecursionError, csv.Error) as error:
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
            if text:
                yield text
            offset += len(block)
            file.check_unpacked(offset, file.read_bytes())


def _wrong_encoding(file: TextFile, encoding: str, position: int) -> JobError:
    return JobError(
        "{name} is not {encoding}: byte {position:,} is invalid.\n"
        "If the text has another encoding, name it, for example --encoding=cp1252.",
        name=file.name,
        encoding=encoding.upper(),
        position=position,
    )


def _check_length(value: str) -> None:
    if len(value) > LINE_LIMIT_CHARACTERS:
        raise ValueError(Message("a value has over {n:,} characters", n=LINE_LIMIT_CHARACTERS))


def _json(file: TextFile, blocks: Iterator[str], field: str) -> Iterator[Any]:
    """Yield the values of JSON Lines, or the elements of arrays."""
    decode = json.JSONDecoder().raw_decode
    text, at, line, open_arrays = "", 0, 1, 0
    while True:
        found = NOT_BETWEEN_VALUES.search(text, at)
        start = found.start() if found else len(text)
        open_arrays += text.count("[", at, start) - text.count("]", at, start)
        at, error = start, None
        try:
            value, end = decode(text, at)
            cut = end == len(text)  # a number may go on
        except json.JSONDecodeError as problem:
            error = problem
            cut = error.msg.startswith("Unterminated") or error.pos >= len(text) - LONGEST_TOKEN
        if cut:
            rest = text[at:]
            _check_length(rest)
            # As much again as is waiting, so that parsing a long value takes linear time.
            if more := "".join(islice(blocks, 1 + len(rest) // BLOCK_SIZE)):
                line += text.count("\n", 0, at)
                text, at = rest + more, 0
                continue
            if not rest and not open_arrays:
                return
        if error:
            line += text.count("\n", 0, error.pos)
            raise ValueError(Message("line {line:,}: {what}", line=line, what=error.msg))
        yield value
        at = end


def _csv(file: TextFile, blocks: Iterator[str], field: str) -> Iterator[Any]:
    def lines() -> Iterator[str]:
        rest = ""
        for text in blocks:
            *whole, rest = (rest + text).split("\n")
            yield from (line + "\n" for line in whole)
            _check_length(rest)
        yield rest

    csv.field_size_limit(LINE_LIMIT_CHARACTERS)
    return csv.DictReader(lines(), delimiter="\t" if file.suffix == ".tsv" else ",")


def _parquet(file: TextFile, blocks: Iterator[str], field: str) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise JobError(
            '{name} needs pyarrow, which is not installed: pip install "nanoscope[data]"', name=file.name
        ) from error
    try:
        with file.open() as stream:
            columns = pyarrow.parquet.read_schema(stream)
            if field not in columns.names:
                yield {column.name: "" if "string" in str(column.type) else None for column in columns}
            table = pyarrow.parquet.ParquetFile(stream, read_dictionary=[field])  # repeated texts: held once
            groups = map(table.metadata.row_group, range(table.num_row_groups))
            file.check_unpacked(sum(group.total_byte_size for group in groups), file.size_bytes)
            unpacked = 0  # the declared size counts repeated texts once
            for batch in table.iter_batches(batch_size=512, columns=[field]):
                for value in batch.column(0):
                    text = value.as_py()
                    unpacked += len(text) if isinstance(text, str) else 0
                    file.check_unpacked(unpacked, file.size_bytes)
                    yield text
    except pyarrow.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from error


RECORDS: dict[str, Callable[[TextFile, Iterator[str], str], Iterator[Any]]] = {
    ".json": _json,
    ".jsonl": _json,
    ".ndjson": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
"""How the records of a file are read, by its suffix. A file of any other suffix is text."""
