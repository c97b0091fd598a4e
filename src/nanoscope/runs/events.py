"""events.jsonl: what happened in a run, one JSON object a line, only ever appended to."""

import json
import math
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

EVENTS_VERSION = 1


class AppendedFile:
    """A text file that only grows. A full disk or a deleted folder never ends a run: its lines wait in memory.

    `trouble` says what is wrong, until everything is in the file again.
    """

    def __init__(self, path: Path, opening: str = "") -> None:
        self.path, self.opening = path, opening
        self.trouble: str | None = None
        self._waiting = b""
        self._file = self._open()

    def write(self, text: str) -> None:
        """Add the text, which reaches the file at once: a reader sees it and a crash keeps it."""
        self._waiting += text.encode("utf-8", errors="backslashreplace")
        try:
            if self._file.closed or os.fstat(self._file.fileno()).st_nlink == 0:  # somebody has deleted it
                self._file.close()
                self._file = self._open()
                self._waiting = self.opening.encode() + self._waiting
            while self._waiting:
                self._waiting = self._waiting[self._file.write(self._waiting) :]
            self.trouble = None
        except OSError as error:
            self.trouble = self.trouble or f"{self.path} cannot be written: {error.strerror or error}"

    def close(self) -> None:
        self._file.close()

    def _open(self) -> FileIO:
        """Unbuffered, so that it is known what is in the file and what is not."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not _ends_with_newline(self.path):
            self._waiting = b"\n" + self._waiting  # a line that a crash cut off must not swallow the next one
        return self.path.open("ab", buffering=0)


class EventWriter:
    """Appends events to a file."""

    def __init__(self, path: Path, started_ago: float = 0.0) -> None:
        self._began = time.perf_counter() - started_ago
        self.file = AppendedFile(path)

    def write(self, event: str, **values: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = {"event": event, "t": round(time.perf_counter() - self._began, 4), "time": now, **values}
        line = json.dumps({key: _plain(value) for key, value in record.items()}, ensure_ascii=False) + "\n"
        if event == "start":
            self.file.opening = line  # without it the others would mean little, should the file vanish
        self.file.write(line)


def _plain(value: Any) -> Any:
    """NaN and infinities are not JSON; nobody reads a tenth digit."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file; lines that are torn or no event are passed over."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and isinstance(record.get("event"), str):
                yield record


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size == 0:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"
