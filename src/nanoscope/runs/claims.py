"""Readings of what a log means, and the relations that refuse them.

A label suggests a reading; a relation to something else in the log refuses it. The first reading that nothing refuses
counts. Step, total, the time of a step and 'finished' rest on two readings of different descent, or on one that
nothing contradicts: what the other descents say is in the vetoes. Where every reading is refused there is a doubt, and
no value.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from nanoscope.runs.columns import Column, Table
from nanoscope.runs.run import LINE_BITS, Claim, Reading, Run, TimeSource

SAMPLE = 2000
CLOCK_MAY_DIFFER = 1.4
TOKENS_MAY_DIFFER = 10  # by the number of devices, or by what a step is said to be
FIRST_IS_SHORT = 0.3  # of a usual line's time: start-up and one step took less than that
LONG_LINE = 5  # steps from line to line, from which a time may be that of all of them
SINCE_1970 = 1e9  # seconds: a clock that did not begin with the run
NAN = float("nan")


class Numbering(NamedTuple):
    """What numbers the rows."""

    steps: "array[int]"
    total: int | None = None
    totals: Column | None = None
    batches: int | None = None  # in an epoch
    unit: Literal["step", "epoch"] = "step"
    column: Column | None = None  # that it was read from


class Times(NamedTuple):
    """Seconds of a step, and how they were told."""

    values: "array[float]"
    source: TimeSource
    spans: bool = False  # each is the mean of the steps since the row before
    resolution_s: float | None = None


@dataclass(eq=False, repr=False)
class Rows:
    """The rows of one table, as what they are: training steps, evaluations, or both."""

    table: Table
    loss: Column | None = None
    val: Column | None = None
    count: Numbering | None = None  # None: they belong to the step before or after them
    doubt: Claim | None = None  # where nothing but their order numbers them
    times: Times | None = None
    pace: float | None = None  # seconds a step by the clock of the lines
    speed: float | None = None  # seconds a line by the printed tokens per second
    kept: list[int] | None = None  # the rows that are steps, unless all are
    ends: bool = False  # such a row comes when training is over
    only_last: bool = False  # of neighbouring rows: an evaluation on its way

    @property
    def metric(self) -> Literal["loss", "bpb"]:
        return "bpb" if self.val and self.val.role == "val_bpb" else "loss"

    @property
    def steps(self) -> "array[int] | None":
        return self.count.steps if self.count else None

    def every(self) -> float:
        """Steps from row to row."""
        steps = (self.steps or array("q"))[:SAMPLE]
        return middle([b - a for a, b in pairwise(steps) if b > a]) or 1


def settle(name: str, readings: Iterable[Reading], rows: Rows | Run) -> Claim:
    """The first reading of a field that no relation refuses."""
    claim = Claim(name)
    for reading in readings:
        vetoes = VETOES.get(f"{name} {reading.descent}", VETOES[name])
        refusing = next((veto for veto in vetoes if not veto(reading, rows)), None)
        if refusing is None:
            claim.readings.append(reading)
            break
        claim.refused.append((reading, str(refusing.__doc__)))
    return claim


# --- relations ---


def tells_rows_apart(count: Reading, rows: Rows) -> bool:
    """rows with different losses have the same number"""
    column, loss = count.value.column, rows.loss or rows.val
    if column is None or loss is None or len(rows.table) < 4 or column.role in ("step", "global_step"):
        return True
    pairs = zip(pairwise(column.sample()), pairwise(loss.sample()), strict=False)
    apart = [a != b for (a, b), (x, y) in pairs if x != y]
    return bool(2 * sum(apart) >= len(apart))


def counts_no_lines(count: Reading, rows: Rows) -> bool:
    """these are the numbers of lines in a file"""
    column, places = count.value.column, rows.table.at[:SAMPLE]
    if column is None or column.label or rows.table.part_of(column, "of") or rows.table.get("epoch") is None:
        return True
    apart = {value - (at >> LINE_BITS) for value, at in zip(column.sample(), places, strict=False)}
    return bool(len(apart) > 1)


def is_a_number(count: Reading, rows: Rows) -> bool:
    """no trainer counts so far"""
    found: Numbering = count.value
    return found.unit == "step" or min(found.steps, default=0) >= 0


def not_below_a_step(total: Reading, rows: Rows) -> bool:
    """a step is above it"""
    return int(total.value) >= max(rows.steps or (0,))


def fits_the_clock(times: Reading, rows: Rows) -> bool:
    """it is not what passed on the clock"""
    least = 0.0 if times.descent in ("step", "printed") else 1 / CLOCK_MAY_DIFFER
    return not (rows.pace and times.size) or least <= times.size / rows.pace <= CLOCK_MAY_DIFFER


def first_is_not_fastest(times: Reading, rows: Rows) -> bool:
    """the first step, with all that starts up, would be the fastest"""
    values, every = times.value.values, rows.every()
    usual = min((t for t in values[1:SAMPLE] if t > 0), default=0.0)
    is_first = rows.steps is not None and rows.steps[0] <= 1 and every >= LONG_LINE
    return not is_first or not (times.size or 0) / every < values[0] < FIRST_IS_SHORT * usual


def fits_the_speed(times: Reading, rows: Rows) -> bool:
    """by the tokens per second it is the time of all steps since the line before"""
    return not rows.speed or rows.every() < LONG_LINE or abs((times.size or 0) / rows.speed - 1) >= 0.15


def falls_as_it_says(times: Reading, rows: Rows) -> bool:
    """the time left does not fall by it"""
    left, steps = rows.table.get("eta_s"), rows.steps or (0,)
    if left is None or not times.size or steps[-1] <= steps[0]:
        return True
    values = scaled(left)
    return abs((values[0] - values[-1]) / (steps[-1] - steps[0]) / times.size - 1) < 0.25


def nothing_follows(finished: Reading, run: Run) -> bool:
    """training goes on below it"""
    return not finished.value


def counter_at_total(finished: Reading, run: Run) -> bool:
    """the counter is not at the total"""
    steps, total = run.steps.step, run.total_steps
    if not total or not steps:
        return True
    return steps[-1] + (steps[-1] - steps[-2] if len(steps) > 1 else 1) >= 0.98 * total


def fits_the_batch(speed: Reading, run: Run) -> bool:
    """the tokens of a step over its time are another speed"""
    tokens, each = run.config.get("tokens_per_step"), middle([t for t in run.steps.time_s[:SAMPLE] if t > 0])
    if not isinstance(tokens, int) or not each or speed.value is None:
        return True
    return bool(1 / TOKENS_MAY_DIFFER < tokens / each / speed.value < TOKENS_MAY_DIFFER)


VETOES: dict[str, tuple[Callable[[Reading, Any], bool], ...]] = {  # by field, or by field and descent
    "step": (tells_rows_apart, counts_no_lines, is_a_number),
    "total_steps": (not_below_a_step,),
    "step_time_s": (fits_the_clock,),
    "step_time_s printed": (fits_the_clock, first_is_not_fastest, fits_the_speed),
    "step_time_s time left": (falls_as_it_says,),
    "throughput_tok_s": (fits_the_batch,),
    "finished": (nothing_follows, counter_at_total),
}


# --- what columns do ---


def scaled(column: Column) -> "array[float]":
    """The values in the base unit."""
    if column.factor == 1.0:
        return column.values
    divisor = round(1 / column.factor)
    values = (v / divisor for v in column.values) if divisor > 1 else (v * column.factor for v in column.values)
    return array("d", values)


def middle(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def constant(column: Column | None) -> int | None:
    """The one value that a column has."""
    values = {v for v in column.sample() if v == v} if column is not None else set()
    return int(values.pop()) if len(values) == 1 and 0 < min(values) < 1e13 else None


def whole(values: Sequence[float]) -> "array[int]":
    """Counts; -1 where a number is none."""
    if all(map(math.isfinite, values)) and max(values, default=0) < 1e15:
        return array("q", map(int, values))  # much faster
    return array("q", (int(v) if v == v and v < 1e15 else -1 for v in values))


def runs_on(times: Sequence[float]) -> bool:
    """Whether times only ever rise, or begin anew now and then (with the epoch): a clock that keeps running."""
    sample = times[: SAMPLE // 2]
    around = zip(sample, sample[1:], [*sample[2:], sample[-1]], strict=False)
    sample = [*sample[:1], *(b for a, b, c in around if not (b > 2 * a and c < b / 2))]  # a slow step is no restart
    pairs = [(a, b) for a, b in pairwise(sample) if not b < a / 2]
    rises = sum(a < b for a, b in pairs)
    first = next((value for value in sample if value > 0), 0.0)
    passes = max(sample, default=0.0) >= 3 * first or first > SINCE_1970
    return len(pairs) >= 3 and rises >= 0.95 * len(pairs) and passes


def falls(times: Sequence[float], mostly: float = 0.5) -> bool:
    return sum(a > b for a, b in pairwise(times[:SAMPLE])) > mostly * (len(times[:SAMPLE]) - 1) > 0
