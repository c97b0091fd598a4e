"""Verdicts about time and memory: slowing down, waiting for data, memory that grows."""

from array import array
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Literal

from nanoscope.estimates import median, percentile, scatter
from nanoscope.findings.declared.base import Confidence, Verdict
from nanoscope.findings.numbers import mean, robust_sigma
from nanoscope.findings.slow import finite_indices
from nanoscope.findings.timing import Timing
from nanoscope.messages import Message, Said
from nanoscope.runs.run import Run, Series


class SlowingDown(Verdict):
    """Steps take longer at the end than at the beginning, and nothing in the log says that they do more."""

    first_third_s: float
    last_third_s: float
    share: float
    since_step: int | None = None  # set where the change was sudden
    unit: Literal["step", "epoch"] = "step"

    TITLE = Message("Slowing down")

    def text(self) -> Said:
        if self.unit == "epoch":
            return Message(
                "Epochs take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
                "({first_third_s:duration}). The log does not show why."
            )
        if self.since_step is not None:
            return Message(
                "Since about step {since_step:plain} steps take {last_third_s:duration}, {share:percent} longer than "
                "before ({first_third_s:duration}). The change was sudden: each step may do more work, or something "
                "else may use the machine."
            )
        if self.confidence == "hint":
            return Message(
                "Steps seem to take longer by now: {last_third_s:duration}, at the beginning {first_third_s:duration} "
                "({share:percent} more). There are too few of them, or they vary too much, to be sure."
            )
        return Message(
            "Steps take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
            "({first_third_s:duration}). The log does not show why."
        )


class WaitingForData(Verdict):
    """A noticeable part of a step is spent waiting for its data."""

    data_s: float
    step_s: float  # with the waiting
    share: float
    records: int

    TITLE = Message("Waiting for data")
    TEXT = Message("{share:percent} of each step is spent waiting for data: {data_s:duration} of {step_s:duration}.")


class MemoryGrowth(Verdict):
    """Memory grows steadily, beyond what the first steps need."""

    first_gb: float
    last_gb: float
    first_step: int
    last_step: int
    share: float

    TITLE = Message("Memory keeps growing")
    TEXT = Message(
        "Memory grew from {first_gb:number2} GB at step {first_step:plain} to {last_gb:number2} GB at "
        "step {last_step:plain}, by {share:percent}, and has not levelled off."
    )


SLOWER = 0.10
SURELY_SLOWER = 0.25
FLAT = 0.03  # scatter of a stretch of equal steps, as a share
SIGMAS, SURE_SIGMAS = 4.0, 12.0  # of the difference between the first and the last third
MOST_LEVELS = 8
FEWEST = 12  # normal records
ENOUGH_RECORDS = 10
WAITS, SURELY_WAITS = 0.20, 0.40  # of a step
GROWS, SURELY_GROWS = 0.05, 0.20
ENOUGH_MEMORY_RECORDS = 40
BLOCKS = 5
# Trainers whose batches and windows grow on a schedule: longer steps are no sign of anything there.
SCHEDULED_WORK = ("modded-nanogpt",)


def judge_pressure(run: Run, timing: Timing) -> tuple[Verdict, ...]:
    """The verdicts that step times, waiting times and memory allow."""
    found = (slowing_down(run, timing), waiting_for_data(run), memory_growth(run))
    return tuple(verdict for verdict in found if verdict is not None)


