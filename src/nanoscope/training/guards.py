"""What a run notices by itself: a loss that jumps, a step that takes many times as long as the others."""

import math
import time
from collections import deque

from nanoscope.estimates import SPIKE_NOISE, is_spike, median, scatter, spike_height
from nanoscope.runs.events import Asleep, SlowCause, SlowStep, Spike


class SpikeWatch:
    """Notices a loss far above the ones before it, by the rule that `explain` applies to logs."""

    RECENT, AT_LEAST = 50, 20  # logged losses

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=self.RECENT)
        self._quiet = 0

    def notice(self, step: int, loss: float) -> list[Spike]:
        """Report a spike once; another only when the loss has been ordinary for a while."""
        recent = list(self._losses)
        self._losses.append(loss)
        self._quiet = max(self._quiet - 1, 0)
        if len(recent) < self.AT_LEAST or not is_spike(loss, recent, spike_height(recent)):
            return []
        reported, self._quiet = self._quiet > 0, self.AT_LEAST
        usual = median(recent[-3:])
        score = (loss - usual) / max(scatter(recent), SPIKE_NOISE)
        return [] if reported else [Spike(step=step, loss=loss, usual=usual, score=score)]


class SlowStepWatch:
    """Notices a step that takes ten times as long as usual. A cause is named only if something points to it.

    Such a step is slow by the rule that `explain` applies to logs (`estimates.is_slow`), however noisy the machine is.
    """

    TIMES, AT_LEAST_SECONDS = 10, 0.5  # less is not worth a line in the middle of a run
    RECENT, AT_LEAST = 50, 10  # steps
    SLEEP_SECONDS = 60

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=self.RECENT)  # seconds, and seconds of CPU
        self._cpu, self._asleep = time.process_time(), seconds_asleep()
        self._quiet = 0

    def notice(self, step: int, seconds: float, data_seconds: float) -> list[SlowStep | Asleep]:
        """Call this after every step, of which `data_seconds` were spent waiting for data."""
        cpu, asleep = time.process_time(), seconds_asleep()
        used, self._cpu = cpu - self._cpu, cpu
        slept, self._asleep = asleep - self._asleep, asleep
        found: list[SlowStep | Asleep] = []
        if slept > self.SLEEP_SECONDS:
            found.append(Asleep(step=step, seconds=slept))
        comparable = seconds >= self.AT_LEAST_SECONDS and len(self._recent) >= self.AT_LEAST
        usual = median([each for each, _ in self._recent]) if comparable else math.inf
        slow = seconds >= self.TIMES * usual
        if slow and not self._quiet:  # a burst of slow steps is reported once
            cause = self._cause(seconds, data_seconds, used, slept)
            found.append(SlowStep(step=step, seconds=seconds, usual=usual, cause=cause))
        self._quiet = self.AT_LEAST if slow else max(self._quiet - 1, 0)
        self._recent.append((seconds, used))
        return found

    def _cause(self, seconds: float, data_seconds: float, used: float, slept: float) -> SlowCause:
        if slept > seconds / 2:
            return "asleep"
        if data_seconds > seconds / 2:
            return "data"
        usual_share = median([cpu / max(wall, 1e-9) for wall, cpu in self._recent])
        return "busy" if used / seconds < usual_share / 2 else "unknown"


def seconds_asleep() -> float:
    """Seconds that the machine has been suspended since it was booted, as the difference of two of Linux's clocks."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    except (AttributeError, OSError):  # not Linux
        return 0.0
