"""Reading documents from text, JSON, JSON Lines, CSV and Parquet files, in pieces of bounded size."""

import codecs
import csv
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from nanoscope.data.download import OnProgress
from nanoscope.data.json_records import JsonReader, NotJsonError, SeveralArraysError, find_records, records
from nanoscope.data.sources import BOMB_BYTES, BOMB_RATIO, Sources, TextFile, bomb, marked_encoding
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
        except LookupError as error:
            raise UsageError(
                "Unknown text encoding {encoding!r}. Try utf-8, utf-16 or cp1252.", encoding=encoding
            ) from error
        found = Sources(ext, field, on_progress)
        try:
            for source in self.sources:
                found.add(source)
            found.check_ext()
        except OSError as error:
            raise JobError("Cannot read {path}: {reason}.", path=error.filename, reason=why(error)) from error
        self.files, self.skipped, self.notes = found.files, found.skipped, found.notes
        self.total_bytes = sum(file.size_bytes for file in self.files)
        self.read_bytes = 0  # so far in the current pass
        self._arrays: dict[str, str | None] = {}  # of each JSON file, the array that holds the records

    @property
    def skipped_files(self) -> int:
        return self.skipped.total()

    def pieces(self) -> Iterator[Piece]:
        """Yield every document of every file, in order, except empty ones."""
        self.read_bytes = 0
        for file in self.files:
            start_bytes = self.read_bytes
            reader = _READERS.get(file.suffix, Documents._text_file)
            yield from reader(self, file)
            self.read_bytes = start_bytes + file.size_bytes

    def _decoded(self, file: TextFile) -> Iterator[str]:
        """Yield the text of a file in blocks, with all line endings converted to \\n."""
        head = file.head()
        marked = marked_encoding(head) if codecs.lookup(self.encoding).name == "utf-8" else None
        encoding = marked or self.encoding
        if b"\0" in head and codecs.lookup(encoding).name == "utf-8":
            raise _not_text(file, head)
        decoder = codecs.getincrementaldecoder(encoding)()
        newlines = io.IncrementalNewlineDecoder(None, translate=True)
        start_bytes, offset = self.read_bytes, 0
        with file.open() as (stream, position):
            while True:
                block = stream.read(BLOCK_SIZE)
                waiting = len(decoder.getstate()[0])
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    raise JobError(
                        "{name} is not {encoding}: byte {position:,} is invalid.\n"
                        "If the text has another encoding, name it, for example --encoding=cp1252.",
                        name=file.name,
                        encoding=encoding.upper(),
                        position=offset - waiting + error.start,
                    ) from error
                if offset == 0:
                    text = text.removeprefix("\ufeff")  # the byte order mark
                yield newlines.decode(text, final=not block)
                if not block:
                    return
                offset += len(block)
                if offset > max(BOMB_BYTES, BOMB_RATIO * position()):
                    raise bomb(file.name, offset)
                self.read_bytes = start_bytes + position()

    def _text_file(self, file: TextFile) -> Iterator[Piece]:
        held = ""  # one block behind, to know which is the last
        for text in self._decoded(file):
            if held and text:
                yield Piece(held, ends_document=False)
            held = text or held
        if held:
            yield Piece(held, ends_document=True)

    def _lines(self, file: TextFile) -> Iterator[str]:
        """Yield the lines of a file, including line endings."""
        rest = ""
        for text in self._decoded(file):
            *lines, rest = (rest + text).split("\n")
            yield from (line + "\n" for line in lines)
            if len(rest) > LINE_LIMIT_CHARACTERS:
                raise JobError(
                    "{name} has a line of over {limit:,} characters: is this its format?",
                    name=file.name,
                    limit=LINE_LIMIT_CHARACTERS,
                )
        if rest:
            yield rest

    def _json_lines(self, file: TextFile) -> Iterator[Piece]:
        for number, line in enumerate(self._lines(file), start=1):
            if line.isspace():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise JobError(
                    "{file}, line {line} is not JSON: {reason}.", file=file.name, line=number, reason=why(error)
                ) from error
            yield from self._record(record, Text("{file}, line {line}", file=file.name, line=number))

    def _json_file(self, file: TextFile) -> Iterator[Piece]:
        def read() -> JsonReader:
            return JsonReader(self._decoded(file), LINE_LIMIT_CHARACTERS)

        try:
            if file.name not in self._arrays:
                self._arrays[file.name] = find_records(read(), self.field)
            for number, record in enumerate(records(read(), self._arrays[file.name]), start=1):
                yield from self._record(record, Text("{file}, record {number}", file=file.name, number=number))
        except NotJsonError as error:
            raise JobError("{name} is not JSON: {reason}.", name=file.name, reason=why(error)) from error
        except SeveralArraysError as error:
            raise JobError(
                "{name} has several lists of records: {lists}.\nSave one of them as a file of its own.",
                name=file.name,
                lists=error,
            ) from error

    def _record(self, record: Any, where: Text | str) -> Iterator[Piece]:
        """Yield the text of a JSON record: an object with the field, or the text itself."""
        if isinstance(record, dict):
            if self.field not in record:
                raise self._missing_field(where, record)
            record = record[self.field]
        elif not isinstance(record, str):
            raise JobError("{where} is not a JSON object with a field {field!r}.", where=where, field=self.field)
        if isinstance(record, str) and not record.isascii():  # an escape may be a lone surrogate
            record = record.encode("utf-8", "replace").decode("utf-8")
        yield from self._document(record, where)

    def _csv_file(self, file: TextFile) -> Iterator[Piece]:
        csv.field_size_limit(LINE_LIMIT_CHARACTERS)
        rows = csv.reader(self._lines(file), delimiter="\t" if file.suffix == ".tsv" else ",")
        try:
            columns = next(rows, [])
            if self.field not in columns:
                cells = (None if cell.replace(".", "").isdigit() else cell for cell in next(rows, columns))
                raise self._missing_field(file.name, dict(zip(columns, cells, strict=False)))
            column = columns.index(self.field)
            for row in rows:
                if row and len(row) <= column:
                    raise JobError(
                        "{name}, line {line_num} has {columns} columns instead of {expected}.",
                        name=file.name,
                        line_num=rows.line_num,
                        columns=len(row),
                        expected=len(columns),
                    )
                yield from self._document(row[column] if row else "", file.name)
        except csv.Error as error:
            raise JobError(
                "{name}, line {line_num} is not CSV: {reason}.",
                name=file.name,
                line_num=rows.line_num,
                reason=why(error),
            ) from error

    def _parquet_file(self, file: TextFile) -> Iterator[Piece]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise JobError(
                '{name} needs pyarrow, which is not installed: pip install "nanoscope[data]"', name=file.name
            ) from error
        start_bytes, rows_read, unpacked = self.read_bytes, 0, 0
        try:
            with file.open() as (stream, _):
                table = pyarrow.parquet.ParquetFile(stream)
                if self.field not in table.schema_arrow.names:
                    texts = {column.name: "" if "string" in str(column.type) else None for column in table.schema_arrow}
                    raise self._missing_field(file.name, texts)
                self._check_parquet(file, table.metadata)
                table = pyarrow.parquet.ParquetFile(stream, read_dictionary=[self.field])  # repeated texts: held once
                for batch in table.iter_batches(batch_size=512, columns=[self.field]):
                    for value in batch.column(0):
                        text = value.as_py()
                        unpacked += len(text) if isinstance(text, str) else 0
                        if unpacked > max(BOMB_BYTES, BOMB_RATIO * file.size_bytes):
                            raise bomb(file.name, unpacked)
                        yield from self._document(text, Text("{file}, row {number}", file=file.name, number=rows_read))
                        rows_read += 1
                    self.read_bytes = start_bytes + file.size_bytes * rows_read // max(table.metadata.num_rows, 1)
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise JobError(
                "{name} is not a valid Parquet file: {reason}", name=file.name, reason=str(error).splitlines()[0]
            ) from error

    def _check_parquet(self, file: TextFile, declared: Any) -> None:
        """Refuse a file that says itself that it unpacks to an absurd size. What it holds repeatedly it counts once."""
        groups = (declared.row_group(number) for number in range(declared.num_row_groups))
        columns = (group.column(number) for group in groups for number in range(group.num_columns))
        sizes = [column.total_uncompressed_size for column in columns if column.path_in_schema == self.field]
        if sum(sizes) > max(BOMB_BYTES, BOMB_RATIO * file.size_bytes):
            raise bomb(file.name, sum(sizes))

    def _document(self, text: Any, where: Text | str) -> Iterator[Piece]:
        """Yield the value of a field in pieces; null and empty values are skipped."""
        if text is None:
            return
        if not isinstance(text, str):
            raise JobError(
                "{where}: the field {field!r} is {kind}, not text.",
                where=where,
                field=self.field,
                kind=type(text).__name__,
            )
        for start in range(0, len(text), BLOCK_SIZE):
            yield Piece(text[start : start + BLOCK_SIZE], ends_document=start + BLOCK_SIZE >= len(text))

    def _missing_field(self, where: Text | str, record: Mapping[str, Any]) -> JobError:
        """The error names the fields that hold text, and proposes the closest by name, else the longest."""
        texts = {str(name)[:40]: value for name, value in record.items() if isinstance(value, str)}
        if not texts:
            names = [str(name)[:40] for name in record]
            return JobError(
                "{where} has no field {field!r}.\nNone of its fields holds text: {names}.",
                where=where,
                field=self.field,
                names=", ".join(names[:20]) or Text("it has none"),
            )
        close = get_close_matches(self.field, texts, n=1)
        best = close[0] if close else max(texts, key=lambda name: len(texts[name]))
        words = ["nanoscope", "prepare", *self.sources, f"--field={best}"]
        return JobError(
            "{where} has no field {field!r}. These hold text: {names}.\nFor example: {command}",
            where=where,
            field=self.field,
            names=", ".join([*texts][:20]),
            command=shlex.join(words),
        )


_READERS = {
    ".json": Documents._json_file,
    ".jsonl": Documents._json_lines,
    ".ndjson": Documents._json_lines,
    ".csv": Documents._csv_file,
    ".tsv": Documents._csv_file,
    ".parquet": Documents._parquet_file,
}


def _not_text(file: TextFile, head: bytes) -> JobError:
    """The error about NUL bytes: every second byte of most UTF-16 is one."""
    for encoding, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[start::2].count(0) > len(head) // 5 > head[1 - start :: 2].count(0):
            return JobError(
                "{name} is not UTF-8. It looks like UTF-16: add --encoding={encoding}",
                name=file.name,
                encoding=encoding,
            )
    return JobError("{name} is not a text file: it has NUL bytes.", name=file.name)
