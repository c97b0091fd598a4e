"""A run's folder that may still grow: what was appended is read, and only that."""

import os
from pathlib import Path
from typing import Any

from nanoscope.runs.folder import RunFolderFacts, read_samples, take_event
from nanoscope.runs.formats.nanoscope import Nanoscope
from nanoscope.runs.reader import Reading
from nanoscope.runs.run import Log
from nanoscope.runs.text import clean

LINE_BYTES = 1 << 16  # the rest of a longer line is passed over: no event is that long
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
            while self._offset < MOST_BYTES and (line := file.readline(LINE_BYTES)):
                if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                    break  # half-written: the next time
                self._offset += len(line)
                if line.endswith(b"\n"):
                    self._lines += 1
                    self._reading.take(self._lines, clean(line[:-1].decode("utf-8", errors="replace")))
        self.facts.samples = read_samples(self.folder / "samples")
        return self._reading.finish(str(self.folder), self._lines)
