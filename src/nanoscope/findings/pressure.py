"""Verdicts about time and memory: slowing down, waiting for data, memory that grows."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Literal

from nanoscope.estimates import median, percentile, scatter
from nanoscope.findings.declared.base import Confidence, Verdict
from nanoscope.findings.numbers import mean, robust_sigma
from nanoscope.findings.slow import finite_indices
from nanoscope.findings.timing import Timing
from nanoscope.messages import Message, Said
from nanoscope.runs.run import Run


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


SLOWER, SURELY_SLOWER = 0.10, 0.25
FLAT = 0.03  # scatter of a stretch of equal steps, as a share
SIGMAS, SURE_SIGMAS = 4.0, 12.0  # of the difference between the first and the last third
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
    third = len(values) // 3
    begin, end = values[:third], values[-third:]
    first, last = median(begin), median(end)
    change = last / first - 1
    noise = ((robust_sigma(begin) ** 2 + robust_sigma(end) ** 2) / third) ** 0.5
    noise = max(noise, (normal.clock_resolution_s or 0.0) / 2)
    sigmas = (last - first) / noise if noise else inf
    still_slow = (
        median(values[-max(3, third // 2) :]) > (1 + SLOWER / 2) * first
    )  # else the machine was busy for a while
    if sigmas <= SIGMAS or last <= percentile(begin, 80) or not still_slow or _has_more_to_do(run, change):
        return None
    jump = _sudden_change(values, first, last)
    confidence: Confidence = "likely"
    if jump or sigmas < (SURE_SIGMAS if len(values) < 2 * FEWEST else SURE_SIGMAS / 2):
        confidence = "hint"
    elif sigmas > SURE_SIGMAS and change >= SURELY_SLOWER and len(values) >= 3 * FEWEST and not normal.jittery:
        confidence = "sure"
    since = run.steps.step[jump * len(run.steps) // len(values)] if jump else None
    return SlowingDown(first, last, change, since, run.unit, confidence=confidence)


def _has_more_to_do(run: Run, change: float) -> bool:
    """Whether later steps take longer because they read more: tokens a second × seconds = tokens."""
    speeds, times = run.steps.tok_s, run.steps.time_s
    work = [speeds[i] * times[i] for i in finite_indices(times) if speeds[i] > 0]
    third = len(work) // 3
    return third > 0 and median(work[-third:]) / median(work[:third]) - 1 > 0.8 * change


def _sudden_change(values: Sequence[float], first: float, last: float) -> int | None:
    """Where times jump from one even level to another; None if they do not, or do something else as well."""
    width = max(3, len(values) // 300)
    middle = (first + last) / 2
    at = next(i for i in range(0, len(values), width) if median(values[i : i + width]) > middle)
    parts = values[: max(0, at - width)], values[at + width :]
    if any(len(part) < 2 * width or robust_sigma(part) >= FLAT * median(part) for part in parts):
        return None
    risen = median(parts[1][: 2 * width]) - median(parts[0][-2 * width :])
    return at if risen > 0.8 * (last - first) else None


def waiting_for_data(run: Run) -> WaitingForData | None:
    """The share of a step that its data had to be waited for."""
    waited = run.series.get("data_s")
    if waited is not None:
        times = dict(zip(run.steps.step, run.steps.time_s, strict=True))
        known = zip(waited.steps, waited.values, strict=True)
        # Without the first, which fills the workers.
        pairs = [(data, times[step]) for step, data in known if data >= 0 and times.get(step, 0.0) > 0][1:]
        if len(pairs) < ENOUGH_RECORDS:
            return None
        data_s, step_s = (median(column) for column in zip(*pairs, strict=True))
        records = len(pairs)
        if data_s > step_s:  # the printed time leaves the waiting out
            step_s += data_s
    elif run.phases.get("data") and run.phases.get("step") and run.steps:
        records = run.steps.step[-1] - run.steps.step[0] + 1
        data_s = run.phases["data"] / records
        step_s = data_s + run.phases["step"] / records
    else:
        return None
    share = data_s / step_s
    if share < WAITS or records < ENOUGH_RECORDS:
        return None
    return WaitingForData(data_s, step_s, share, records, confidence="sure" if share >= SURELY_WAITS else "likely")


def memory_growth(run: Run) -> MemoryGrowth | None:
    """Memory that keeps rising: what a leak does, and what a peak that settles does not."""
    memory = run.series.get("memory_gb")
    if memory is None or len(memory.values) < ENOUGH_MEMORY_RECORDS:
        return None
    skipped = len(memory.steps) // 10  # in which a run finds its size
    values = memory.values[skipped:]
    levels = [median(values[a:b]) for a, b in pairwise(len(values) * edge // BLOCKS for edge in range(BLOCKS + 1))]
    changes = [after - before for before, after in pairwise(levels)]
    growth = levels[-1] / levels[0] - 1 if levels[0] > 0 else 0.0
    steady = min(changes) > 2 * scatter(memory.values) / (len(memory.values) / BLOCKS) ** 0.5
    goes_on = changes[-1] >= 0.5 * mean(changes)  # a running maximum rises too, but less and less
    if growth < GROWS or not steady or not goes_on:
        return None
    confidence: Confidence = "likely" if growth >= SURELY_GROWS else "hint"
    return MemoryGrowth(levels[0], levels[-1], memory.steps[skipped], memory.steps[-1], growth, confidence=confidence)