def slowing_down(run: Run, timing: Timing) -> SlowingDown | None:
    """Later steps take longer, beyond the noise and to the end of the log, though they do no more work."""
    values, normal = timing.normal_s, timing.normal_step
    if normal is None or run.format in SCHEDULED_WORK or len(values) < FEWEST or (normal.trend_share or 0.0) < SLOWER:
        return None
    change = normal.trend_share or 0.0
    third, sixth = len(values) // 3, len(values) // 6
    begin, end = values[:third], values[-third:]
    first, last = median(begin), median(end)
    noise = ((robust_sigma(begin) ** 2 + robust_sigma(end) ** 2) / third) ** 0.5
    beyond_noise = last - first > SIGMAS * noise and last > percentile(begin, 80) and percentile(end, 25) > first
    still_slow = median(values[-max(3, sixth) :]) > (1 + SLOWER / 2) * first  # else the machine was busy for a while
    if normal.clock_resolution_s and last - first < 2 * normal.clock_resolution_s:
        return None
    if not beyond_noise or not still_slow or _has_more_to_do(run, change):
        return None
    jumps = _sudden_changes(values)
    if len(jumps) > 1 and not any(speed > 0 for speed in run.steps.tok_s):
        return None  # from one even level to the next, again and again: that is a schedule, not a machine
    confidence: Confidence = "likely"
    needed = SURE_SIGMAS if len(values) < 2 * FEWEST else SURE_SIGMAS / 2
    if jumps or last - first < needed * noise:
        confidence = "hint"
    elif (
        last - first > SURE_SIGMAS * noise
        and change >= SURELY_SLOWER
        and len(values) >= 3 * FEWEST
        and not normal.jittery
    ):
        confidence = "sure"
    since = run.steps.step[jumps[0] * len(run.steps) // len(values)] if len(jumps) == 1 else None
    return SlowingDown(first, last, last / first - 1, since, run.unit, confidence=confidence)


def _has_more_to_do(run: Run, change: float) -> bool:
    """Whether later steps take longer because batch or window grow by design."""
    if run.config.get("window_grows"):
        return True
    times = run.steps.time_s
    measured = finite_indices(times)
    for rates in (run.steps.tok_s, () if run.traits.mfu_is_moving_average else run.steps.mfu_pct):
        # Tokens a second × seconds = tokens; MFU × seconds = arithmetic, in units of the same peak.
        work = array("d", (rates[i] * times[i] for i in measured if rates[i] > 0)) if rates else array("d")
        third = len(work) // 3
        if third and median(work[-third:]) / median(work[:third]) - 1 > 0.8 * change:
            return True
    return False


def _sudden_changes(values: Sequence[float]) -> list[int]:
    """Where times jump from one even level to another, if they do nothing else; else nothing."""
    width = max(3, len(values) // 300)
    levels = [median(values[i : i + width]) for i in range(0, len(values) - width + 1, width)]
    jumping = [abs(after - before) > SLOWER / 2 * before for before, after in zip(levels, levels[2:], strict=False)]
    # Blocks i and i+2 differ: the jump is in block i+1 or at its edges.
    stretches: list[tuple[int, int]] = []
    begin = 0
    for block, jumps in enumerate([*jumping, True], start=1):
        if jumps:
            stretches.append((begin, block if block <= len(jumping) else len(levels)))
            begin = block + 1
    stretches = [(a, b) for a, b in stretches if b > a]
    parts = [values[a * width : b * width] for a, b in stretches]
    even = all(len(part) >= 2 * width and robust_sigma(part) < FLAT * median(part) for part in parts)
    return [a * width for a, _ in stretches[1:]] if even and len(parts) <= MOST_LEVELS else []


def waiting_for_data(run: Run) -> WaitingForData | None:
    """The share of a step that its data had to be waited for."""
    waited = run.series.get("data_s")
    if waited is not None:
        data, times = _waits_and_times(waited, run)
        if len(data) < ENOUGH_RECORDS:
            return None
        data_s, step_s = median(data), median(times)
        records = len(data)
        if data_s > step_s:  # the printed time leaves the waiting out
            step_s += data_s
    elif run.phases.get("data") and run.phases.get("step"):
        steps = max(1, run.steps.step[-1] - run.steps.step[0] + 1) if run.steps else 1
        data_s = run.phases["data"] / steps
        step_s = (run.phases["data"] + run.phases["step"]) / steps
        records = steps
    else:
        return None
    share = data_s / step_s if step_s else 0.0
    if share < WAITS or records < ENOUGH_RECORDS:
        return None
    return WaitingForData(data_s, step_s, share, records, confidence="sure" if share >= SURELY_WAITS else "likely")


def _waits_and_times(waited: Series, run: Run) -> tuple[Sequence[float], Sequence[float]]:
    """Waiting time and time of the steps that have both, without the first, which fills the workers."""
    steps = run.steps
    if (
        waited.steps == steps.step
        and min(waited.values) >= 0
        and min(steps.time_s) > 0
        and all(map(isfinite, steps.time_s))
    ):
        return waited.values[1:], steps.time_s[1:]
    times = dict(zip(steps.step, steps.time_s, strict=True))
    known = zip(waited.steps, waited.values, strict=True)
    pairs = [(data, times[step]) for step, data in known if step in times and data >= 0 and times[step] > 0][1:]
    return [data for data, _ in pairs], [time for _, time in pairs]


def memory_growth(run: Run) -> MemoryGrowth | None:
    """Memory that keeps rising: what a leak does, and what a peak that settles does not."""
    memory = run.series.get("memory_gb")
    if memory is None or len(memory.values) < ENOUGH_MEMORY_RECORDS:
        return None
    levels = _levels(memory)
    changes = [after - before for before, after in pairwise(levels)]
    growth = levels[-1] / levels[0] - 1 if levels[0] > 0 else 0.0
    noise = scatter(list(memory.values))
    steady = min(changes) > 2 * noise / (len(memory.values) / BLOCKS) ** 0.5
    goes_on = changes[-1] >= 0.5 * mean(changes)  # a running maximum rises too, but less and less
    if growth < GROWS or not steady or min(changes) <= 0 or not goes_on:
        return None
    confidence: Confidence = "likely" if growth >= SURELY_GROWS else "hint"
    skipped = len(memory.steps) // 10
    return MemoryGrowth(levels[0], levels[-1], memory.steps[skipped], memory.steps[-1], growth, confidence=confidence)


def _levels(memory: Series) -> list[float]:
    """Typical memory in stretches of equal length, without the first tenth, in which a run finds its size."""
    values = memory.values[len(memory.values) // 10 :]
    edges = [len(values) * edge // BLOCKS for edge in range(BLOCKS + 1)]
    return [median(values[a:b]) for a, b in pairwise(edges)]
