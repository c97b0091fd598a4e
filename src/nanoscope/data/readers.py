"""Reading documents from text, JSON Lines, CSV and Parquet files and folders, in pieces of bounded size."""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.errors import JobError, UsageError
from nanoscope.suggest import did_you_mean

BLOCK_SIZE = 1 << 19  # bytes of a file, or characters of a field, held at once
LINE_LIMIT_CHARACTERS = 1 << 27  # a JSON line or a CSV field must be held in full
TEXT_SUFFIXES = (".txt", ".md", ".text", ".markdown")
ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


class Piece(NamedTuple):
    """Part of a document. A small document is one piece."""

    text: str
    ends_document: bool


class Documents:
    """The documents of some corpora, files and folders; they can be read any number of times."""

    def __init__(self, sources: Sequence[str | Path], field: str | None = None, encoding: str = "utf-8") -> None:
        self.field = field or "text"
        self.encoding = encoding
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)  # raises LookupError unless it is a text encoding
        except LookupError as error:
            raise UsageError(f"Unknown text encoding {encoding!r}. Try utf-8, utf-16 or cp1252.") from error
        self.files: list[Path] = []
        self.skipped_files = 0
        try:
            for source in sources:
                self._add(str(source))
            self.total_bytes = sum(file.stat().st_size for file in self.files)
        except OSError as error:
            raise JobError(f"Cannot read {error.filename}: {error.strerror}.") from error
        self.read_bytes = 0  # so far in the current pass

    def _add(self, source: str) -> None:
        path = Path(source)
        corpus = ALIASES[source][0] if source in ALIASES else source
        if corpus in CORPORA:
            self.files += CORPORA[corpus].files()
        elif path.is_dir():
            found = [file for file in sorted(path.rglob("*")) if file.is_file()]
            usable = [file for file in found if _is_usable(file, path)]
            self.skipped_files += len(found) - len(usable)
            if not usable:
                raise JobError(
                    f"{path} contains no supported files ({len(found)} others).\n"
                    f"Supported: {' '.join(TEXT_SUFFIXES + ROW_SUFFIXES)} (also with .gz)."
                )
            self.files += usable
        elif path.is_file():
            if path.stat().st_size == 0:
                raise JobError(f"{path} is empty.")
            self.files.append(path)
        else:
            hint = did_you_mean(source, CORPORA, "the corpus {}".format)
            raise JobError(f"There is no file or folder {source!r}.{hint}")

    def pieces(self) -> Iterator[Piece]:
        """Yield every document of every file, in order, except empty ones."""
        self.read_bytes = 0
        for file in self.files:
            start_bytes = self.read_bytes
            reader = _READERS.get(_suffix(file), Documents._text_file)
            try:
                yield from reader(self, file)
            except (OSError, EOFError, zlib.error) as error:
                raise JobError(f"Cannot read {file}: {getattr(error, 'strerror', None) or error}.") from error
            self.read_bytes = start_bytes + file.stat().st_size

    def _decoded(self, file: Path) -> Iterator[str]:
        """Yield the text of a file in blocks, with all line endings converted to \\n."""
        decoder = codecs.getincrementaldecoder(self.encoding)()
        newlines = io.IncrementalNewlineDecoder(None, translate=True)
        start_bytes, offset = self.read_bytes, 0
        with file.open("rb") as raw, _decompressed(raw, file) as stream:
            while True:
                block = stream.read(BLOCK_SIZE)
                waiting = len(decoder.getstate()[0])
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    raise self._wrong_encoding(file, offset - waiting + error.start) from error
                if offset == 0:
                    text = text.removeprefix("\ufeff")  # the byte order mark
                yield newlines.decode(text, final=not block)
                if not block:
                    return
                offset += len(block)
                self.read_bytes = start_bytes + raw.tell()

    def _wrong_encoding(self, file: Path, offset: int) -> JobError:
        if _is_binary(file):
            return JobError(f"{file} is not a text file (it has NUL bytes, and byte {offset:,} is invalid).")
        return JobError(
            f"{file} is not {self.encoding.upper()}: byte {offset:,} is invalid.\n"
            f"If the text has another encoding, name it, for example --encoding={_likely_encoding(file)}."
        )

    def _text_file(self, file: Path) -> Iterator[Piece]:
        held = ""  # one block behind, to know which is the last
        for text in self._decoded(file):
            if held and text:
                yield Piece(held, ends_document=False)
            held = text or held
        if held:
            yield Piece(held, ends_document=True)

    def _lines(self, file: Path) -> Iterator[str]:
        """Yield the lines of a file, including line endings."""
        rest = ""
        for text in self._decoded(file):
            *lines, rest = (rest + text).split("\n")
            yield from (line + "\n" for line in lines)
            if len(rest) > LINE_LIMIT_CHARACTERS:
                raise JobError(f"{file} has a line of over {LINE_LIMIT_CHARACTERS:,} characters: is this its format?")
        if rest:
            yield rest

    def _json_lines(self, file: Path) -> Iterator[Piece]:
        for number, line in enumerate(self._lines(file), start=1):
            if line.isspace():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise JobError(f"{file}, line {number} is not JSON: {error}.") from error
            if not isinstance(row, dict):
                raise JobError(f"{file}, line {number} is not a JSON object with a field {self.field!r}.")
            if self.field not in row:
                raise self._missing_field(f"{file}, line {number}", row)
            text = row[self.field]
            if isinstance(text, str) and "\\u" in line:  # an escape may be a lone surrogate
                text = text.encode("utf-8", "replace").decode("utf-8")
            yield from self._document(text, f"{file}, line {number}")

    def _csv_file(self, file: Path) -> Iterator[Piece]:
        csv.field_size_limit(LINE_LIMIT_CHARACTERS)
        rows = csv.reader(self._lines(file), delimiter="\t" if _suffix(file) == ".tsv" else ",")
        try:
            columns = next(rows, [])
            if self.field not in columns:
                raise self._missing_field(str(file), columns)
            column = columns.index(self.field)
            for row in rows:
                if row and len(row) <= column:
                    raise JobError(f"{file}, line {rows.line_num} has {len(row)} columns instead of {len(columns)}.")
                yield from self._document(row[column] if row else "", str(file))
        except csv.Error as error:
            raise JobError(f"{file}, line {rows.line_num} is not CSV: {error}.") from error

    def _parquet_file(self, file: Path) -> Iterator[Piece]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise JobError(
                f'{file.name} needs pyarrow, which is not installed: pip install "nanoscope[data]"'
            ) from error
        start_bytes, size_bytes, rows_read = self.read_bytes, file.stat().st_size, 0
        try:
            table = pyarrow.parquet.ParquetFile(file)
            if self.field not in table.schema_arrow.names:
                raise self._missing_field(str(file), table.schema_arrow.names)
            for batch in table.iter_batches(batch_size=512, columns=[self.field]):
                for text in batch.column(0).to_pylist():
                    yield from self._document(text, f"{file}, row {rows_read}")
                    rows_read += 1
                self.read_bytes = start_bytes + size_bytes * rows_read // max(table.metadata.num_rows, 1)
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise JobError(f"{file} is not a valid Parquet file: {str(error).splitlines()[0]}") from error

    def _document(self, text: Any, where: str) -> Iterator[Piece]:
        """Yield the value of a field in pieces; null and empty values are skipped."""
        if text is None:
            return
        if not isinstance(text, str):
            raise JobError(f"{where}: the field {self.field!r} is {type(text).__name__}, not text.")
        for start in range(0, len(text), BLOCK_SIZE):
            yield Piece(text[start : start + BLOCK_SIZE], ends_document=start + BLOCK_SIZE >= len(text))

    def _missing_field(self, where: str, fields: Iterable[str]) -> JobError:
        names = [str(field)[:40] for field in fields]
        return JobError(
            f"{where} has no field {self.field!r}.{did_you_mean(self.field, names, repr)}\n"
            f"It has: {', '.join(names[:20]) or 'none'}. Choose one with --field=NAME."
        )


