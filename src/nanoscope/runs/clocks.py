"""How long a step took, by whatever a line shows: a time, a rate, a clock that keeps running, a timestamp."""

import re

from nanoscope.runs.bars import Bar
from nanoscope.runs.fields import Fields, number, timestamp_s
from nanoscope.runs.records import Clock
from nanoscope.runs.run import MISSING

_CLOCK_IN_BRACKETS = re.compile(r"\[\s{0,8}\d{1,12} \| ([\d.]{1,16})\]")
_SINCE_LAST_LINE = re.compile(r"\bstep = \d{1,12} \(([\d.]{1,16}) sec\)")  # TensorFlow 1
_SPLIT_SECONDS = re.compile(r":\d\d[.,]\d")

Timing = tuple[float, Clock | None]  # seconds of the step, or the reading of a clock


class Clocks:
    """Finds the time of each line, and remembers whether its clock runs up or down."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None  # step and reading
        self._runs_down = False  # it shows the time left
        self._passed = 0.0  # the sum of times that each cover all steps since the line before

    def read(self, line: str, fields: Fields, step: int) -> Timing:
        """Seconds of the step, or the reading of a clock."""
        since = _SINCE_LAST_LINE.search(line)
        if since:
            self._passed += number(since[1])
            return MISSING, Clock(self._passed)
        if "time_s" in fields:
            return fields.get("time_s"), None
        if fields.get("steps_s", 0.0) > 0:
            return 1 / fields.get("steps_s"), None
        if "bare_time" in fields:
            return fields.get("bare_time"), None
        if "elapsed_s" in fields or "bare_elapsed" in fields:
            elapsed = fields.get("elapsed_s", fields.get("bare_elapsed"))
            before, self._last = self._last, (step, elapsed)
            if before and step > before[0] and elapsed < before[1]:
                self._runs_down = True
            if not self._runs_down:
                return MISSING, Clock(elapsed)
        bracket = _CLOCK_IN_BRACKETS.search(line)
        if bracket:
            return MISSING, Clock(number(bracket[1]))
        at = timestamp_s(line)
        if at is not None:
            return MISSING, Clock(at, "timestamps", 0.001 if _SPLIT_SECONDS.search(line[:80]) else 1.0)
        return MISSING, None


def bar_timing(bar: Bar) -> Timing:
    """The time of a bar's step. A fast bar is better timed by its rate than by its clock, which shows whole seconds."""
    printed = bar.values.get("time_s", bar.values.get("bare_time"))
    if printed == printed:
        return printed, None
    if bar.elapsed_s is None or (bar.seconds_per_step is not None and bar.seconds_per_step < 1):
        return bar.seconds_per_step or MISSING, None
    return MISSING, Clock(bar.elapsed_s, "progress_bar", 1.0, starts_with_run=True)
