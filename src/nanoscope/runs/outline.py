"""What a table of runs shows beyond a glance: settings, evaluations, and whether a run has gone silent.

Everything but the iterations is searched for in the whole file of events, two gigabytes per second, and later only in
what was appended. Of the iterations only the last lines are read.
"""

import os
import re
import time
from array import array
from bisect import bisect_right
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

from nanoscope.estimates import median
from nanoscope.messages import printable
from nanoscope.runs.events import (
    LARGEST,
    End,
    Eval,
    Iter,
    NewerVersionError,
    NonFinite,
    Resume,
    Rollback,
    Start,
    decode,
)

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 256
MAX_BYTES = 1 << 30  # nothing beyond this is read
MAX_EVALUATIONS = 100_000
PULSE_LINES = 40  # the last lines, by which the usual time between two lines is judged
SPARK_POINTS = 28
SAMPLE_BYTES = 4096  # read at each of so many places, to draw the training loss of a run without evaluations
MAX_SETTINGS = 200
TEXT_CHARACTERS = 60  # of a setting
STALL_LINES, STALL_LONGEST, STALL_SECONDS = 10, 2, 15.0  # silence: times the usual, times the longest, at least
_NOT_ITER = re.compile(rb'"event"\s*:\s*"(?!i)')

Setting = str | int | float | bool


class Outline:
    """The events file of one run, read as far as there was time for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "events.jsonl"
        self._begin((0, 0))

    def _begin(self, identity: tuple[int, int]) -> None:
        self._identity = identity
        self._head = b""  # of the file: a new file may get the number of the old one
        self._offset = 0
        self._steps, self._vals = array("q"), array("d")  # of the evaluations; NaN: not finite
        self._pulse: deque[float] = deque(maxlen=PULSE_LINES)  # `t` of the last iterations
        self._sampled: tuple[int, list[float | None]] = (0, [])  # size of the file, training losses
        self.settings: dict[str, Setting] = {}
        self.compiled: bool | None = None
        self.trained = False  # since the last session began
        self.sessions = 0
        self.nan_step: int | None = None
        self.tok_s: float | None = None

    def advance(self, until: float) -> bool:
        """Read on until `time.monotonic()` is `until`; whether all was read. Raises OSError."""
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            is_same = (status.st_dev, status.st_ino) == self._identity and head.startswith(self._head)
            if not is_same or status.st_size < self._offset:
                self._begin((status.st_dev, status.st_ino))
            self._head = head
            file.seek(self._offset)
            while self._offset < MAX_BYTES and (chunk := file.read(CHUNK_BYTES)):
                end = chunk.rfind(b"\n") + 1
                if end:
                    self._take(chunk[:end])
                elif len(chunk) < CHUNK_BYTES:
                    break  # the last line is not complete yet
                self._offset += end or len(chunk)
                file.seek(self._offset)
                if time.monotonic() >= until and self._offset < status.st_size:
                    return False
            if len(self._vals) < 2:
                self._sample(file, status.st_size)
        return True

    @property
    def best(self) -> tuple[float, int] | tuple[None, None]:
        """The lowest validation loss and its step."""
        finite = [(val, step) for step, val in zip(self._steps, self._vals, strict=True) if val == val]
        return min(finite, default=(None, None))

    @property
    def spark(self) -> list[float | None]:
        """A few validation losses from the whole run; without evaluations, training losses."""
        if len(self._vals) < 2:
            return self._sampled[1]
        count = len(self._vals)
        some = [count * i // SPARK_POINTS for i in range(SPARK_POINTS)] if count > SPARK_POINTS else range(count)
        return [_rounded(self._vals[i]) for i in (*some, *([count - 1] if count > SPARK_POINTS else []))]

    @property
    def patience_seconds(self) -> float | None:
        """How long a run that trains may be silent before it counts as stalled; None if it is too early to tell."""
        gaps = [after - before for before, after in pairwise(self._pulse) if after > before]
        if len(gaps) < 3:
            return None
        return max(STALL_LINES * median(gaps), STALL_LONGEST * max(gaps), STALL_SECONDS)

    # --- reading ---

    def _take(self, lines: bytes) -> None:
        begun = -1
        for found in _NOT_ITER.finditer(lines):
            begin = lines.rfind(b"\n", 0, found.start()) + 1
            end = lines.find(b"\n", found.end())
            try:
                event = decode(lines[begin:end])
            except NewerVersionError:
                continue  # the glance tells
            if isinstance(event, Start):
                begun = begin
            self._note(event)
        last = lines.rfind(b'"iter"')
        if last > begun:
            self.trained = True
        if last >= 0:
            for line in lines[-PULSE_LINES * 1000 :].splitlines()[-PULSE_LINES:]:
                event = decode(line)
                if isinstance(event, Iter):
                    self._note_iteration(event)

    def _note(self, event: Any) -> None:
        match event:
            case Eval(step=step, val_loss=val):
                if self._steps and self._steps[-1] == step:
                    self._cut(step - 1)
                if len(self._steps) < MAX_EVALUATIONS:
                    self._steps.append(step)
                    self._vals.append(float("nan") if val is None else val)
                if val is None and self.nan_step is None:
                    self.nan_step = step
            case Start():
                self._cut(event.first_step if event.first_step else -1)
                self._pulse.clear()
                self.trained, self.nan_step = False, None
                self.sessions += 1
                self.settings = _settings(event.config)
                self.compiled = event.compiled
            case Resume(step=step) | Rollback(to=step):
                self._cut(step)
                self.nan_step = None
            case NonFinite(step=step):
                self.nan_step = step
            case End(reason="non_finite", step=step) if self.nan_step is None:
                self.nan_step = step

    def _note_iteration(self, event: Iter) -> None:
        if event.t is not None and (not self._pulse or event.t > self._pulse[-1]):
            self._pulse.append(event.t)
        if event.loss is None and self.nan_step is None:
            self.nan_step = event.step
        if event.tokens_per_second:
            self.tok_s = event.tokens_per_second

    def _cut(self, step: int) -> None:
        """Forget evaluations after `step`: they are done again."""
        keep = bisect_right(self._steps, step)
        del self._steps[keep:], self._vals[keep:]

    def _sample(self, file: Any, size: int) -> None:
        before, losses = self._sampled
        if losses and size < 1.05 * before:
            return
        found: list[float | None] = []
        last = -1
        for i in range(SPARK_POINTS):
            file.seek(size * i // SPARK_POINTS)
            for line in file.read(SAMPLE_BYTES).splitlines()[1:3]:
                event = decode(line)
                if isinstance(event, Iter) and event.step > last:
                    last = event.step
                    found.append(None if event.loss is None else _rounded(event.loss))
                    break
        self._sampled = (size, found)


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if value == value else None


def _settings(config: dict[str, Any]) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for name, value in list(config.items())[:MAX_SETTINGS]:
        if isinstance(value, str):
            found[printable(name[:TEXT_CHARACTERS])] = printable(value[:TEXT_CHARACTERS])
        elif isinstance(value, int | float) and abs(value) < LARGEST:
            found[printable(name[:TEXT_CHARACTERS])] = value
    return found