_READERS = {
    ".jsonl": Documents._json_lines,
    ".ndjson": Documents._json_lines,
    ".csv": Documents._csv_file,
    ".tsv": Documents._csv_file,
    ".parquet": Documents._parquet_file,
}


def _suffix(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _decompressed(raw: IO[bytes], file: Path) -> IO[bytes]:
    return gzip.GzipFile(fileobj=raw) if file.suffix.lower() == ".gz" else raw  # type: ignore[return-value]


def _is_usable(file: Path, folder: Path) -> bool:
    """Return whether a file in a folder is read: a supported type, not hidden, not empty, not binary."""
    suffix = _suffix(file)
    if suffix not in TEXT_SUFFIXES + ROW_SUFFIXES or file.stat().st_size == 0:
        return False
    if any(part.startswith(".") for part in file.relative_to(folder).parts):
        return False
    return suffix == ".parquet" or file.suffix.lower() == ".gz" or not _is_binary(file)


def _head(file: Path) -> bytes:
    with file.open("rb") as raw:
        return raw.read(1 << 13)


def _likely_encoding(file: Path) -> str:
    return "utf-16" if _head(file)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "cp1252"


def _is_binary(file: Path) -> bool:
    return b"\0" in _head(file) and _likely_encoding(file) != "utf-16"
