"""What a printed time is the time of: every reading of the seconds that a step takes."""

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from nanoscope.runs.claims import LONG_LINE, NAN, SAMPLE, Rows, Times, middle, runs_on, scaled
from nanoscope.runs.columns import Column, Table
from nanoscope.runs.run import Reading

TIMES = ("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed")
FAST_S = 0.5  # a bar's clock shows whole seconds: for faster steps its pace tells more


def readings_of_times(rows: Rows, bar: Table | None, means: dict[str, Any], tokens: Any) -> list[Reading]:
    """All that the rows, and the bar that moves with them, tell about the time of a step. The first descent that says
    anything decides; the clock refuses what does not fit it, and decides where nothing is printed."""
    table, steps = rows.table, rows.steps or array("q")
    stamp = table.stamp()
    rows.pace = _pace(stamp, steps)
    speed = table.get("tok_s")
    rate = middle([v for v in scaled(speed)[1:SAMPLE] if v > 0]) if speed else None
    rows.speed = tokens * rows.every() / rate if rate and isinstance(tokens, int) and tokens > 0 else None
    columns = [column for role in TIMES for column in table.columns if column.role == role]
    printed = [each for each in (_of_column(column, rows, means, bar is not None) for column in columns) if each]
    if rows.pace:  # the step's is the one next to the clock; the others are parts of it
        near = rows.pace
        guesses = ("printed", "step")
        printed.sort(key=lambda each: abs((each[0].size or 0) - near) if each[0].descent in guesses else 0)
    found = [reading for each in printed for reading in each]
    own = table.bar is not None
    found = (found or _of_bar(rows, table)) if own else found or (_of_bar(rows, bar) if bar else [])
    if not found and stamp is not None:
        resolution = 0.001 if any(not v.is_integer() for v in stamp.sample()[:20]) else 1.0
        found = [_clock(stamp.values, steps, "the clock of the lines", "timestamps", resolution)]
    return found or _by_time_left(rows) or _by_speed(rows, speed, tokens)


def _of_column(column: Column, rows: Rows, means: dict[str, Any], begins_at_zero: bool) -> list[Reading]:
    """A time may be that of a step, of all steps since the line before, one in milliseconds, or a clock's."""
    steps, values, every = rows.steps or array("q"), scaled(column), rows.every()
    by_the_second = column.part == "duration" or (column.factor == 1 and all(map(float.is_integer, column.sample())))
    resolution = 1.0 if by_the_second else None
    inverse = array("d", (1 / v if v > 0 else NAN for v in values)) if column.role == "steps_s" else None
    if _is_mean(inverse or values, rows, column):
        return []
    if inverse:
        return [Reading(Times(inverse, "printed", False, resolution), "the printed rate", "rate")]
    elapsed = column.role in ("elapsed_s", "bare_elapsed")
    moving = [a for a, b in pairwise([*values, NAN]) if a != b] if by_the_second else values
    if (
        (runs_on(moving) and not means.keys() & {"time_of_step", "time_of_line"})
        or (elapsed and (len(values) <= 3 or column.rises() >= 0.5))
        or (rows.pace and abs(1 - rows.pace * (steps[-1] - steps[0]) / ((values[-1] - values[0]) or NAN)) < 0.1)
    ):
        return [_clock(values, steps, "the running time that is printed", "cumulative", resolution, begins_at_zero)]
    size = middle([t for t in values[1:SAMPLE] if t > 0]) or 0.0
    known = "step" if "time_of_step" in means else "printed"  # what the trainer's file says, or only a guess
    found = [Reading(Times(values, "printed", False, resolution), "the printed times", known, size)]
    if every >= LONG_LINE and "time_of_step" not in means:
        line = array("d", [values[0] if steps[0] <= 1 else NAN])
        line.extend(t / (b - a) if b > a else NAN for t, (a, b) in zip(values[1:], pairwise(steps), strict=True))
        times = Times(line, "printed", True, resolution)
        found.append(Reading(times, "the printed times, of all steps since the line before", "lines", size / every))
    if rows.pace:
        times = Times(array("d", (t / 1000 for t in values)), "printed", False, resolution)
        found.append(Reading(times, "the printed times in milliseconds", "thousandths", size / 1000))
    return found[1:2] if "time_of_line" in means and every >= LONG_LINE else found


