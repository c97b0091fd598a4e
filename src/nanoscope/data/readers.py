"""Reading documents from text, JSON, JSON Lines, CSV and Parquet files, in pieces of bounded size."""

import codecs
import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from nanoscope.data.download import OnProgress
from nanoscope.data.sources import Sources, TextFile, marked_encoding
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Text

BLOCK_SIZE = 1 << 19  # bytes of a file, or characters of a field, held at once
LINE_LIMIT_CHARACTERS = 1 << 27  # a JSON value or a CSV field must be held in full


class Piece(NamedTuple):
    """Part of a document. A small document is one piece."""

    text: str
    ends_document: bool


class Documents:
    """The documents of some corpora, files and folders; they can be read any number of times."""

    def __init__(
        self,
        sources: Sequence[str | Path],
        field: str | None = None,
        encoding: str = "utf-8",
        ext: Iterable[str] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.sources = [str(source) for source in sources]
        self.field = field or "text"
        self.encoding = encoding
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)  # raises LookupError unless it is a text encoding
            found = Sources(self.sources, ext, field, on_progress)
        except LookupError as error:
            raise UsageError(
                "Unknown text encoding {encoding!r}. Try utf-8, utf-16 or cp1252.", encoding=encoding
            ) from error
        except OSError as error:
            raise JobError("Cannot read {path}: {reason}.", path=error.filename, reason=why(error)) from error
        self.files, self.skipped, self.notes = found.files, found.skipped, found.notes
        self.total_bytes = sum(file.size_bytes for file in self.files)
        self.read_bytes = 0  # so far in the current pass

    def pieces(self) -> Iterator[Piece]:
        """Yield every document of every file, in order, except empty ones."""
        before = 0
        for file in self.files:
            for piece in self._records_in_pieces(file) if file.suffix in _RECORDS else self._text_in_pieces(file):
                self.read_bytes = before + file.read_bytes()
                yield piece
            self.read_bytes = before = before + file.size_bytes

    def _text_in_pieces(self, file: TextFile) -> Iterator[Piece]:
        held = ""  # one block behind, to know which is the last
        for text in self._decoded(file):
            if held and text:
                yield Piece(held, ends_document=False)
            held = text or held
        if held:
            yield Piece(held, ends_document=True)

    def _records_in_pieces(self, file: TextFile) -> Iterator[Piece]:
        """Yield the text of each record, which is an object with the field, or the text itself. Null is skipped."""
        try:
            for number, record in enumerate(_RECORDS[file.suffix](self, file), start=1):
                if isinstance(record, dict):
                    if self.field not in record:
                        raise self._missing_field(file, record)
                    record = record[self.field]
                if record is None:
                    continue
                if not isinstance(record, str):
                    where = Text("{file}, record {number}", file=file.name, number=number)
                    kind = type(record).__name__
                    raise JobError(
                        "{where}: the field {field!r} is {kind}, not text.", where=where, field=self.field, kind=kind
                    )
                if not record.isascii():  # an escape of JSON may be a lone surrogate
                    record = record.encode("utf-8", "replace").decode("utf-8")
                for start in range(0, len(record), BLOCK_SIZE):
                    yield Piece(record[start : start + BLOCK_SIZE], start + BLOCK_SIZE >= len(record))
        except (ValueError, RecursionError, csv.Error) as error:
            kind = file.suffix.removeprefix(".").upper()
            raise JobError(
                "{name} is not a valid {kind} file: {reason}.", name=file.name, kind=kind, reason=why(error)
            ) from error

    def _decoded(self, file: TextFile) -> Iterator[str]:
        """Yield the text of a file in blocks, with all line endings converted to \\n."""
        head, encoding = file.head(), codecs.lookup(self.encoding).name
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
                    place = offset + len(block) - len(error.object) + error.start
                    raise _wrong_encoding(file, encoding, place) from error
                yield text if offset else text.removeprefix("\ufeff")  # the byte order mark
                offset += len(block)
                file.check_unpacked(offset, file.read_bytes())

    def _lines(self, file: TextFile) -> Iterator[str]:
        """Yield the lines of a file, including line endings."""
        rest = ""
        for text in self._decoded(file):
            *lines, rest = (rest + text).split("\n")
            yield from (line + "\n" for line in lines)
            if len(rest) > LINE_LIMIT_CHARACTERS:
                raise ValueError(Text("a value has over {n:,} characters", n=LINE_LIMIT_CHARACTERS))
        if rest:
            yield rest

    def _json(self, file: TextFile) -> Iterator[Any]:
        values = JsonText(self._decoded(file))
        for number, value in enumerate(values):
            alone = number == 0 and isinstance(value, dict) and not values.peek()
            if alone and not isinstance(value.get(self.field), str):
                lists = [held for held in value.values() if isinstance(held, list) and held]
                for kind in (dict, str):
                    records = [held for held in lists if isinstance(held[0], kind)]
                    if len(records) == 1:
                        yield from records[0]
                        return
            yield value

    def _csv(self, file: TextFile) -> Iterator[Any]:
        csv.field_size_limit(LINE_LIMIT_CHARACTERS)
        return csv.DictReader(self._lines(file), delimiter="\t" if file.suffix == ".tsv" else ",")

    def _parquet(self, file: TextFile) -> Iterator[Any]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise JobError(
                '{name} needs pyarrow, which is not installed: pip install "nanoscope[data]"', name=file.name
            ) from error
        try:
            with file.open() as stream:
                table = pyarrow.parquet.ParquetFile(stream)
                if self.field not in table.schema_arrow.names:
                    yield {column.name: "" if "string" in str(column.type) else None for column in table.schema_arrow}
                groups = (table.metadata.row_group(number) for number in range(table.num_row_groups))
                file.check_unpacked(sum(group.total_byte_size for group in groups), file.size_bytes)
                table = pyarrow.parquet.ParquetFile(stream, read_dictionary=[self.field])  # repeated texts: held once
                unpacked = 0  # what it holds repeatedly, the declared size counts once
                for batch in table.iter_batches(batch_size=512, columns=[self.field]):
                    for value in batch.column(0):
                        text = value.as_py()
                        unpacked += len(text) if isinstance(text, str) else 0
                        file.check_unpacked(unpacked, file.size_bytes)
                        yield text
        except pyarrow.ArrowException as error:
            raise ValueError(str(error).splitlines()[0]) from error

    def _missing_field(self, file: TextFile, record: Mapping[str, Any]) -> JobError:
        """The error names the fields, and proposes the closest by name, else the one with the longest text."""
        lengths = {str(name)[:40]: len(value) if isinstance(value, str) else -1 for name, value in record.items()}
        close = get_close_matches(self.field, lengths, n=1)
        best = close[0] if close else max(lengths, key=lengths.__getitem__, default="NAME")
        return JobError(
            "{where} has no field {field!r}. It has: {names}.\nName the one with the text, for example: {command}",
            where=file.name,
            field=self.field,
            names=", ".join([*lengths][:20]),
            command=shlex.join(["nanoscope", "prepare", *self.sources, f"--field={best}"]),
        )


