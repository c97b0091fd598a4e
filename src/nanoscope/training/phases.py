"""Where the wall time of a run goes: every second belongs to exactly one phase."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PHASES = ("startup", "data", "step", "eval", "checkpoint", "sample", "other")


class Span:
    """How long a phase took; known when it is over."""

    seconds = 0.0


class PhaseClock:
    """Adds up the seconds of each phase. A nested phase interrupts the outer one. Begins in `startup`."""

    def __init__(self, started_ago: float = 0.0) -> None:
        self._since = time.perf_counter() - started_ago
        self._began = self._since
        self._current = "startup"
        self._seconds = dict.fromkeys(PHASES, 0.0)

    def enter(self, phase: str) -> str:
        """Switch to a phase. Returns the one before."""
        now = time.perf_counter()
        self._seconds[self._current] += now - self._since
        before, self._current, self._since = self._current, phase, now
        return before

    @contextmanager
    def phase(self, name: str) -> Iterator[Span]:
        span = Span()
        before = self.enter(name)
        began = self._since
        try:
            yield span
        finally:
            self.enter(before)
            span.seconds = self._since - began

    @property
    def wall_seconds(self) -> float:
        return time.perf_counter() - self._began

    def seconds(self) -> dict[str, float]:
        """Seconds by phase so far; they add up to the wall time."""
        self.enter(self._current)
        return dict(self._seconds)


def seconds_since_process_start() -> float:
    """How long the interpreter and its imports have taken: the first part of start-up."""
    try:  # both are counted from boot, so that setting the clock does not matter
        ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):  # not Linux
        age = time.time() - psutil.Process().create_time()
    return age if 0 <= age < 600 else 0.0  # otherwise the clock was set in between
