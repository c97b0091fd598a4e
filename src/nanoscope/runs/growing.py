"""A file of lines that another process appends to: each line is read once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

HEAD_BYTES = 256
PIECE_BYTES = 1 << 17  # a line longer than this is skipped: no event is that long
MAX_BYTES = 1 << 30  # nothing beyond this is read


class GrowingFile:
    """Remembers how far the file was read, and notices when another file has taken its place."""

    def __init__(self, path: Path, restarted: Callable[[], None]) -> None:
        self.path, self._restarted = path, restarted
        self.offset = 0
        self._identity = (0, 0)
        self._head = b""  # a new file may get the number of the old one

    def pieces(self) -> Iterator[bytes]:
        """Whole lines that were not read yet, in pieces. Raises OSError."""
        with self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            identity, head = (status.st_dev, status.st_ino), file.read(HEAD_BYTES)
            is_same = identity == self._identity and head.startswith(self._head) and status.st_size >= self.offset
            if not is_same:
                self.offset, self._identity = 0, identity
                self._restarted()
            self._head = head
            file.seek(self.offset)
            while self.offset < MAX_BYTES and (piece := file.read(PIECE_BYTES)):
                end = piece.rfind(b"\n") + 1
                if not end and len(piece) < PIECE_BYTES:
                    break  # the last line is not complete yet
                self.offset += end or len(piece)
                file.seek(self.offset)
                if end:
                    yield piece[:end]

    def read_again(self) -> None:
        """Begin anew with the next piece."""
        self._identity = (0, 0)