_RECORDS: dict[str, Callable[[Documents, TextFile], Iterator[Any]]] = {
    ".json": Documents._json,
    ".jsonl": Documents._json,
    ".ndjson": Documents._json,
    ".csv": Documents._csv,
    ".tsv": Documents._csv,
    ".parquet": Documents._parquet,
}


def _wrong_encoding(file: TextFile, encoding: str, position: int) -> JobError:
    return JobError(
        "{name} is not {encoding}: byte {position:,} is invalid.\n"
        "If the text has another encoding, name it, for example --encoding=cp1252.",
        name=file.name,
        encoding=encoding.upper(),
        position=position,
    )


class JsonText:
    """The values of a JSON text that arrives in blocks: one after another (JSON Lines), or the elements of arrays."""

    DECODER = json.JSONDecoder()
    NOT_SPACE = re.compile(r"[^ \t\n\r]")
    LONGEST_TOKEN = 16  # characters of an escape or a literal that the end of a block may have cut

    def __init__(self, blocks: Iterator[str]) -> None:
        self._blocks = blocks
        self._text, self._at, self._line = "", 0, 1  # of the text that is held

    def __iter__(self) -> Iterator[Any]:
        while start := self.peek():
            if start != "[":
                yield self._value()
                continue
            self._at += 1
            while self.peek() != "]":
                yield self._value()
                if self.peek() == ",":
                    self._at += 1
                elif self.peek() != "]":
                    raise self._error("Expecting ','", self._at)
            self._at += 1

    def peek(self) -> str:
        """Return the next character that is not white space, or "" at the end."""
        while not (found := self.NOT_SPACE.search(self._text, self._at)):
            self._at = len(self._text)
            if not self._read_more():
                return ""
        self._at = found.start()
        return found[0]

    def _value(self) -> Any:
        """Return the next value, which must fit into memory."""
        self.peek()
        while True:
            try:
                value, end = self.DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - self.LONGEST_TOKEN
                if cut and self._read_more():
                    continue
                raise self._error(error.msg, error.pos) from None
            if end == len(self._text) and self._read_more():
                continue  # a number may go on
            self._at = end
            return value

    def _read_more(self) -> bool:
        """Read as much again as is waiting, so that parsing a long value takes linear time."""
        self._line += self._text.count("\n", 0, self._at)
        parts = [self._text[self._at :]]
        wanted = len(parts[0]) or 1
        if wanted > LINE_LIMIT_CHARACTERS:
            raise ValueError(Text("a value has over {n:,} characters", n=LINE_LIMIT_CHARACTERS))
        while wanted > 0 and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            wanted -= len(block)
        self._text, self._at = "".join(parts), 0
        return len(self._text) > len(parts[0])

    def _error(self, what: str, position: int) -> ValueError:
        line = self._line + self._text.count("\n", 0, position)
        return ValueError(Text("line {line:,}: {what}", line=line, what=what))
