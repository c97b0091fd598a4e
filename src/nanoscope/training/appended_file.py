"""A log file that is only ever appended to, and that a full disk or a deleted folder cannot stop."""

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

from nanoscope.files import sync_to_disk
from nanoscope.messages import Text


class AppendedFile:
    """Appends text to a file. Text that can't be written waits in memory, so that trouble with a log never ends a run.

    `trouble` is the problem, or None once everything is in the file.
    """

    def __init__(self, path: Path, opening: str = "") -> None:
        self.path, self.opening = path, opening
        self.trouble: str | None = None
        self._waiting = b""
        self._file = self._open()

    def write(self, text: str) -> None:
        """Append the text. It reaches the file at once: readers see it, and a crash doesn't lose it."""
        self._waiting += text.encode("utf-8", errors="backslashreplace")
        try:
            if self._file.closed or os.fstat(self._file.fileno()).st_nlink == 0:  # deleted
                self._file.close()
                self._file = self._open()
                self._waiting = self.opening.encode() + self._waiting
            while self._waiting:
                self._waiting = self._waiting[self._file.write(self._waiting) :]
            self.trouble = None
        except OSError as error:
            reason = error.strerror or error
            self.trouble = self.trouble or Text("can't write {path}: {reason}", path=self.path, reason=reason)

    def sync(self) -> None:
        """Wait until the file with its name is on the disk, so that a power failure can't take it away."""
        with suppress(OSError):  # some file systems can't
            os.fsync(self._file.fileno())
            sync_to_disk(self.path.parent)

    def close(self) -> None:
        self._file.close()

    def _open(self) -> FileIO:
        """Open without a buffer, so that we know what is in the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not _ends_with_newline(self.path):
            self._waiting = b"\n" + self._waiting  # a line cut off by a crash must not swallow the next one
        return self.path.open("ab", buffering=0)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
