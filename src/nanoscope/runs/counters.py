"""What numbers the rows: their own counters, an epoch around them, a bar beside them, or nothing but their order."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from nanoscope.runs.claims import NAN, Numbering, constant, middle, whole
from nanoscope.runs.columns import LOSSES, Column, Table
from nanoscope.runs.roles import COUNTERS
from nanoscope.runs.run import Reading

USUAL_LOGGING_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)


@dataclass(eq=False, repr=False)
class Counters:
    """Counts rows, with what the whole log says about epochs and totals."""

    settings: dict[str, Any]
    headings: list[Table]
    bars: list[Table]
    summary: Table | None = None  # the line that sums up a whole run
    epochs: int | None = None
    batches: dict[str, int] = field(default_factory=dict)  # by the label of a counter: how many an epoch has

    def readings(self, table: Table) -> Iterator[Reading]:
        """By their own numbers: the most telling first."""
        inner = [column for column in table.columns if column.part == "" and column.is_whole()]
        epoch = next((column for column in inner if column.role == "epoch"), None)
        named = sorted((c for c in inner if c.role in COUNTERS), key=lambda c: COUNTERS.index(c.role or ""))
        pairs = [c for c in inner if table.part_of(c, "of") and c.role in (None, "bare_train")]
        bare = [c for c in inner if not c.label and not c.unit]
        rising = [c for c in inner if c.role is None and c.label and c.rises() > 0.9]
        unnamed = [*pairs[::-1], *bare, *(rising if epoch is None and len(table) > 3 else [])]
        for column in (*named, *unnamed):
            around = (*pairs, *bare, *(c for c in inner if c.role == "bare_train")) if column in unnamed else ()
            outer = epoch or next((c for c in around if c is not column), None)
            yield self.counted(table, column, outer or self._heading_epoch(table))
        if epoch is not None:
            total = constant(table.part_of(epoch, "of"))
            yield Reading(Numbering(whole(epoch.values), total, unit="epoch", column=epoch), "the epoch", "epoch")

    def counted(self, table: Table, column: Column, epoch: Column | None) -> Reading:
        """A counter; inside an epoch, where it restarts as the epoch rises, (e − e₀)·B + b."""
        of, steps = table.part_of(column, "of"), whole(column.values)
        plain = Numbering(steps, constant(table.get("total")) or constant(of), of, column=column)
        if epoch is None or column.role == "global_step":
            other = table.get("step", "batch")
            if other is not None and other is not column and (batches := constant(table.part_of(other, "of"))):
                self.batches[other.label] = batches
            return Reading(plain, "the counter", "counter")
        batches = constant(of) or self.batches.get(column.label)
        said = constant(table.part_of(epoch, "of")) or self.epochs or self.settings.get("epochs")
        self.epochs = said if isinstance(said, int) and 0 < said < 10**6 else None
        pairs = list(zip(pairwise(steps), pairwise(epoch.values), strict=True))
        rises, restarts = sum(f > e for _, (e, f) in pairs), sum(f > e and b <= a for (a, b), (e, f) in pairs)
        before = epoch in table.columns and table.columns.index(epoch) < table.columns.index(column)
        if (restarts < 0.45 * rises) if rises else not before:
            return Reading(plain._replace(total=plain.total or batches), "the counter", "counter")
        gap = middle([b - a for a, b in pairwise(steps) if b > a]) or 1
        each = batches or max(steps) - min(steps) + gap
        first = next((e for e in epoch.values if e == e), 0.0)
        first = min(first, 1.0) if batches else first
        values = ((e - first if e == e else 0) * each + i for i, e in zip(steps, epoch.values, strict=True))
        total = self.epochs * batches if self.epochs and batches else None
        count = Numbering(array("q", (int(min(1e15, v)) for v in values)), total, batches=batches, column=column)
        return Reading(count, "a counter inside an epoch", "counter")

    def _heading_epoch(self, table: Table) -> Column | None:
        """The epoch of the headings above the rows."""
        for heading in self.headings:
            epoch = heading.get("epoch")
            if epoch is not None and len(heading) > 1:
                above = epoch.empty()
                known = [NAN, *epoch.values]
                above.values.extend(known[bisect_right(heading.at, at)] for at in table.at)
                self.epochs = self.epochs or constant(heading.part_of(epoch, "of"))
                return above
        return None

    # --- rows that only a bar or a share of an epoch counts ---

    def bar_of(self, table: Table) -> Table | None:
        """The bar that moves between these rows; a bar of something else is full before them, or moves inside them."""
        best, most = None, (0, 0)
        for bar in self.bars:
            moves = (len(set(_around(bar, table.at)[0]) - {None}), len(bar))
            if moves[0] and moves > most:
                best, most = bar, moves
        return best

    def by_bar(self, table: Table) -> Iterator[Reading]:
        """Rows without a counter (Hugging Face's dicts) by the bar around them, by their epoch, or by their order."""
        epoch, bar = table.get("epoch"), self.bar_of(table)
        if epoch is None and table.get("lr", "grad_norm") is None:
            return
        total = (bar and constant_end(bar)) or self.said_total()
        if bar is not None:
            before, after = _around(bar, table.at)
            sides = [[a or b or 0 for a, b in zip(*pair, strict=True)] for pair in ((before, after), (after, before))]
            # A line may come late: behind it the bar may have moved on. Logs are written at round steps.
            rising = [array("q", steps) for steps in sides if all(a < b for a, b in pairwise([0, *steps]))]
            for steps in sorted(rising, key=lambda steps: -math.gcd(*steps)):
                yield Reading(Numbering(steps, total), "the bar beside the lines", "bar")
        epochs, whole_run = self._summed_up("epoch") or self.settings.get("epochs"), total or self._summary_steps()
        if epoch and whole_run and isinstance(epochs, int | float) and epochs > 0:
            exact = [share * whole_run / epochs for share in epoch.values]
            if all(0 <= step < 2**53 for step in exact):
                yield Reading(Numbering(_snapped(exact), whole_run), "the share of an epoch", "epoch")
        lines = array("q", range(1, len(table) + 1))
        yield Reading(Numbering(lines, total), "a step for each line", "order", len(table))

    def _summed_up(self, role: str) -> float | None:
        column = self.summary.get(role) if self.summary else None
        return column.values[-1] if column and 0 < column.values[-1] < 1e15 else None

    def _summary_steps(self) -> int | None:
        rate, seconds = self._summed_up("steps_s"), self._summed_up("bare_elapsed")
        return round(rate * seconds) if rate and seconds else None

    def said_total(self) -> int | None:
        said = (self.settings.get(key) for key in ("max_iters", "max_steps", "total_steps"))
        return next((value for value in said if isinstance(value, int) and value > 0), None)


def constant_end(bar: Table) -> int | None:
    """Of how much a bar is, at last."""
    value = bar.columns[1].values[-1]
    return int(value) if 0 < value < 1e13 else None


def is_heading(table: Table) -> bool:
    roles = {column.role for column in table.columns if column.part == ""}
    return bool(roles & {"epoch", *COUNTERS}) and not roles & (LOSSES - {"bare_train"}) and table.width < 120


def _around(bar: Table, places: Sequence[int]) -> tuple[list[int | None], list[int | None]]:
    """The position of the bar before and behind each place."""
    positions = [None, *whole(bar.columns[0].values), None]
    indices = [bisect_left(bar.at, at) for at in places]
    return [positions[index] for index in indices], [positions[index + 1] for index in indices]


def _snapped(exact: Sequence[float]) -> "array[int]":
    """Steps near these: logs come at one distance, and shares of an epoch may be printed with too few digits."""
    gap = max(middle([b - a for a, b in pairwise(exact) if b > a]) or exact[0], 0.5)
    every = min(USUAL_LOGGING_STEPS, key=lambda each: abs(math.log(gap / each)))
    every = every if abs(every / gap - 1) < 0.2 else max(1, round(gap))
    steps = [max(1, round(value / every)) * every for value in exact]
    rise = all(b > a for a, b in pairwise(steps))
    return array("q", steps if rise else (steps[0] + every * index for index in range(len(steps))))


def laps(position: Column, of: Column, loss: Column | None) -> Column:
    """How often a bar began anew, for an epoch that it does not name."""
    laps, count, before = position.empty(), 0, -1.0
    for index, (at, total) in enumerate(zip(position.values, of.values, strict=True)):
        if at <= before and before == total and loss is not None:
            first, last, now = loss.values[0], loss.values[index - 1], loss.values[index]
            count += abs(now - last) <= abs(now - first)
        before = at
        laps.values.append(count)
    return laps
