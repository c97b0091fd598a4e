"""Where text comes from: corpora, files, folders, zip archives, standard input and URLs."""

import bz2
import gzip
import lzma
import os
import re
import shlex
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

from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.data.download import OnProgress, check_space, download, is_url
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Joined, Text, on_terminal
from nanoscope.suggest import did_you_mean

STDIN = "-"
TEXT_SUFFIXES = (".txt", ".md", ".text", ".markdown")
ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
COMPRESSED: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[dict-item,return-value]
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}
MEDIA_TYPES = {
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/json": ".json",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
    "application/zip": ".zip",
}
UNICODE_MARKS = {  # UTF-32 first: its little-endian mark begins with that of UTF-16
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
LOOKS_LIKE_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*[{"\]])')
HEAD_BYTES = 1 << 13
SPOOL_BLOCK_BYTES = 1 << 22

# No text of over 1 GiB compresses to a 500th of its size: such a file was made to fill a memory or a disk.
BOMB_BYTES, BOMB_RATIO = 1 << 30, 500


@dataclass(frozen=True)
class TextFile:
    """Something to read text from: a file, a member of a zip archive, or standard input."""

    name: str
    suffix: str
    """What it holds, which decides how it is read: .txt, .jsonl, …; without that of the compression."""
    size_bytes: int
    open_raw: Callable[[], IO[bytes]]
    compression: str = ""

    @contextmanager
    def open(self) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """Open the decompressed content; the function returns how many of the `size_bytes` were read so far."""
        try:
            with self.open_raw() as raw:
                yield COMPRESSED[self.compression](raw) if self.compression else raw, raw.tell
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError) as error:
            raise JobError("Cannot read {path}: {reason}.", path=self.name, reason=why(error)) from error

    def head(self) -> bytes:
        with self.open() as (stream, _):
            return stream.read(HEAD_BYTES)

    def is_binary(self) -> bool:
        head = self.head()
        return b"\0" in head and marked_encoding(head) is None


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


def extensions(typed: Iterable[str]) -> tuple[str, ...]:
    """Return the suffixes that --ext names: py,md or .py."""
    names = [name.strip().removeprefix("*").removeprefix(".").lower() for word in typed for name in word.split(",")]
    wanted = tuple(f".{name}" for name in names if name)
    if typed and not wanted:
        raise UsageError("--ext needs extensions, for example --ext=py,md")
    return wanted


class Sources:
    """The files that the arguments of `prepare` stand for, and what was skipped on the way."""

    def __init__(
        self, ext: Iterable[str] = (), field: str | None = None, on_progress: OnProgress | None = None
    ) -> None:
        self.files: list[TextFile] = []
        self.skipped: Counter[str] = Counter()  # by extension, or by what else was wrong
        self.notes: list[str] = []
        self._wanted = extensions(ext)
        self._searched = False  # a folder or an archive
        self._source = ""  # the current one, as it was typed
        self._field = field
        self._on_progress = on_progress

    def add(self, source: str) -> None:
        self._source, path = source, Path(source)
        corpus = ALIASES[source][0] if source in ALIASES else source
        if corpus in CORPORA:
            self.files += map(local_file, CORPORA[corpus].files())
        elif source == STDIN:
            self._add_file(self._standard_input())
        elif is_url(source):
            self._add_file(self._downloaded(source))
        elif path.is_dir():
            self._add_folder(path)
        elif path.is_file():
            if path.stat().st_size == 0:
                raise JobError("{path} is empty.", path=path)
            self._add_file(local_file(path))
        else:
            hint = did_you_mean(source, CORPORA, lambda name: Text("the corpus {name}", name=name))
            raise JobError("There is no file or folder {source!r}.{hint}", source=source, hint=hint)

    def check_ext(self) -> None:
        """Raise UsageError if --ext was given without a folder to search."""
        if self._wanted and not self._searched:
            raise UsageError("--ext selects the files of folders and zip archives, and none was given: leave it out.")

    def _add_file(self, file: TextFile) -> None:
        if file.suffix == ".zip":
            self._add_zip(file)
            return
        if file.suffix in (".tar", ".tgz"):
            raise JobError(
                "{name} is a tar archive. Unpack it into a folder, then: nanoscope prepare FOLDER", name=file.name
            )
        if file.suffix == ".zst":
            raise JobError(
                "{name} is compressed with zstd. Try: zstd -dc {quoted} | nanoscope prepare -",
                name=file.name,
                quoted=shlex.quote(file.name),
            )
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
            raise JobError("{name} is not a valid zip archive: {reason}.", name=file.name, reason=why(error)) from error
        members = [member for member in archive.infolist() if not member.is_dir()]
        total_bytes = sum(member.file_size for member in members)
        if total_bytes > max(BOMB_BYTES, BOMB_RATIO * file.size_bytes):
            raise bomb(file.name, total_bytes)
        if any(member.flag_bits & 1 for member in members):
            raise JobError(
                "{name} is encrypted. Unpack it into a folder, then: nanoscope prepare FOLDER", name=file.name
            )

        def candidates() -> Iterator[tuple[PurePath, TextFile]]:
            for member in sorted(members, key=lambda member: member.filename):
                path = PurePath(member.filename)
                yield path, named_file(f"{file.name}/{path}", path, member.file_size, partial(archive.open, member))

        self._choose(candidates(), file.name)

    def _choose(self, candidates: Iterable[tuple[PurePath, TextFile | None]], place: str) -> None:
        """Take the files of a folder or an archive that hold text, and count the others by why they were skipped."""
        self._searched = True
        suffixes = self._wanted or TEXT_SUFFIXES + ROW_SUFFIXES
        skipped: Counter[str] = Counter()
        examples: dict[str, TextFile] = {}
        files = []
        for path, file in candidates:
            if any(part.startswith(".") for part in path.parts):
                skipped[Text("hidden")] += 1
            elif file is None:
                skipped[Text("not a file")] += 1
            elif file.suffix not in suffixes:
                skipped[file.suffix or Text("without extension")] += 1
                examples.setdefault(file.suffix, file)
            elif file.size_bytes == 0:
                skipped[Text("empty")] += 1
            elif file.suffix != ".parquet" and file.is_binary():
                skipped[Text("binary")] += 1
            else:
                files.append(file)
        if not files:
            raise self._nothing_chosen(place, skipped, examples)
        self.files += files
        self.skipped += skipped

    def _nothing_chosen(self, place: str, skipped: Counter[str], examples: dict[str, TextFile]) -> JobError:
        found: dict[str, object] = {"place": place, "found": listed(skipped) if skipped else Text("nothing")}
        if self._wanted:
            missing = Text(
                "{place} contains no {wanted} files. It has: {found}.", wanted=", ".join(self._wanted), **found
            )
        else:
            missing = Text("{place} contains no supported files. It has: {found}.", **found)
        for suffix, _ in skipped.most_common():
            if suffix in examples and not examples[suffix].is_binary():
                command = shlex.join(["nanoscope", "prepare", self._source, f"--ext={suffix.removeprefix('.')}"])
                return JobError("{missing}\nRead them with: {command}", missing=missing, command=command)
        supported = " ".join(TEXT_SUFFIXES + ROW_SUFFIXES)
        return JobError(
            "{missing}\nSupported: {supported} (also with {compressed}), others with --ext or by their names.",
            missing=missing,
            supported=supported,
            compressed=" ".join(COMPRESSED),
        )

    def _standard_input(self) -> TextFile:
        """Copy standard input to a file, because a dataset takes two passes. The system removes the file."""
        if sys.stdin.isatty():
            print(on_terminal(Text("reading standard input; end it with Ctrl-D")), file=sys.stderr)
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the TextFile)
        folder = Path(tempfile.gettempdir())
        while block := sys.stdin.buffer.read(SPOOL_BLOCK_BYTES):
            check_space(folder, len(block), Text("Set TMPDIR to a folder with more space."))
            spool.write(block)
        spool.flush()
        if not spool.tell():
            raise JobError("Standard input is empty.")

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
        if not size_bytes:
            raise JobError("{path} is empty.", path=url)
        known = {*TEXT_SUFFIXES, *ROW_SUFFIXES, *self._wanted, ".json", ".zip", ".tar", ".tgz", ".zst"}
        names = [PurePath(urlsplit(address).path) for address in (url, got.final_url)]
        for path in (*names, PurePath(f"x{MEDIA_TYPES.get(got.media_type, '')}")):
            file = named_file(url, path, size_bytes, open_raw)
            if file.suffix in known:
                return file
        return self._recognised(url, size_bytes, open_raw)

    def _recognised(self, name: str, size_bytes: int, open_raw: Callable[[], IO[bytes]]) -> TextFile:
        """Return a file without a name, whose content is recognised by how it begins."""
        with open_raw() as raw:
            start = raw.read(8)
        compression = next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), "")
        head = TextFile(name, "", size_bytes, open_raw, compression).head()
        if head.startswith(b"PK\x03\x04"):
            suffix = ".zip"
        elif head.startswith(b"PAR1"):
            suffix = ".parquet"
        elif LOOKS_LIKE_JSON.match(head):
            suffix = ".json"
        else:
            suffix = ".csv" if self._field else ".txt"
        return TextFile(name, suffix, size_bytes, open_raw, compression)


# Why files of a folder are skipped, if not for their extensions.
KINDS = {
    "hidden": Text("hidden"),
    "not a file": Text("not a file"),
    "without extension": Text("without extension"),
    "empty": Text("empty"),
    "binary": Text("binary"),
}


def listed(skipped: Counter[str]) -> Text:
    """12 .py, 3 .html, 1 hidden."""
    shown: list[str] = [
        Text("{count:,} {kind}", count=count, kind=KINDS.get(kind, kind)) for kind, count in skipped.most_common(6)
    ]
    return Joined(", ", [*shown, "…"] if len(skipped) > 6 else shown)


def bomb(name: str, size_bytes: int) -> JobError:
    return JobError(
        "{name} was not read: it unpacks to over {size:,} GiB, over {ratio} times its own size.\n"
        "If it really holds text, unpack it yourself and prepare the result.",
        name=name,
        size=size_bytes >> 30,
        ratio=BOMB_RATIO,
    )
