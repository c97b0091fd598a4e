"""What a run notices by itself: a loss that jumps, a step that takes many times as long as the others."""

import statistics
import time
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Spike:
    loss: float
    usual: float
    score: float
    """How many times the usual spread it lies above the usual."""


class SpikeWatch:
    """Notices a loss far above the recent ones, measured by their own spread (median and median deviation)."""

    RECENT, AT_LEAST = 50, 20  # printed losses
    HIGH = 8.0  # spreads: what is told must be so, for a notice that is often wrong is not read

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=self.RECENT)
        self._quiet = 0

    def notice(self, loss: float) -> Spike | None:
        """Told once; the next only when the loss has been ordinary for a while."""
        recent = list(self._losses)
        self._losses.append(loss)
        self._quiet = max(self._quiet - 1, 0)
        if len(recent) < self.AT_LEAST or loss <= max(recent):
            return None
        usual = statistics.median(recent)
        spread = 1.4826 * statistics.median(abs(value - usual) for value in recent)
        score = (loss - usual) / max(spread, 1e-3 * abs(usual), 1e-9)
        if score < self.HIGH:
            return None
        told, self._quiet = self._quiet > 0, self.AT_LEAST
        return None if told else Spike(loss, usual, score)


@dataclass(frozen=True)
class SlowStep:
    seconds: float
    usual: float
    cause: str


CAUSES = {
    "asleep": "the machine was asleep",
    "data": "it waited for data",
    "checkpoint": "a checkpoint was being written",
    "busy": "the process hardly got to run: other work, or memory that was swapped out",
    "unknown": "for no reason that can be seen from here",
}


class SlowStepWatch:
    """Notices a step that takes ten times as long as usual, and why, if that can be known."""

    TIMES, AT_LEAST_SECONDS, AT_LEAST_STEPS = 10, 0.5, 10

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=50)  # seconds, and seconds of CPU
        self._cpu, self._asleep = time.process_time(), seconds_asleep()
        self.asleep = 0.0
        """For how long the machine slept during the last step, as far as it tells."""

    def notice(self, seconds: float, data_seconds: float, *, saving: bool) -> SlowStep | None:
        """To be called after every step, of which `data_seconds` were spent waiting for data."""
        cpu, asleep = time.process_time(), seconds_asleep()
        used, self._cpu = cpu - self._cpu, cpu
        self.asleep, self._asleep = asleep - self._asleep, asleep
        found = None
        if seconds >= self.AT_LEAST_SECONDS and len(self._recent) >= self.AT_LEAST_STEPS:
            usual = statistics.median(each for each, _ in self._recent)
            if seconds >= self.TIMES * usual:
                found = SlowStep(seconds, usual, self._cause(seconds, data_seconds, used, saving))
        self._recent.append((seconds, used))
        return found

    def _cause(self, seconds: float, data_seconds: float, used: float, saving: bool) -> str:
        if self.asleep > seconds / 2:
            return "asleep"
        if data_seconds > seconds / 2:
            return "data"
        if saving:
            return "checkpoint"
        usual_share = statistics.median(cpu / max(wall, 1e-9) for wall, cpu in self._recent)
        return "busy" if used / seconds < usual_share / 2 else "unknown"


def seconds_asleep() -> float:
    """How long the machine has slept since it was started: what CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    except (AttributeError, OSError):  # not Linux
        return 0.0
