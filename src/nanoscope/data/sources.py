"""Where text comes from: corpora, files, folders, standard input and URLs."""

import os
import re
import shlex
import shutil
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import urlsplit

from nanoscope.data.corpora import CORPORA
from nanoscope.data.download import OnProgress, download, is_url
from nanoscope.data.readers import RECORDS, Piece, TextFile, marked_encoding, read_pieces
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Message, Shown, joined, on_terminal
from nanoscope.suggest import did_you_mean

STDIN = "-"
SUFFIXES = (".txt", ".md", ".text", ".markdown", *RECORDS[1:])  # not .json: it may be anything
NOT_READ = (".zip", ".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".csv", ".tsv")

JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*[{"\]])')


class Documents:
    """The documents of all sources of `prepare`, which can be read any number of times."""

    def __init__(
        self,
        sources: Sequence[str | Path],
        field: str | None = None,
        encoding: str = "utf-8",
        ext: Sequence[str] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.sources = [str(source) for source in sources]
        self.files: list[TextFile] = []
        self.skipped: Counter[Shown] = Counter()  # by extension, or by what else was wrong
        self._field, self._encoding, self._on_progress = field, encoding, on_progress
        self._wanted = tuple("." + name for name in re.findall(r"[^\s,*.][^\s,]*", ",".join(ext).lower()))
        try:
            "".encode(encoding)  # raises LookupError unless it is a text encoding
            for source in self.sources:
                self._add_source(source)
        except LookupError as error:
            raise UsageError(
                "Unknown text encoding {encoding!r}. Try utf-8, utf-16 or cp1252.", encoding=encoding
            ) from error
        except OSError as error:
            raise JobError("Cannot read {path}: {reason}.", path=error.filename, reason=why(error)) from error
        if ext and not (self._wanted and any(Path(source).is_dir() for source in self.sources)):
            raise UsageError("--ext names extensions, for example --ext=py,md, and selects the files of folders.")
        self.total_bytes = sum(file.size_bytes for file in self.files)

    def pieces(self, stage: Shown = "") -> Iterator[Piece]:
        """Yield every document of every file, in order, except empty ones; report progress under the name `stage`."""
        before, reported = 0, -1
        for file in self.files:
            for piece in read_pieces(file, self._field or "text", self._encoding):
                read = before + file.read_bytes
                if self._on_progress and stage and read != reported:
                    reported = read
                    self._on_progress(stage, read / self.total_bytes)
                yield piece
            before += file.size_bytes

    def _add_source(self, source: str) -> None:
        path = Path(source)
        if source in CORPORA:
            self.files += map(TextFile, CORPORA[source].files())
        elif is_url(source):
            path = self._copy(lambda file: download(source, file, self._on_progress))
            self._add_file(TextFile(path, source, PurePath(urlsplit(source).path).suffix))
        elif path.is_dir():
            self._add_folder(path)
        elif source == STDIN:
            if sys.stdin.isatty():
                print(on_terminal(Message("reading standard input; end it with Ctrl-D")), file=sys.stderr)
            path = self._copy(partial(shutil.copyfileobj, sys.stdin.buffer))
            self._add_file(TextFile(path, "standard input"))
        elif path.is_file():
            self._add_file(TextFile(path))
        else:
            hint = did_you_mean(source, CORPORA, lambda name: Message("the corpus {name}", name=name))
            raise JobError("There is no file or folder {source!r}.{hint}", source=source, hint=hint)

    def _add_file(self, file: TextFile) -> None:
        """Add a file that was named, and recognize how to read a download or standard input."""
        head = file.head()
        if not head:
            raise JobError("{path} is empty.", path=file.name)
        if file.suffix in NOT_READ:
            raise JobError(
                "{name} cannot be read as it is.\n"
                "Unpack an archive into a folder; write a table as JSON Lines, with an object in each line.",
                name=file.name,
            )
        if file.name != str(file.path) and file.suffix not in (*RECORDS, *SUFFIXES):
            file.suffix = ".json" if JSON.match(head) else ".txt"
        self.files.append(file)

    def _add_folder(self, folder: Path) -> None:
        """Take the files of a folder that hold text, and count the others by why they were skipped."""
        if (folder / "events.jsonl").is_file() and (folder / "config.toml").is_file():
            raise UsageError(
                "{folder} is a training run, not text. Try: nanoscope explain {quoted}",
                folder=folder,
                quoted=shlex.quote(str(folder)),
            )
        suffixes = self._wanted or SUFFIXES
        skipped: Counter[Shown] = Counter()
        before = len(self.files)
        for path in sorted(folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            if any(part.startswith(".") for part in path.relative_to(folder).parts):
                skipped[Message("hidden")] += 1
            elif not path.is_file():  # a loop, a link to nowhere, a pipe
                skipped[Message("not a file")] += 1
            elif path.suffix.lower() not in suffixes:
                skipped[path.suffix.lower() or Message("without extension")] += 1
            elif not (head := (file := TextFile(path)).head()):
                skipped[Message("empty")] += 1
            elif file.suffix != ".parquet" and b"\0" in head and not marked_encoding(head):
                skipped[Message("binary")] += 1
            else:
                self.files.append(file)
        if len(self.files) == before:
            raise JobError(
                "{place} contains no {wanted} files. It has: {found}.\n"
                "Select others with --ext, for example --ext=py,md",
                place=folder,
                wanted=", ".join(suffixes),
                found=listed(skipped) if skipped else Message("nothing"),
            )
        self.skipped += skipped

    def _copy(self, copy: Callable[[IO[bytes]], object]) -> Path:
        """A file with what is copied, because a dataset takes two passes. It is removed with this object."""
        handle, name = tempfile.mkstemp()
        weakref.finalize(self, os.unlink, name)
        with os.fdopen(handle, "wb") as file:
            copy(file)
        return Path(name)


def listed(skipped: Counter[Shown]) -> Message:
    """12 .py, 3 .html, 1 hidden."""
    shown: list[Shown] = [Message("{count:,} {kind}", count=count, kind=kind) for kind, count in skipped.most_common(6)]
    return joined(", ", [*shown, "…"] if len(skipped) > 6 else shown)