def _is_mean(values: Sequence[float], rows: Rows, column: Column) -> bool:
    """Whether times are means since the run began: differences of the clock beside them tell more."""
    clock = rows.table.get("elapsed_s", "bare_elapsed")
    if clock is None or clock is column or not runs_on(clock.values):
        return False
    triples = zip(scaled(clock), values, rows.steps or (), strict=True)
    pairs = [(now, mean * step) for now, mean, step in triples if mean > 0][:SAMPLE]
    return len(pairs) > 10 and sum(abs(now - whole) <= 0.02 * whole + 1 for now, whole in pairs) > 0.9 * len(pairs)


def _clock(
    values: "array[float]",
    steps: Sequence[int],
    why: str,
    source: Any,
    resolution: float | None,
    begins_at_zero: bool = False,
) -> Reading:
    return Reading(Times(_passed(values, steps, begins_at_zero), source, True, resolution), why, "clock")


def _passed(clock: Sequence[float], steps: Sequence[int], begins_at_zero: bool = False) -> "array[float]":
    """Seconds a step since the clock moved last; missing where it does not, or it or the steps begin anew."""
    times, last, at = array("d"), 0 if begins_at_zero else 2**62, 0.0
    for step, now in zip(steps, clock, strict=True):
        times.append((now - at) / (step - last) if step > last and now > at else NAN)
        if now == now and not (now == at and step > last):
            last, at = step, now
    return times


def _of_bar(rows: Rows, bar: Table) -> list[Reading]:
    """The bar's clock, or its pace where that is finer, at the steps of the rows."""
    elapsed, pace, steps = bar.get("bar_elapsed"), bar.get("bar_pace"), rows.steps or array("q")
    known = [p for p in pace.sample() if p == p] if pace else []
    fast = (middle(known) or 9e9) < (1.0 if bar is rows.table else max(FAST_S, 2 / rows.every()))
    shown = pace if fast else elapsed
    if shown is None:
        return []
    if bar is rows.table:
        values = shown.values
    else:
        at = {int(p): value for p, value in zip(bar.columns[0].values, shown.values, strict=True) if p == p}
        values = array("d", (at.get(step, NAN) for step in steps))
    if fast:
        return [Reading(Times(values, "progress_bar", False, 1.0), "the pace of the bar", "bar")]
    return [Reading(Times(_passed(values, steps, True), "progress_bar", True, 1.0), "the clock of the bar", "bar")]


def _by_time_left(rows: Rows) -> list[Reading]:
    """The time left, of the epoch or of the run, over the steps that are left."""
    steps, batches = rows.steps or array("q"), rows.count.batches if rows.count else None
    of_epoch, of_run = rows.table.get("epoch_left_s"), rows.table.get("eta_s")
    if of_epoch and batches:
        ahead, left = [batches - (step - 1) % batches - 1 for step in steps], of_epoch
    elif of_run and rows.count and (total := rows.count.total):
        ahead, left = [total - step for step in steps], of_run
    else:
        return []
    values = array("d", (t / n if n > 0 < t else NAN for t, n in zip(scaled(left), ahead, strict=True)))
    size = middle([value for value in values if value > 0])
    return [Reading(Times(values, "printed"), "the time left", "time left", size)] if size else []


def _by_speed(rows: Rows, speed: Column | None, tokens: Any) -> list[Reading]:
    """The tokens of a step over the printed tokens per second."""
    if speed is None or not isinstance(tokens, int):
        return []
    values = array("d", (tokens / v if v > 0 else NAN for v in scaled(speed)))
    return [Reading(Times(values, "printed"), "the printed tokens per second", "speed")]


def _pace(stamp: Column | None, steps: Sequence[int]) -> float | None:
    """Seconds a step by the clock of the lines; None if that is too coarse to tell."""
    if stamp is None:
        return None
    pairs = zip(pairwise(stamp.values[:SAMPLE]), pairwise(steps[:SAMPLE]), strict=True)
    passed = [(b - a, (b - a) / (t - s)) for (a, b), (s, t) in pairs if t > s and b >= a]
    if len(passed) < 2 or sum(seconds for seconds, _ in passed) < 30:
        return None
    return sum(each for _, each in passed) / len(passed)
