"""events.jsonl: what happened in a run, one JSON object a line, only ever appended to."""

import json
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

EVENTS_VERSION = 1


class EventWriter:
    """Appends events; each reaches the file at once, so that a reader sees it and a crash keeps it."""

    def __init__(self, path: Path, started_ago: float = 0.0) -> None:
        self._began = time.perf_counter() - started_ago
        torn = path.exists() and not _ends_with_newline(path)
        self._file: TextIO = path.open("a", encoding="utf-8", newline="\n")
        if torn:  # a line that a crash cut off must not swallow the next one
            self._file.write("\n")

    def write(self, event: str, **values: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = {"event": event, "t": round(time.perf_counter() - self._began, 4), "time": now, **values}
        self._file.write(json.dumps({key: _plain(value) for key, value in record.items()}, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


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
