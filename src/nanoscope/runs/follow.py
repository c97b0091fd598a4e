"""A run's folder that may still grow: what was appended is read, and only that."""

import json
import os
from pathlib import Path
from typing import Any

from nanoscope.runs.folder import RunFolderFacts, read_samples, take_event
from nanoscope.runs.formats.nanoscope import Nanoscope
from nanoscope.runs.reader import Reading
from nanoscope.runs.run import Log
from nanoscope.runs.text import clean

CHUNK_BYTES = 1 << 17
MOST_BYTES = 1 << 30  # of a file; what follows is not read: it is no log of a run


class _WithFacts(Nanoscope):
    """Reads events into steps and evaluations, and what else they tell into `facts`."""

    def __init__(self) -> None:
        super().__init__()
        self.facts = RunFolderFacts()

    def take(self, kind: str, event: dict[str, Any]) -> str:
        take_event(event, self.facts)
        return super().take(kind, event)


class FollowedRun:
    """Everything known of a run so far; `update` reads on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begin((0, 0))

    @property
    def records(self) -> int:
        """How much of it is in memory."""
        return sum(len(run.steps) for run in self._events.log.runs)

    @property
    def facts(self) -> RunFolderFacts:
        return self._events.facts

    def _begin(self, identity: tuple[int, int]) -> None:
        self._identity = identity
        self._events = _WithFacts()
        self._reading = Reading(self._events)
        self._offset = self._lines = 0

    def update(self) -> Log:
        """Read what was appended; from the beginning if the file is another one, or shorter than it was."""
        with (self.folder / "events.jsonl").open("rb") as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            if identity != self._identity or status.st_size < self._offset:
                self._begin(identity)
            file.seek(self._offset)
            while self._offset < MOST_BYTES and (chunk := file.read(CHUNK_BYTES)):
                whole = chunk[: chunk.rfind(b"\n") + 1]
                if whole:
                    self._take(whole.decode("utf-8", errors="replace").split("\n")[:-1])
                elif len(chunk) < CHUNK_BYTES:
                    break  # a line that is half-written: the next time
                self._offset += len(whole or chunk)  # a line that fills a chunk is no event: it is passed over
                file.seek(self._offset)
        self.facts.samples = read_samples(self.folder / "samples")
        return self._reading.finish(str(self.folder), self._lines)

    def _take(self, lines: list[str]) -> None:
        """Parsed together, which is faster (benchmarks/LOG.md); a chunk with a damaged line, one by one."""
        try:
            events = json.loads(f"[{','.join(lines)}]")
        except (ValueError, RecursionError):
            events = []
        if len(events) != len(lines):
            events = [None] * len(lines)
        for line, event in zip(lines, events, strict=True):
            self._lines += 1
            if isinstance(event, dict) and event.get("event") == "iter":
                self._events.log.line = self._lines
                self._events.read_event(event)
            else:
                self._reading.take(self._lines, clean(line))
