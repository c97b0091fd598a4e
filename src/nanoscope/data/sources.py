"""Where text comes from: corpora, files, folders, zip archives, standard input and URLs."""

import bz2
import gzip
import lzma
import mimetypes
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import urlsplit

from nanoscope.data.corpora import CORPORA
from nanoscope.data.download import OnProgress, download, is_url
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Joined, Text, on_terminal
from nanoscope.suggest import did_you_mean

STDIN = "-"
SUFFIXES = (".txt", ".md", ".text", ".markdown", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
PACKED = (".tar", ".tgz", ".zst")
COMPRESSED: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[dict-item,return-value]
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}
UNICODE_MARKS = {  # UTF-32 first: its little-endian mark begins with that of UTF-16
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
LOOKS_LIKE_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*[{"\]])')
HEAD_BYTES = 1 << 13

# No text of over 1 GiB compresses to a 500th of its size: such a file was made to fill a memory or a disk.
BOMB_BYTES, BOMB_RATIO = 1 << 30, 500


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

    def is_binary(self) -> bool:
        head = self.head()
        return b"\0" in head and marked_encoding(head) is None

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


def named_file(name: str, path: PurePath, size_bytes: int, open_raw: Callable[[], IO[bytes]]) -> TextFile:
    """Return a file whose content is known by the suffixes of its path."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSED else ""
    return TextFile(name, suffixes[-1] if suffixes else "", size_bytes, open_raw, compression)


def local_file(path: Path) -> TextFile:
    return named_file(str(path), path, path.stat().st_size, lambda: path.open("rb"))


class Sources:
    """The files that the arguments of `prepare` stand for, and what was skipped on the way."""

    def __init__(
        self,
        sources: Iterable[str],
        ext: Iterable[str] = (),
        field: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.files: list[TextFile] = []
        self.skipped: Counter[str] = Counter()  # by extension, or by what else was wrong
        self.notes: list[str] = []
        typed = [name.strip().removeprefix("*").removeprefix(".").lower() for word in ext for name in word.split(",")]
        self._wanted = tuple(f".{name}" for name in typed if name)
        self._searched = False  # a folder or an archive
        self._field, self._on_progress = field, on_progress
        for source in sources:
            self._add(source)
        if typed and not (self._wanted and self._searched):
            raise UsageError(
                "--ext names extensions, for example --ext=py,md, and selects the files of folders and zip archives."
            )

    def _add(self, source: str) -> None:
        path = Path(source)
        if source in CORPORA:
            self.files += map(local_file, CORPORA[source].files())
        elif path.is_dir() and not is_url(source):
            self._add_folder(path)
        else:
            if source == STDIN:
                file = self._standard_input()
            elif is_url(source):
                file = self._downloaded(source)
            elif path.is_file():
                file = local_file(path)
            else:
                hint = did_you_mean(source, CORPORA, lambda name: Text("the corpus {name}", name=name))
                raise JobError("There is no file or folder {source!r}.{hint}", source=source, hint=hint)
            if not file.size_bytes:
                raise JobError("{path} is empty.", path=file.name)
            if file.suffix in PACKED:
                raise JobError(
                    "{name} cannot be read as it is. Unpack it into a folder, then: nanoscope prepare FOLDER",
                    name=file.name,
                )
            if file.suffix == ".zip":
                self._add_zip(file)
            else:
                self.files.append(file)

    def _add_folder(self, folder: Path) -> None:
        if (folder / "events.jsonl").is_file() and (folder / "config.toml").is_file():
            raise UsageError(
                "{folder} is a training run, not text. Try: nanoscope explain {quoted}",
                folder=folder,
                quoted=shlex.quote(str(folder)),
            )

        def candidates() -> Iterator[tuple[PurePath, TextFile | None]]:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    yield path.relative_to(folder), local_file(path)
                elif path.is_symlink() or not path.is_dir():  # a loop, a link to nowhere, a pipe
                    yield path.relative_to(folder), None

        self._choose(candidates(), str(folder))

    def _add_zip(self, file: TextFile) -> None:
        try:
            archive = zipfile.ZipFile(file.open_raw())  # stays open: its members are read later, twice
        except zipfile.BadZipFile as error:
            raise JobError("Cannot read {path}: {reason}.", path=file.name, reason=why(error)) from error
        members = [member for member in archive.infolist() if not member.is_dir()]
        file.check_unpacked(sum(member.file_size for member in members), file.size_bytes)

        def candidates() -> Iterator[tuple[PurePath, TextFile]]:
            for member in sorted(members, key=lambda member: member.filename):
                path = PurePath(member.filename)
                yield path, named_file(f"{file.name}/{path}", path, member.file_size, partial(archive.open, member))

        self._choose(candidates(), file.name)

    def _choose(self, candidates: Iterable[tuple[PurePath, TextFile | None]], place: str) -> None:
        """Take the files of a folder or an archive that hold text, and count the others by why they were skipped."""
        self._searched = True
        suffixes = self._wanted or SUFFIXES
        skipped: Counter[str] = Counter()
        files = []
        for path, file in candidates:
            if any(part.startswith(".") for part in path.parts):
                skipped[Text("hidden")] += 1
            elif file is None:
                skipped[Text("not a file")] += 1
            elif file.suffix not in suffixes:
                skipped[file.suffix or Text("without extension")] += 1
            elif file.size_bytes == 0:
                skipped[Text("empty")] += 1
            elif file.suffix != ".parquet" and file.is_binary():
                skipped[Text("binary")] += 1
            else:
                files.append(file)
        if not files:
            raise JobError(
                "{place} contains no {wanted} files. It has: {found}.\n"
                "Select others with --ext, for example --ext=py,md",
                place=place,
                wanted=", ".join(suffixes),
                found=listed(skipped) if skipped else Text("nothing"),
            )
        self.files += files
        self.skipped += skipped

    def _standard_input(self) -> TextFile:
        """Copy standard input to a file, because a dataset takes two passes. The system removes the file."""
        if sys.stdin.isatty():
            print(on_terminal(Text("reading standard input; end it with Ctrl-D")), file=sys.stderr)
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the TextFile)
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()

        def rewound() -> IO[bytes]:
            file = os.fdopen(os.dup(spool.fileno()), "rb")
            file.seek(0)
            return file

        return self._recognised("standard input", spool.tell(), rewound)

    def _downloaded(self, url: str) -> TextFile:
        got = download(url, self._on_progress)
        if got.note:
            self.notes.append(got.note)
        size_bytes, open_raw = got.path.stat().st_size, lambda: got.path.open("rb")
        media_type = f"x{mimetypes.guess_extension(got.media_type) or ''}"
        for address in (url, got.final_url, media_type):
            file = named_file(url, PurePath(urlsplit(address).path), size_bytes, open_raw)
            if file.suffix in (*SUFFIXES, *self._wanted, *PACKED, ".json", ".zip"):
                return file
        return self._recognised(url, size_bytes, open_raw)

    def _recognised(self, name: str, size_bytes: int, open_raw: Callable[[], IO[bytes]]) -> TextFile:
        """Return a file without a name, whose content is recognised by how it begins."""
        with open_raw() as raw:
            start = raw.read(8)
        compression = next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), "")
        file = TextFile(name, ".csv" if self._field else ".txt", size_bytes, open_raw, compression)
        head = file.head()
        if head.startswith(b"PK\x03\x04"):
            file.suffix = ".zip"
        elif head.startswith(b"PAR1"):
            file.suffix = ".parquet"
        elif LOOKS_LIKE_JSON.match(head):
            file.suffix = ".json"
        return file


def listed(skipped: Counter[str]) -> Text:
    """12 .py, 3 .html, 1 hidden."""
    shown: list[str] = [Text("{count:,} {kind}", count=count, kind=kind) for kind, count in skipped.most_common(6)]
    return Joined(", ", [*shown, "…"] if len(skipped) > 6 else shown)
