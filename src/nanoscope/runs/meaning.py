"""What the columns of a log mean: which count steps, which are losses, what a time is the time of.

Labels suggest, relations refuse: a counter tells rows apart and is never above its total, an inner counter restarts
where an outer one rises, elapsed time rises, time left falls, a bar is training's only if it moves with the losses.
What contradicts itself is a doubt, and no value.
"""

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from nanoscope.runs.columns import LOSSES, Column, Table, Tables
from nanoscope.runs.roles import COUNTERS, is_validation
from nanoscope.runs.run import LINE_BITS, Doubt, TimeSource
from nanoscope.runs.scan import LEFT_OUT, Cell
from nanoscope.runs.trainers import Trainer, trainer_of

BLOCK_LINES = 12  # below a heading, that belong to it
LEAST_ROWS = 2
SAMPLE = 2000
SAME_VAL = 0.002
CLOCK_MAY_DIFFER = 1.4
LARGEST = 2**53
FIRST_IS_SHORT = 0.3  # of a usual line's time: start-up and one step took less than that
USUAL_LOGGING_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)
TIMES = ("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed")
_NOT_TRAINING = re.compile(
    r"\b(?:download|load|map|filter|tokeniz|process|generat|validat|valid|val|eval|test|predict|sanity|cach|extract|group"
    r"|sampl|prepar|encod|pack|saving|upload|fetch|convert|quantiz|calibrat|read|creat|writing|inference|infer)"
)
_TRAINING = re.compile(r"train|epoch|step|iter|fit")
NAN = float("nan")


@dataclass(eq=False, repr=False)
class Rows:
    """The rows of one table, as what they are: training steps, evaluations, or both."""

    table: Table
    steps: "array[int] | None" = None  # None: they belong to the step before or after them
    kept: list[int] | None = None  # the rows that are steps, unless all are
    trains: bool = False
    evaluates: bool = False
    loss: Column | None = None
    val: Column | None = None
    metric: Literal["loss", "bpb"] = "loss"
    total: int | None = None
    totals: Column | None = None
    batches: int | None = None  # in an epoch
    unrolled: bool = False  # by guess: evaluations cannot be counted like that
    time: "array[float] | None" = None
    clock: "array[float] | None" = None
    source: TimeSource = "cumulative"
    resolution_s: float | None = None
    starts_with_run: bool = False
    spans: bool = False  # a time is the mean of the steps since the row before
    ends: bool = False  # such a row comes when training is over
    repeats_val: bool = False  # each row has the last validation loss again (LitGPT)
    only_last: bool = False  # of neighbouring rows: an evaluation on its way

    def counter_label(self) -> str:
        """The label of what counts the rows."""
        column = self.table.get("global_step", "step", "batch")
        return column.label if column else ""

    def measure(self) -> str:
        """The label of what the rows are printed for."""
        return (self.val or self.loss or self.table.columns[0]).label

    def is_timed(self) -> bool:
        """Whether the rows show a time."""
        return self.table.get("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed") is not None


@dataclass(eq=False, repr=False)
class Understanding:
    """What a log means."""

    rows: list[Rows] = field(default_factory=list)
    trainer: Trainer | None = None
    unit: Literal["step", "epoch"] = "step"
    epochs: int | None = None
    steps_are_lines: bool = False
    averaged: bool = False  # the losses are means since the epoch began
    doubts: list[Doubt] = field(default_factory=list)
    readings: list[tuple[int, int, float]] = field(default_factory=list)  # of the clock, beside evaluations: at, step


def understand(found: Tables, settings: dict[str, Any]) -> Understanding:
    """What the tables of a log mean."""
    return _Meaning(found, settings).settle()


