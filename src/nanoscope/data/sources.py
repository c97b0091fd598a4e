"""Where text comes from: corpora, files, folders, zip archives, standard input and URLs."""

import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any
from urllib.parse import urlsplit

from nanoscope.data.corpora import CORPORA
from nanoscope.data.download import OnProgress, download, is_url
from nanoscope.data.readers import COMPRESSED, RECORDS, MissingFieldError, Piece, TextFile, marked_encoding, read_pieces
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Message, Shown, joined, on_terminal
from nanoscope.suggest import did_you_mean

STDIN = "-"
SUFFIXES = (".txt", ".md", ".text", ".markdown", *(suffix for suffix in RECORDS if suffix != ".json"))
PACKED = (".tar", ".tgz", ".zst")
BEGINNINGS = {  # of files without a suffix
    rb"\x1f\x8b": ".gz",
    rb"BZh": ".bz2",
    rb"\xfd7zXZ": ".xz",
    rb"PK\x03\x04": ".zip",
    rb"PAR1": ".parquet",
    rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*[{"\]])': ".json",
}


def file_of(name: str, path: PurePath, size_bytes: int, open_raw: Callable[[], IO[bytes]]) -> TextFile:
    """Return a file whose content is known by the suffixes of its path."""
    suffixes = ["", *(suffix.lower() for suffix in path.suffixes)]
    compression = suffixes.pop() if suffixes[-1] in COMPRESSED else ""
    return TextFile(name, suffixes[-1], size_bytes, open_raw, compression)


def local_file(path: Path) -> TextFile:
    return file_of(str(path), path, path.stat().st_size, lambda: path.open("rb"))


class Documents:
    """The documents of the files that the arguments of `prepare` stand for, which can be read any number of times."""

    def __init__(
        self,
        sources: Sequence[str | Path],
        field: str | None = None,
        encoding: str = "utf-8",
        ext: Iterable[str] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.sources = [str(source) for source in sources]
        self.files: list[TextFile] = []
        self.skipped: Counter[Shown] = Counter()  # by extension, or by what else was wrong
        self.notes: list[Shown] = []
        self._field, self._encoding, self._on_progress = field, encoding, on_progress
        typed = [name.strip().removeprefix("*").removeprefix(".").lower() for word in ext for name in word.split(",")]
        self._wanted = tuple(f".{name}" for name in typed if name)
        self._chosen = False  # from a folder or an archive
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)  # raises LookupError unless it is a text encoding
            for source in self.sources:
                self._add(source)
        except LookupError as error:
            raise UsageError(
                "Unknown text encoding {encoding!r}. Try utf-8, utf-16 or cp1252.", encoding=encoding
            ) from error
        except OSError as error:
            raise JobError("Cannot read {path}: {reason}.", path=error.filename, reason=why(error)) from error
        if typed and not (self._wanted and self._chosen):
            raise UsageError(
                "--ext names extensions, for example --ext=py,md, and selects the files of folders and zip archives."
            )
        self.total_bytes = sum(file.size_bytes for file in self.files)

    def pieces(self, stage: Shown = "") -> Iterator[Piece]:
        """Yield every document of every file, in order, except empty ones; report progress under the name `stage`."""
        before, reported, field = 0, -1, self._field or "text"
        for file in self.files:
            try:
                for piece in read_pieces(file, field, self._encoding):
                    read = before + file.read_bytes()
                    if self._on_progress and stage and read != reported:
                        reported = read
                        self._on_progress(stage, read / self.total_bytes)
                    yield piece
            except MissingFieldError as error:
                raise self._missing_field(file, field, error.args[0]) from None
            before += file.size_bytes

    def _missing_field(self, file: TextFile, field: str, record: dict[str, Any]) -> JobError:
        """The error names the fields, and proposes the one with the longest text."""
        lengths = {str(name)[:40]: len(value) if isinstance(value, str) else -1 for name, value in record.items()}
        best = max(lengths, key=lengths.__getitem__, default="NAME")
        return JobError(
            "{where} has no field {field!r}. It has: {names}.\nName the one with the text, for example: {command}",
            where=file.name,
            field=field,
            names=", ".join([*lengths][:20]),
            command=shlex.join(["nanoscope", "prepare", *self.sources, f"--field={best}"]),
        )

    def _add(self, source: str) -> None:
        path = Path(source)
        if source in CORPORA:
            self.files += map(local_file, CORPORA[source].files())
            return
        if path.is_dir() and not is_url(source):
            self._choose(_files_in(path), source)
            return
        if source == STDIN:
            file = self._standard_input()
        elif is_url(source):
            file = self._downloaded(source)
        elif path.is_file():
            file = local_file(path)
        else:
            hint = did_you_mean(source, CORPORA, lambda name: Message("the corpus {name}", name=name))
            raise JobError("There is no file or folder {source!r}.{hint}", source=source, hint=hint)
        if not file.size_bytes:
            raise JobError("{path} is empty.", path=file.name)
        if file.suffix in PACKED:
            raise JobError(
                "{name} cannot be read as it is. Unpack it into a folder, then: nanoscope prepare FOLDER",
                name=file.name,
            )
        if file.suffix == ".zip":
            self._choose(_members_of(file), file.name)
        else:
            self.files.append(file)

    def _choose(self, candidates: Iterable[tuple[PurePath, TextFile | None]], place: str) -> None:
        """Take the files of a folder or an archive that hold text, and count the others by why they were skipped."""
        self._chosen = True
        suffixes = self._wanted or SUFFIXES
        skipped: Counter[Shown] = Counter()
        before = len(self.files)
        for path, file in candidates:
            if any(part.startswith(".") for part in path.parts):
                skipped[Message("hidden")] += 1
            elif file is None:
                skipped[Message("not a file")] += 1
            elif file.suffix not in suffixes:
                skipped[file.suffix or Message("without extension")] += 1
            elif file.size_bytes == 0:
                skipped[Message("empty")] += 1
            elif file.suffix != ".parquet" and b"\0" in (head := file.head()) and not marked_encoding(head):
                skipped[Message("binary")] += 1
            else:
                self.files.append(file)
        if len(self.files) == before:
            raise JobError(
                "{place} contains no {wanted} files. It has: {found}.\n"
                "Select others with --ext, for example --ext=py,md",
                place=place,
                wanted=", ".join(suffixes),
                found=listed(skipped) if skipped else Message("nothing"),
            )
        self.skipped += skipped

    def _standard_input(self) -> TextFile:
        """Copy standard input to a file, because a dataset takes two passes. The system removes the file."""
        if sys.stdin.isatty():
            print(on_terminal(Message("reading standard input; end it with Ctrl-D")), file=sys.stderr)
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the TextFile)
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()

        def rewound() -> IO[bytes]:
            file = os.fdopen(os.dup(spool.fileno()), "rb")
            file.seek(0)
            return file

        return self._recognised("standard input", spool.tell(), rewound)

    def _downloaded(self, url: str) -> TextFile:
        path, note = download(url, self._on_progress)
        self.notes += [note] if note else []
        content = path.stat().st_size, lambda: path.open("rb")
        file = file_of(url, PurePath(urlsplit(url).path), *content)
        known = file.suffix in (*SUFFIXES, *self._wanted, *PACKED, ".json", ".zip")
        return file if known else self._recognised(url, *content)

    def _recognised(self, name: str, size_bytes: int, open_raw: Callable[[], IO[bytes]]) -> TextFile:
        """Return a file without a name, whose content is recognised by how it begins."""
        file = TextFile(name, "", size_bytes, open_raw)
        for _ in range(2):  # the compression, then what is in it
            head = file.head()
            found = next((suffix for start, suffix in BEGINNINGS.items() if re.match(start, head)), "")
            if found not in COMPRESSED:
                break
            file.compression = found
        file.suffix = found or (".csv" if self._field else ".txt")
        return file


def _files_in(folder: Path) -> Iterator[tuple[PurePath, TextFile | None]]:
    """Everything in a folder but folders, in order; None for a loop, a link to nowhere and a pipe."""
    if (folder / "events.jsonl").is_file() and (folder / "config.toml").is_file():
        raise UsageError(
            "{folder} is a training run, not text. Try: nanoscope explain {quoted}",
            folder=folder,
            quoted=shlex.quote(str(folder)),
        )
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder), local_file(path) if path.is_file() else None


def _members_of(file: TextFile) -> Iterator[tuple[PurePath, TextFile]]:
    """The files in a zip archive, in order."""
    try:
        archive = zipfile.ZipFile(file.open_raw())  # stays open: its members are read later, twice
    except zipfile.BadZipFile as error:
        raise JobError("Cannot read {path}: {reason}.", path=file.name, reason=why(error)) from error
    members = sorted((each for each in archive.infolist() if not each.is_dir()), key=lambda each: each.filename)
    file.check_unpacked(sum(member.file_size for member in members), file.size_bytes)
    for member in members:
        path = PurePath(member.filename)
        yield path, file_of(f"{file.name}/{path}", path, member.file_size, partial(archive.open, member))


def listed(skipped: Counter[Shown]) -> Message:
    """12 .py, 3 .html, 1 hidden."""
    shown: list[Shown] = [Message("{count:,} {kind}", count=count, kind=kind) for kind, count in skipped.most_common(6)]
    return joined(", ", [*shown, "…"] if len(skipped) > 6 else shown)
