"""A run's folder that may still grow: what was appended is read, and only that."""

import json
import os
from pathlib import Path

from nanoscope.runs.folder import RunFolderFacts, read_samples, take_event
from nanoscope.runs.formats.nanoscope import Nanoscope
from nanoscope.runs.reader import Reading
from nanoscope.runs.run import Log
from nanoscope.runs.text import clean

LINE_BYTES = 1 << 16  # the rest of a longer line is passed over: no event is that long
MOST_BYTES = 1 << 30  # of a file; what follows is not read: it is no log of a run


class FollowedRun:
    """Everything known of a run so far; `update` reads on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begin((0, 0))

    @property
    def records(self) -> int:
        """How much of it is in memory."""
        return sum(len(run.steps) for run in self._reading.format.log.runs)

    def _begin(self, identity: tuple[int, int]) -> None:
        self._identity = identity
        self._reading = Reading(Nanoscope())
        self._offset = self._lines = 0
        self.facts = RunFolderFacts()

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
                    self._take(line)
        self.facts.samples = read_samples(self.folder / "samples")
        return self._reading.finish(str(self.folder), self._lines)

    def _take(self, line: bytes) -> None:
        self._lines += 1
        text = clean(line.decode("utf-8", errors="replace").rstrip("\n"))
        self._reading.take(self._lines, text)
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            take_event(event, self.facts)
