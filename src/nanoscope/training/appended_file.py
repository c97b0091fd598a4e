"""A log file that is only ever appended to, and that a full disk or a deleted folder cannot stop."""

import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

from nanoscope.files import sync_to_disk, write_atomically
from nanoscope.messages import Text


class AppendedFile:
    """Appends text to a file. Text that can't be written waits in memory, so that trouble with a log never ends a run.

    `trouble` is the problem, or None once everything is in the file. `path` may be a function: the folder of a run may
    have been renamed by the time that a deleted file is created again.
    """

    def __init__(self, path: Path | Callable[[], Path], opening: str = "") -> None:
        self._path, self.opening = path, opening
        self.trouble: str | None = None
        self._waiting = b""
        self._file = self._open()

    @property
    def path(self) -> Path:
        return self._path if isinstance(self._path, Path) else self._path()

    def write(self, text: str) -> None:
        """Append the text. It reaches the file at once: readers see it, and a crash doesn't lose it."""
        self._waiting += text.encode("utf-8", errors="backslashreplace")
        try:
            if self._file.closed or os.fstat(self._file.fileno()).st_nlink == 0:  # deleted
                self._file.close()
                self._file = self._open()
                if os.fstat(self._file.fileno()).st_size == 0:
                    self._waiting = self.opening.encode() + self._waiting
            while self._waiting:
                self._waiting = self._waiting[self._file.write(self._waiting) :]
            self.trouble = None
        except OSError as error:
            reason = error.strerror or error
            self.trouble = self.trouble or Text("can't write {path}: {reason}", path=self.path, reason=reason)

    def write_durably(self, text: str) -> None:
        """Append the text and wait until it is on the disk. In a new file, it is there as a whole or not at all."""
        with suppress(OSError):  # a full disk, or a file system that can't: then as any other text
            if self.path.stat().st_size == 0:
                write_atomically(self.path, text.encode("utf-8", errors="backslashreplace"), sync=True)
                self._file.close()  # it was replaced: the next text opens it anew
                return
        self.write(text)
        with suppress(OSError, ValueError):  # ValueError: it could not be opened
            os.fsync(self._file.fileno())
            sync_to_disk(self.path.parent)

    def close(self) -> None:
        self._file.close()

    def _open(self) -> FileIO:
        """Open without a buffer, so that we know what is in the file."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not _ends_with_newline(path):
            self._waiting = b"\n" + self._waiting  # a line cut off by a crash must not swallow the next one
        return path.open("ab", buffering=0)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