class _Meaning:
    def __init__(self, found: Tables, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.events = found.events
        self.result = Understanding()
        self.batches: dict[str, int] = {}  # by the label of a counter: how many there are in an epoch
        self._choose_trainer(found.tables)
        bars: dict[Any, list[Table]] = {}
        for table in found.tables:
            if table.bar is not None:
                bars.setdefault((table.bar, table.columns[0].role), []).append(table)
        self.bars = [Table.joined(same) for same in bars.values()]
        self.tables = _streams([table.without_copies() for table in found.tables if table.bar is None])
        for bar in [bar for bar in self.bars if bar.bar == "keras"]:
            if not any(at == of for at, of in zip(bar.columns[0].values, bar.columns[1].values, strict=True)):
                bar.bar = ""  # its first epoch is not over
                continue
            self.bars.remove(bar)
            self.result.averaged = True
            self.tables.append(_epochs_of(bar, any(_is_heading(table) and len(table) > 1 for table in self.tables)))

    def settle(self) -> Understanding:
        self._join_blocks()
        self.rows = [self._describe(table) for table in self.tables]
        self._validation_heads()
        training = self._training()
        evaluating = [rows for rows in self.rows if rows.val is not None and rows not in training]
        for rows in evaluating:
            if not rows.only_last and rows.steps is None:
                self._count_evaluation(rows)
        if any(rows.steps is not None for rows in (*evaluating, *(r for r in training if r.val))):  # others sum them up
            evaluating = [rows for rows in evaluating if rows.steps is not None or len(rows.table) > 1]
        evaluating = _seen_again(evaluating)
        for rows in training:
            rows.trains, rows.evaluates = True, rows.val is not None
            rows.repeats_val = self._means("repeats_validation")
            told, others = (rows.loss, True) if rows.loss else (rows.val, False)
            if told and not math.isfinite(sum(told.values)):
                rows.kept = [i for i, value in enumerate(told.values) if (value == value) is others]
            if rows.time is None:
                self._time(rows)
            self._settle_total(rows)
        for rows in evaluating:
            rows.evaluates = True
        self._read_clocks(training, evaluating)
        self.result.rows = [*training, *evaluating, *(rows for rows in self.rows if rows.ends)]
        return self.result

    def _doubt(self, name: str, readings: list[tuple[Any, str]], refused: str) -> None:
        if all(doubt.name != name for doubt in self.result.doubts):
            self.result.doubts.append(Doubt(name, readings, [(readings[0][0], refused)]))

    # --- trainer ---

    def _choose_trainer(self, tables: list[Table]) -> None:
        """The trainer whose signs most rows have, and what it alone means by some labels."""
        scores: Counter[str] = Counter()
        by_name: dict[str, Trainer] = {}
        saves = any(event.kind == "saved" for event in self.events)
        for table in tables:
            trainer, _ = trainer_of(table.signs(), saves)
            if trainer:
                trains = table.get("loss", "time_s", "elapsed_s") and not table.get("val_loss", "val_bpb")
                scores[trainer.name] += len(table) * (1000 if trains else 1)
                by_name[trainer.name] = trainer
        self.result.trainer = by_name[scores.most_common(1)[0][0]] if scores else None
        roles = self.result.trainer.roles if self.result.trainer else {}
        for column in (column for table in tables for column in table.columns):
            if column.label in roles and column.part in ("", "duration"):
                column.role = roles[column.label]

    def _means(self, name: str) -> bool:
        """Whether this is so, according to the trainer's file."""
        return bool(self.result.trainer and self.result.trainer.means.get(name))

    # --- rows ---

    def _join_blocks(self) -> None:
        """Records over several lines: a heading with a counter, and values without one below it."""
        values = [table for table in self.tables if _is_value(table)]
        losses = sum(len(table) for table in values if table.get("loss", "val_loss", "part_loss"))
        counted = sum(len(t) for t in self.tables if t.get("loss", "part_loss") and t not in values)
        headings = [h for h in self.tables if _is_heading(h) and 1 < len(h) <= 2 * losses]
        if not headings or counted >= losses:
            return
        heading = max(headings, key=len)
        block = Table(None, heading.head, [], [], 0)
        block.columns = [column.empty() for table in (heading, *values) for column in table.columns]
        for index, at in enumerate(heading.at):
            end = heading.at[index + 1] if index + 1 < len(heading) else at + (BLOCK_LINES << LINE_BITS)
            end = min(end, at + (10 * BLOCK_LINES << LINE_BITS))
            row, last = [column.values[index] for column in heading.columns], at
            for table in values:
                inside = bisect_left(table.at, end) - 1
                there = inside >= 0 and table.at[inside] > at
                row += [column.values[inside] if there else NAN for column in table.columns]
                last = max(last, table.at[inside]) if there else last
            if last > at:
                block.at.append(last)
                for column, value in zip(block.columns, row, strict=True):
                    column.values.append(value)
        self.tables = [table for table in self.tables if table not in values and table is not heading] + [block]

    def _describe(self, table: Table) -> Rows:
        """Which losses rows have."""
        rows = Rows(table, loss=table.get("loss", "part_loss"), val=table.get("val_loss"))
        if rows.val is None and (bpb := table.get("val_bpb")):
            rows.val, rows.metric = bpb, "bpb"
        bare = table.get("bare_train")
        if rows.loss is None and bare is not None and table.part_of(bare, "of") is None:
            is_alone = len([c for c in table.columns if c.part == ""]) <= 2 and not bare.is_whole()
            rows.loss = bare if rows.val is not None or is_alone else None
        if rows.val is None and rows.loss is None and (ppl := table.get("val_ppl")):
            ppl.values = array("d", (math.log(v) if 0 < v < math.inf else v for v in ppl.values))
            rows.val = ppl
        if rows.val is None and is_validation(table.head) and "train" not in table.head:
            rows.val, rows.loss = rows.loss, None
        if rows.val is not None and (mean := table.part_of(rows.val, "mean")):
            rows.only_last = any(c.part == "of" for c in table.columns)
            rows.val = mean if rows.only_last else rows.val
        rows.ends = {"train runtime", "train loss"} <= {c.label for c in table.columns}
        rows.loss = rows.loss if rows.loss and not rows.ends and rows.loss.may_be_loss() else None
        rows.val = rows.val if rows.val and not rows.ends and rows.val.may_be_loss() else None
        return rows

    def _validation_heads(self) -> None:
        """Rows right below a line like 'Test Error:' are evaluations."""
        heads = [event.at for event in self.events if event.kind == "eval_head"]
        for rows in self.rows if heads else ():
            if rows.loss is None or rows.val is not None or "train" in rows.table.head:
                continue
            places = rows.table.at[:200]
            near = sum((i := bisect_left(heads, at)) > 0 and at - heads[i - 1] < (4 << LINE_BITS) for at in places)
            if near > 0.6 * len(places):
                rows.val, rows.loss = rows.loss, None

    # --- which rows are training ---

    def _training(self) -> list[Rows]:
        """The rows of training: the best kind that the log has. One row is enough only if a trainer is known by it."""
        counted: dict[str | None, list[Rows]] = {"step": [], "epoch": [], None: []}
        for rows in self.rows:
            if rows.loss is not None and not rows.ends:
                counted[self._count(rows)].append(rows)
        lines, epochs = _seen_again(counted["step"]), _seen_again(counted["epoch"])
        alone = [rows for rows in lines if rows.val is None]
        if alone and len(alone) < len(lines):  # lines with both losses are evaluations where training has its own
            same = {(rows.counter_label(), rows.loss.label) for rows in alone if rows.loss}
            lines = [r for r in lines if r in alone or (r.loss and (r.counter_label(), r.loss.label) in same)]
        elif lines and not alone and self._means("only_evaluates"):
            lines = [rows for rows in lines if rows.is_timed() or rows.table.width == 0]
        timed = self._timed_rows()
        for several in (lines, epochs):
            if sum(len(rows.table) for rows in several) >= LEAST_ROWS or (several and self.result.trainer):
                self.result.unit = "step" if several is lines else "epoch"
                return several
        return self._bars(with_loss=True) or timed or self._bars(with_loss=False)

    def _timed_rows(self) -> list[Rows]:
        """Rows with a counter and a time, and no loss: quoted lines, or trainers that print no loss."""
        found = []
        for rows in self.rows:
            table = rows.table
            first = next((column for column in table.columns if column.part != "stamp"), None)
            if rows.loss or rows.ends or first is None or first.role not in ("step", "global_step"):
                continue
            if rows.val and all(value == value for value in rows.val.values):
                continue
            if is_validation(table.head) or table.width > 400 or (len(table) < 3 and not self.result.trainer):
                continue
            if table.get("time_s", "steps_s", "bare_time", "elapsed_s", "grad_norm") and self._count(rows) == "step":
                found.append(rows)
        return found

    # --- steps ---

    def _count(self, rows: Rows) -> Literal["step", "epoch"] | None:
        """Give the rows their steps; what they count, or None if nothing counts them."""
        table = rows.table
        inner, outer = self._counters(table)
        epoch = table.get("epoch")
        if inner is None:
            if epoch is not None and epoch.is_whole() and _tells_apart(epoch, rows.loss):
                if not all(0 <= value < LARGEST for value in epoch.values):
                    return None
                rows.steps = array("q", map(int, epoch.values))
                rows.total = _constant(table.part_of(epoch, "of"))
                return "epoch"
            return "step" if self._count_by_bar(rows) else None
        rows.totals = of = table.part_of(inner, "of")
        total = _constant(table.get("total")) or _constant(of)
        if outer is not None and inner.role != "global_step":
            self._nest(rows, inner, outer, of)
        else:
            other = table.get("step", "batch") if epoch is not None else None
            if other is not None and other is not inner and (batches := _constant(table.part_of(other, "of"))):
                self.batches[other.label] = batches
            rows.steps, rows.total = _whole(inner.values), total
        return "step"

    def _count_evaluation(self, rows: Rows) -> None:
        """Give evaluations their own steps, if they are counted as training is."""
        inner, outer = self._counters(rows.table)
        epoch = rows.table.get("epoch")
        rows.totals = rows.table.part_of(inner, "of") if inner is not None else None
        if inner is not None and outer is not None and inner.role != "global_step":
            self._nest(rows, inner, outer, rows.totals)
            rows.steps = None if rows.unrolled else rows.steps
        elif inner is not None:
            rows.steps = _whole(inner.values)
        elif self.result.unit == "epoch" and epoch is not None and epoch.is_whole():
            rows.steps = _whole(epoch.values)

    def _counters(self, table: Table) -> tuple[Column | None, Column | None]:
        """The column that counts steps, and the one inside which it may restart."""
        whole = [c for c in table.columns if c.part == "" and c.is_whole()]
        epoch = next((c for c in whole if c.role == "epoch"), None)
        pairs = [c for c in whole if table.part_of(c, "of") and c.role in (None, "bare_train")]
        named = sorted((c for c in whole if c.role in COUNTERS), key=lambda c: COUNTERS.index(c.role or ""))
        bare = [c for c in whole if not c.label and not c.unit and c not in pairs and not _counts_lines(table, c)]
        if len(named) > 1 and named[0].role == named[1].role == "step":  # 'iter 5 step 2': what tells rows apart
            named[:2] = sorted(named[:2], key=lambda c: -len(set(c.sample())))
        unknown = [c for c in whole if c.role is None and c.label and c not in pairs and c.rises() > 0.9]
        unknown = unknown if epoch is None and len(table) > 3 else []
        for inner in (*named, *pairs[::-1], *bare[-1:], *unknown):
            outer = epoch
            if inner in pairs and outer is None:
                outer = (
                    pairs[0]
                    if len(pairs) > 1
                    else next((c for c in whole if c.role == "bare_train" and c not in pairs), None)
                )
            if inner in bare and len(bare) > 1 and outer is None:
                inner, outer = bare[1], bare[0]
            outer = outer or self._heading_epoch(table, inner)
            if inner is not outer and _tells_apart(inner, table.get("loss", "part_loss", "val_loss")):
                return inner, outer
        return None, None

    def _heading_epoch(self, table: Table, inner: Column) -> Column | None:
        """The epoch of the headings above the rows, where the counter restarts."""
        if not any(b < a for a, b in pairwise(inner.values)):
            return None
        for heading in self.tables:
            epoch = heading.get("epoch")
            if epoch is None or not epoch.is_whole() or not _is_heading(heading) or len(heading) < 2:
                continue
            above = epoch.empty()
            for at in table.at:
                index = bisect_right(heading.at, at) - 1
                above.values.append(epoch.values[index] if index >= 0 else NAN)
            self.result.epochs = self.result.epochs or _constant(heading.part_of(epoch, "of"))
            return above
        return None

    def _nest(self, rows: Rows, inner: Column, outer: Column, of: Column | None) -> None:
        """Steps from an epoch and a counter that restarts where the epoch rises: (e − e₀)·B + b."""
        table, steps, epochs = rows.table, _whole(inner.values), outer.values
        batches = _constant(of) or self.batches.get(inner.label)
        said = _constant(table.part_of(outer, "of")) or self.result.epochs or self.settings.get("epochs")
        self.result.epochs = said if isinstance(said, int) and 0 < said < 10**6 else None
        rises = restarts = 0
        for (a, b), (e, f) in zip(pairwise(steps), pairwise(epochs), strict=True):
            rises += f > e
            restarts += f > e and b <= a
        before = outer not in table.columns or table.columns.index(outer) < table.columns.index(inner)
        if (restarts < 0.45 * rises) if rises else not before:
            rows.steps, rows.total = steps, batches
            return
        rows.batches, rows.totals, rows.unrolled = batches, None, not batches
        if not batches:
            rows.steps = _unrolled(steps, epochs)
            return
        first = min(next((e for e in epochs if e == e), 0.0), 1.0)
        if table.bar is not None and table.bar.startswith("rich"):  # it counts its epochs from 0, up to its total
            first, self.result.epochs = 0.0, self.result.epochs and self.result.epochs + 1
        values = ((e - first if e == e else 0) * batches + i for i, e in zip(steps, epochs, strict=True))
        rows.steps = array("q", (int(min(1e15, value)) for value in values))
        rows.total = self.result.epochs * batches if self.result.epochs else None

    # --- rows that only a bar or a share of an epoch counts ---

    def _count_by_bar(self, rows: Rows) -> bool:
        """Steps of rows without a counter (Hugging Face's dicts), from the bar around them and their epoch."""
        table = rows.table
        epoch = table.get("epoch")
        if epoch is None and table.get("lr", "grad_norm") is None:
            return False
        bar = self._bar_of(table)
        before, after = _around(bar, table.at)
        rows.total = total = _last(bar, 1) or self._said_total()
        every = self.settings.get("logging_steps")
        every = int(every) if isinstance(every, int | float) and every >= 1 else None
        # A line may come late: behind it the bar may have moved on. Logs are written at round steps.
        round_before, round_after = (math.gcd(*(step or 0 for step in steps)) for steps in (before, after))
        likely = epoch is not None and _spread(before, epoch) < 0.5 * _spread(after, epoch)
        if round_before > round_after or (round_before == round_after and likely):
            before, after = after, before
        nearest = [a or b for a, b in zip(after, before, strict=True)]
        steps = [step for step in nearest if step]
        per_epoch = self._steps_per_epoch(total, steps if len(steps) == len(table) else [], epoch)
        if len(steps) == len(table) and all(b > a for a, b in pairwise(steps)):
            rows.steps = array("q", steps)
        elif per_epoch and epoch is not None and all(0 <= each * per_epoch < LARGEST for each in epoch.values):
            rows.steps = array("q", _snapped(epoch.values, per_epoch, every))
            rows.total = rows.total or self._summary_steps()
        else:
            self.result.steps_are_lines = every is None
            if every is None:
                self._doubt("step", [(len(table), "a step for each line")], "nothing in the log counts steps")
            rows.steps = array("q", ((every or 1) * (index + 1) for index in range(len(table))))
        if bar:
            self._bar_clock(rows, bar)
        return True

    def _summary(self, role: str) -> float | None:
        """A value of the line that sums up a whole run."""
        for rows in self.rows:
            column = rows.table.get(role) if rows.ends else None
            if column is not None and 0 <= column.values[-1] < 1e15:
                return column.values[-1]
        return None

    def _summary_steps(self) -> int | None:
        rate, seconds = self._summary("steps_s"), self._summary("bare_elapsed")
        return round(rate * seconds) if rate and seconds else None

    def _steps_per_epoch(self, total: int | None, steps: list[int], epoch: Column | None) -> float | None:
        """By the settings, by the summary of the run, or by a bar that moves with the rows."""
        epochs = self._summary("epoch") or self.settings.get("epochs")
        total = total or self._summary_steps()
        if total and isinstance(epochs, int | float) and epochs > 0:
            return total / epochs
        if epoch is not None and len(set(steps)) > 0.5 * len(steps) > 0:
            return _middle([step / share for step, share in zip(steps, epoch.values, strict=True) if share > 0])
        return None

    def _said_total(self) -> int | None:
        said = (self.settings.get(key) for key in ("max_iters", "max_steps", "total_steps"))
        return next((int(value) for value in said if isinstance(value, int) and value > 0), None)

    def _bar_of(self, table: Table) -> Table | None:
        """The bar that moves between these rows; a bar of something else is full before them, or moves inside them."""
        best, most = None, (0, 0)
        for bar in self._training_bars():
            before, after = _around(bar, table.at)
            moves = (len({b for b in (after if len(table) < 3 else before) if b is not None}), len(bar))
            if moves[0] and moves > most:
                best, most = bar, moves
        return best

    def _training_bars(self) -> list[Table]:
        """Bars that may show training, by their names and units."""
        return [bar for bar in self.bars if bar.columns[0].role == "bar" and not _NOT_TRAINING.search(bar.bar or "")]

    def _bar_clock(self, rows: Rows, bar: Table) -> None:
        """The bar's clock, or its pace where that is finer, at the steps of the rows."""
        assert rows.steps is not None
        position, elapsed, pace = bar.columns[0].values, bar.get("bar_elapsed"), bar.get("bar_pace")
        gap = _middle([b - a for a, b in pairwise(rows.steps[:SAMPLE]) if b > a]) or 1
        fast = _is_fast(pace, max(0.5, 2 / gap))
        shown = pace if fast else elapsed
        if shown is None:
            return
        at = {int(p): value for p, value in zip(position, shown.values, strict=True) if p == p and value == value}
        values = array("d", (at.get(step, NAN) for step in rows.steps))
        rows.time, rows.clock = (values, None) if fast else (None, values)
        rows.source, rows.resolution_s, rows.starts_with_run = "progress_bar", 1.0, True

    # --- bars alone ---

    def _bars(self, with_loss: bool) -> list[Rows]:
        """Bars as rows: those that show a loss, or else those that are called training's or nothing."""
        found = self._training_bars()
        if with_loss:
            found = [bar for bar in found if bar.get("loss", "part_loss") and len(bar) >= LEAST_ROWS]
        else:
            found = [bar for bar in found if not bar.bar or _TRAINING.search(bar.bar)]
            longest = max(found, key=lambda bar: len(set(bar.columns[0].values)), default=None)
            moves = longest is not None and len(set(longest.columns[0].values)) > 2
            found = [bar for bar in found if longest and moves and bar.bar == longest.bar and len(bar) > 2]
        return [rows for bar in found if (rows := self._bar_rows(bar))]

    def _bar_rows(self, bar: Table) -> Rows | None:
        """The states of a bar as steps, the last state of each position; a bar for every epoch is unrolled."""
        counter = bar.get("step")
        position, of = bar.columns[:2]
        if counter is not None and (total := bar.part_of(counter, "of")):  # it counts batches, the bar counts updates
            position, of = counter, total
        epoch = next((c for c in bar.columns[2:] if c.role == "epoch" and c.part == "" and c.is_whole()), None)
        at, whole, elapsed, loss = position.values, of.values, bar.columns[2].values, bar.get("loss", "part_loss")
        last = []
        for i in range(len(bar)):
            again = i + 1 < len(bar) and at[i + 1] == at[i] and elapsed[i + 1] >= elapsed[i]
            if again and not epoch and loss and at[i] == whole[i] and elapsed[i + 1] == elapsed[i]:
                again = loss.values[i + 1] == loss.values[i]  # else the next epoch has one batch, too
            last += [] if again else [i]
        last = [i for i in last if at[i] > 0 or (bar.get("loss") is not None and len(last) < 3)]
        if not last:
            return None
        table = bar.select(last)
        rows = Rows(table, loss=table.get("loss", "part_loss"), val=table.get("val_loss"))
        position, of = (table.columns[bar.columns.index(column)] for column in (position, of))
        batches = _constant(of)
        if epoch is not None and batches:
            self._nest(rows, position, table.columns[bar.columns.index(epoch)], of)
        else:
            rows.steps, laps = _laps(position, of, rows.loss)
            rows.total = batches if not laps else None
        self._bar_times(rows)
        return rows

    def _bar_times(self, rows: Rows) -> None:
        table, rows.source = rows.table, "progress_bar"
        pace, printed = table.get("bar_pace"), table.get("time_s", "bare_time")
        if printed is not None:
            rows.time, rows.source = scaled(printed), "printed"
        elif pace and _is_fast(pace, 1.0):
            rows.time = pace.values
        elif elapsed := table.get("bar_elapsed"):
            rows.clock, rows.resolution_s, rows.starts_with_run = elapsed.values, 1.0, True

    # --- totals ---

    def _settle_total(self, rows: Rows) -> None:
        """A total that is not below a step: the counter's own, that of a bar that moves alike, or by the time left."""
        steps = rows.steps or array("q")
        if not (rows.total or rows.totals) and len(steps) > 1 and self.result.unit == "step":
            for bar in self._training_bars():
                at, of = _last(bar, 0) or 0, _last(bar, 1) or 0
                if of >= max(steps) and abs(at - steps[-1]) <= 2 * max(1, steps[-1] - steps[-2]):
                    rows.total = of
        eta, times, batches = rows.table.get("eta_s"), rows.time, rows.batches
        if not rows.total and eta is not None and times and batches and _falls(eta.values):
            pairs = zip(steps, scaled(eta), times, strict=True)
            whole = [(step + left / time) / batches for step, left, time in pairs if left > 0 and time > 0][-50:]
            epochs = round(_middle(whole) or 0)
            if epochs > 1 and sum(abs(each / epochs - 1) < 0.03 for each in whole) > 0.8 * len(whole):
                rows.total = epochs * batches
        last = max(steps, default=0)
        if rows.total and last > rows.total:
            readings = [(rows.total, "the number beside the counter"), (last, "the counter")]
            self._doubt("total_steps", readings, "a step is above it")
            rows.total = rows.totals = None

    # --- time ---

    def _time(self, rows: Rows) -> None:
        """The time of a step, by whatever the rows show: a time, a rate, a clock that keeps running, a stamp."""
        table = rows.table
        stamp = next((c for c in table.columns if c.part == "stamp"), None)
        assert rows.steps is not None
        printed: list[tuple[array[float], Column]] = []
        for column in (c for role in TIMES for c in table.columns if c.role == role):
            values = scaled(column)
            if column.role == "steps_s":
                values = array("d", (1 / v if v > 0 else NAN for v in values))
            rises = column.role != "steps_s" and _is_clock(values) and not self._means("time_of_step")
            if "elapsed" in str(column.role):
                if _falls(values, 0.8):
                    continue  # it shows the time left
                rises = rises or len(values) <= 3 or column.rises() >= 0.5
            elif rises and self._means("time_of_line"):
                rises = False
            if rises and not printed:
                rows.clock, rows.source = values, "cumulative"
                rows.resolution_s = 1.0 if column.part == "duration" else None
                return
            if not rises and not self._is_mean(rows, values):
                printed.append((values, column))
        if printed:
            pace = _pace(stamp, rows.steps)
            values, column = printed[0]
            if pace and len(printed) > 1:  # the step's is the one next to the clock; the others are parts of it
                values, column = min(printed, key=lambda each: abs(math.log((_middle(each[0]) or 0) / pace + 1e-9)))
            rows.time, rows.source = values, "printed"
            rows.resolution_s = 1.0 if column.part == "duration" else None
            if column.role != "steps_s":
                self._settle_time(rows, pace)
            return
        left = table.get("epoch_left_s")
        batches, steps = rows.batches, rows.steps
        if left is not None and stamp is None and batches and steps:
            pairs = zip(scaled(left), (batches - (step - 1) % batches - 1 for step in steps), strict=True)
            rows.time = array("d", (seconds / n if n > 0 < seconds else NAN for seconds, n in pairs))
            rows.source = "printed"
        eta, steps = table.get("eta_s"), rows.steps
        if eta is not None and rows.total and stamp is None and rows.clock is None and steps[-1] > steps[0]:
            to_go = scaled(eta)
            ahead = (rows.total - step for step in steps)
            values = array("d", (t / n if n > 0 else NAN for t, n in zip(to_go, ahead, strict=True)))
            each = _middle([value for value in values if value > 0])
            passed = (to_go[0] - to_go[-1]) / (steps[-1] - steps[0])
            if each and abs(passed / each - 1) < 0.25:  # it falls by what it says that a step takes
                rows.time, rows.source = values, "printed"
        if stamp is not None and rows.clock is None:
            rows.clock, rows.source = stamp.values, "timestamps"
            rows.resolution_s = 0.001 if any(not v.is_integer() for v in stamp.sample()[:20]) else 1.0

    def _is_mean(self, rows: Rows, values: Sequence[float]) -> bool:
        """Whether printed times are means since the run began: differences of the clock beside them tell more."""
        elapsed, steps = rows.table.get("elapsed_s", "bare_elapsed"), rows.steps
        if elapsed is None or steps is None or not _is_clock(elapsed.values):
            return False
        rows_of = zip(scaled(elapsed), values, steps, strict=True)
        pairs = [(seconds, mean * step) for seconds, mean, step in rows_of if step > 20 and mean > 0][:SAMPLE]
        near = sum(abs(seconds - whole) <= 0.02 * whole + 1 for seconds, whole in pairs)
        return len(pairs) > 10 and near > 0.9 * len(pairs)

    def _settle_time(self, rows: Rows, clock: float | None) -> None:
        """What printed times are the time of: a step, a line, or a step in milliseconds. A step takes no longer than
        what passed on the clock."""
        steps, times = rows.steps, rows.time
        assert steps is not None
        assert times is not None
        gaps = [b - a for a, b in pairwise(steps)]
        every = _middle([gap for gap in gaps[:SAMPLE] if gap > 0]) or 1
        each = _middle([t for t in times[1:SAMPLE] if t > 0])
        if each is None:
            return
        of_line = every >= 5 and not self._means("time_of_step")
        if clock is not None:
            if self._means("time_of_line") or (
                of_line and each > CLOCK_MAY_DIFFER * clock and 0.7 * clock < each / every < CLOCK_MAY_DIFFER * clock
            ):
                pass
            elif each <= CLOCK_MAY_DIFFER * clock:
                return
            elif abs(each / 1000 / clock - 1) < CLOCK_MAY_DIFFER - 1:
                rows.time = array("d", (t / 1000 for t in times))
                return
            else:
                readings = [(each, "the printed times"), (clock, "the clock")]
                self._doubt("step_time_s", readings, "more than what passed on the clock")
                rows.time = None
                return
        elif not of_line or not (self._means("time_of_line") or self._covers_line(rows, each, every)):
            return
        first = times[0] if steps[0] <= 1 else NAN
        rows.time = array("d", [first, *(t / gap if gap > 0 else NAN for t, gap in zip(times[1:], gaps, strict=True))])
        rows.spans = True

    def _covers_line(self, rows: Rows, each: float, every: float) -> bool:
        """Whether a printed time is all that passed since the line before: by the first step, or by the speed."""
        assert rows.steps is not None
        assert rows.time is not None
        usual = sorted(t for t in rows.time[1:SAMPLE] if t > 0)
        if len(usual) > 4 and rows.steps[0] <= 1 and each / every < rows.time[0] < FIRST_IS_SHORT * usual[0]:
            return True
        tokens, speed = self.settings.get("tokens_per_step"), rows.table.get("tok_s")
        rate = _middle([v for v in scaled(speed)[1:SAMPLE] if v > 0]) if speed else None
        return bool(isinstance(tokens, int) and tokens > 0 and rate and abs(rate * each / (tokens * every) - 1) < 0.15)

    def _read_clocks(self, training: list[Rows], evaluating: list[Rows]) -> None:
        """What a running clock shows beside evaluations, with their steps; where there are only evaluations, it is all
        that tells the time."""
        for rows in evaluating:
            elapsed = rows.table.get("elapsed_s", "bare_elapsed")
            if elapsed is None or rows.steps is None:
                continue
            values = scaled(elapsed)
            if not training:
                rows.clock, rows.source = values, "cumulative"
            elif any(each.source == "cumulative" for each in training):
                self.result.readings += zip(rows.table.at, rows.steps, values, strict=True)
        for rows in training:
            if rows.kept is not None and rows.clock and rows.steps and rows.source == "cumulative":
                others = set(range(len(rows.table))).difference(rows.kept)
                self.result.readings += ((rows.table.at[i], rows.steps[i], rows.clock[i]) for i in others)
        self.result.readings.sort()


# --- tables ---


def _streams(tables: list[Table]) -> list[Table]:
    """Lines of different makes as one table, where they begin with one counter, and one has all values of the other."""
    tables = [table for table in tables if not any(table.is_cut(other) for other in tables)]
    streams: list[list[Table]] = []
    for table in sorted(tables, key=lambda table: -len(table.columns)):
        names = table.names()
        alike = names[0] and table.columns[0].role in COUNTERS and table.get(*LOSSES, "time_s", "steps_s", "bare_time")
        for stream in streams if alike else ():
            others = stream[0].names()
            if names[0] == others[0] and {*names} <= {*others}:
                stream.append(table)
                break
        else:
            streams.append([table])
    return [Table.joined(stream, no_loss=LEFT_OUT) for stream in streams]


def _epochs_of(bar: Table, headed: bool) -> Table:
    """Bars that show one epoch each (Keras): their last states are the rows; without headings they are counted."""
    position, of = bar.columns[0].values, bar.columns[1].values
    val, loss = bar.get("val_loss"), bar.get("loss", "part_loss")
    ends = [i for i in range(len(bar)) if position[i] == of[i] or (val and val.values[i] == val.values[i])]
    if not headed and loss:  # a bar that is drawn again
        again = {i for i, j in pairwise(ends) if j == i + 1 and loss.values[i] == loss.values[j]}
        ends = [i for i in ends if i not in again]
    table = bar.select(ends)
    table.bar, table.width = None, 0
    table.columns = [column for column in table.columns[5:] if any(value == value for value in column.values)]
    if not headed and table.get("epoch") is None:
        table.columns.insert(0, Column(Cell("epoch", "", "", "", 0, 0)))
        table.columns[0].values.extend(range(1, len(ends) + 1))
    return table


def _seen_again(several: list[Rows]) -> list[Rows]:
    """Without shapes that were seen once, where the same is said in others that came again."""
    again = {each.measure() for each in several if len(each.table) > 1}
    return [each for each in several if len(each.table) > 1 or not again or each.measure() in again]


def _is_heading(table: Table) -> bool:
    roles = {c.role for c in table.columns if c.part == ""}
    return bool(roles & {"epoch", *COUNTERS}) and not roles & (LOSSES - {"bare_train"}) and table.width < 120


def _is_value(table: Table) -> bool:
    """A row with values and no counter."""
    roles = {c.role for c in table.columns if c.part != "of"}
    counted = any(c.part == "" and (not c.label or c.role is None) and not c.unit for c in table.columns)
    values = {"loss", "part_loss", "val_loss", "ppl", "val_ppl", "time_s", "bare_time", "elapsed_s", "lr", "grad_norm"}
    return bool(roles & values) and not roles & {*COUNTERS, "epoch", "total"} and not counted


# --- columns ---


def scaled(column: Column) -> "array[float]":
    """The values in the base unit."""
    if column.factor == 1.0:
        return column.values
    divisor = round(1 / column.factor)
    return array(
        "d", (v / divisor for v in column.values) if divisor > 1 else (v * column.factor for v in column.values)
    )


def _constant(column: Column | None) -> int | None:
    """The one value that a column has."""
    values = {v for v in column.sample() if v == v} if column is not None else set()
    return int(values.pop()) if len(values) == 1 and 0 < min(values) < 1e13 else None


def _last(bar: Table | None, column: int) -> int | None:
    """Where a bar stands (0), or of how much (1)."""
    value = bar.columns[column].values[-1] if bar is not None else NAN
    return int(value) if 0 < value < 1e13 else None


def _middle(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def _counts_lines(table: Table, counter: Column) -> bool:
    """Whether these are the numbers of the lines in a file that the log was copied from."""
    apart = {value - (at >> LINE_BITS) for value, at in zip(counter.sample(), table.at[:SAMPLE], strict=False)}
    return len(table) > 1 and len(apart) == 1 and table.get("epoch") is not None


def _is_fast(pace: Column | None, seconds: float) -> bool:
    """Whether a bar's pace tells more than its clock, which shows whole seconds."""
    known = [p for p in pace.sample() if p == p] if pace else []
    return bool(known) and sorted(known)[len(known) // 2] < seconds


def _tells_apart(counter: Column, loss: Column | None) -> bool:
    """Whether a counter tells rows with different losses apart."""
    values = counter.sample()
    if len(values) < 4 or loss is None or counter.role in ("step", "global_step"):
        return True
    apart = [(a != b) for (a, b), (x, y) in zip(pairwise(values), pairwise(loss.sample()), strict=True) if x != y]
    return not apart or sum(apart) >= 0.5 * len(apart)


def _whole(values: Sequence[float]) -> "array[int]":
    if all(map(math.isfinite, values)) and max(values, default=0) < 1e15:
        return array("q", map(int, values))  # much faster
    return array("q", (int(v) if v == v and v < 1e15 else -1 for v in values))


def _unrolled(steps: Sequence[int], epochs: Sequence[float]) -> "array[int]":
    """One count from steps that restart with every epoch, where nobody says how many an epoch has."""
    found: array[int] = array("q")
    offset, epoch = 0, NAN
    for step, now in zip(steps, epochs, strict=True):
        if found and now > epoch and step + offset <= found[-1]:
            gap = found[-1] - found[-2] if len(found) > 1 else 1
            offset = found[-1] + max(1, gap) - step
        elif now < epoch:
            offset = 0
        epoch = now
        found.append(step + offset)
    return found


def _is_clock(times: Sequence[float]) -> bool:
    """Whether times only ever rise, or begin anew now and then (with the epoch): a clock that keeps running."""
    sample = times if len(times) < SAMPLE else times[: SAMPLE // 2]
    around = zip(sample, sample[1:], [*sample[2:], sample[-1]], strict=False)
    sample = [*sample[:1], *(b for a, b, c in around if not (b > 2 * a and c < b / 2))]  # a slow step is no restart
    pairs = [(a, b) for a, b in pairwise(sample) if not b < a / 2]
    rises, restarts = sum(a < b for a, b in pairs), len(sample) - 1 - len(pairs)
    first = next((value for value in sample if value > 0), 0.0)
    return len(pairs) >= 3 and rises >= 0.95 * len(pairs) and 4 * restarts < rises and max(sample) >= 3 * first


def _falls(times: Sequence[float], mostly: float = 0.5) -> bool:
    falls = sum(a > b for a, b in pairwise(times[:SAMPLE]))
    return falls > mostly * (len(times[:SAMPLE]) - 1) > 0


def _pace(stamp: Column | None, steps: Sequence[int]) -> float | None:
    """Seconds a step by the clock of the lines; None if that is too coarse to tell."""
    if stamp is None:
        return None
    pairs = zip(pairwise(stamp.values[:SAMPLE]), pairwise(steps[:SAMPLE]), strict=True)
    passed = [(b - a, (b - a) / (t - s)) for (a, b), (s, t) in pairs if t > s and b >= a]
    if len(passed) < 2 or sum(seconds for seconds, _ in passed) < 30:
        return None
    return sum(each for _, each in passed) / len(passed)


def _around(bar: Table | None, places: Sequence[int]) -> tuple[list[int | None], list[int | None]]:
    """The position of the bar before and behind each place."""
    if bar is None:
        return [None] * len(places), [None] * len(places)
    positions = [None, *_whole(bar.columns[0].values), None]
    indices = [bisect_left(bar.at, at) for at in places]
    return [positions[index] for index in indices], [positions[index + 1] for index in indices]


def _spread(steps: Sequence[int | None], epoch: Column) -> float:
    """How far from constant steps an epoch are, by these steps."""
    ratios = [step / share for step, share in zip(steps, epoch.values, strict=True) if step and 0 < share < math.inf]
    return max(ratios) / min(ratios) - 1 if len(ratios) > 1 else math.inf


def _snapped(shares: Sequence[float], per_epoch: float, every: int | None) -> list[int]:
    """Steps from shares of an epoch: logs come at one distance, and shares may be printed with too few digits."""
    exact = [share * per_epoch for share in shares]
    if every is None:
        middle = max(_middle([b - a for a, b in pairwise(exact) if b > a]) or exact[0], 0.5)
        every = min(USUAL_LOGGING_STEPS, key=lambda each: abs(math.log(middle / each)))
        every = every if abs(every / middle - 1) < 0.2 else max(1, round(middle))
    steps = [max(1, round(value / every)) * every for value in exact]
    return steps if all(b > a for a, b in pairwise(steps)) else [steps[0] + every * i for i in range(len(steps))]


def _laps(position: Column, of: Column, loss: Column | None) -> tuple["array[int]", int]:
    """Steps of a bar that begins anew for every epoch without naming it."""
    steps, laps, before = array("q"), 0, -1.0
    for index, (at, total) in enumerate(zip(position.values, of.values, strict=True)):
        if at <= before and before == total and loss is not None:
            first, last, now = loss.values[0], loss.values[index - 1], loss.values[index]
            laps += abs(now - last) <= abs(now - first)
        before = at
        steps.append(int(laps * total + at))
    return steps, laps
