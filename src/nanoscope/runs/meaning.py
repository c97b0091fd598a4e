"""What the columns of a log mean: which count steps, which are losses, what a time is the time of.

Labels suggest, behaviour vetoes: a counter tells rows apart and is never above its total, an inner counter restarts
where an outer one rises, elapsed time rises, time left falls, a bar is training's only if it moves with the losses.
"""

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

from nanoscope.runs.columns import LOSSES, Column, Table, Tables
from nanoscope.runs.roles import is_validation
from nanoscope.runs.run import LINE_BITS, Doubt, TimeSource
from nanoscope.runs.scan import Cell, label_of
from nanoscope.runs.trainers import Trainer, trainer_of

BLOCK_LINES = 12  # below a heading, that belong to it
LEAST_ROWS = 2
SAME_VAL = 0.002
CLOCK_MAY_DIFFER = 1.4
FIRST_IS_SHORT = 0.3  # of a usual line's time: start-up and one step took less than that
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
    trains: bool = False
    evaluates: bool = False
    loss: Column | None = None
    val: Column | None = None
    metric: Literal["loss", "bpb"] = "loss"
    total: int | None = None
    totals: Column | None = None
    batches: int | None = None  # in an epoch
    left_in_epoch: "array[float] | None" = None  # steps
    epoch: Column | None = None  # where step numbers restart with it and it is not known how many there are
    time: "array[float] | None" = None
    clock: "array[float] | None" = None
    source: TimeSource = "cumulative"
    resolution_s: float | None = None
    starts_with_run: bool = False
    spans: bool = False  # a time is the mean of the steps since the row before
    ends: bool = False  # such a row comes when training is over
    repeats_val: bool = False  # each row has the last validation loss again (LitGPT)
    only_last: bool = False  # of neighbouring rows: an evaluation on its way


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


def understand(found: Tables, settings: dict[str, Any]) -> Understanding:
    """What the tables of a log mean."""
    return _Meaning(found, settings).settle()


class _Meaning:
    def __init__(self, found: Tables, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.events = found.events
        self.result = Understanding()
        self.batches: dict[str, int] = {}  # by the label of a counter: how many there are in an epoch
        self.tables = [table for table in found.tables if table.bar is None]
        self.bars = _merged([table for table in found.tables if table.bar is not None])
        for bar in [bar for bar in self.bars if bar.bar == "keras"]:
            self.bars.remove(bar)
            self.result.averaged = True
            self.tables.append(_epochs_of(bar, any(_is_heading(table) and len(table) > 1 for table in self.tables)))
        self._choose_trainer()
        self._rename()

    def settle(self) -> Understanding:
        self._blocks()
        self.rows = [self._describe(table) for table in self.tables]
        self._validation_heads()
        training = self._training()
        for rows in training:
            rows.trains = True
        evaluating = [rows for rows in self.rows if rows.val is not None and rows not in training]
        for rows in evaluating:
            if not rows.only_last and rows.steps is None:
                self._count_evaluation(rows)
        if any(rows.steps is not None for rows in (*evaluating, *(r for r in training if r.val))):  # others sum them up
            evaluating = [rows for rows in evaluating if rows.steps is not None or len(rows.table) > 1]
        evaluating = _repeated(evaluating)
        if training:
            self._times(training)
            self._total_of_bar(training)
            for rows in training:
                self._total_by_time_left(rows)
                self._check_total(rows)
        for rows in evaluating:
            rows.evaluates = True
        for rows in training:
            rows.evaluates = rows.val is not None
            rows.repeats_val = self._means("repeats_validation")
        self.result.rows = [*training, *evaluating, *self._endings()]
        return self.result

    def _total_of_bar(self, training: list[Rows]) -> None:
        """The total of a bar that stands where the run stands: it may show this run."""
        main = max(training, key=lambda rows: len(rows.table))
        steps = main.steps or array("q")
        if main.total or main.totals or len(steps) < 2 or self.result.unit == "epoch":
            return
        for bar in self.bars:
            at, of = bar.columns[0].values[-1], bar.columns[1].values[-1]
            if (
                not _NOT_TRAINING.search(bar.bar or "")
                and of > 0
                and abs(at - steps[-1]) <= 2 * max(1, steps[-1] - steps[-2])
            ):
                main.total = int(of)

    def _total_by_time_left(self, rows: Rows) -> None:
        """How many epochs there are, where the printed time left says so."""
        eta, times, batches = rows.table.get("eta_s"), rows.time, rows.batches
        if rows.total or eta is None or not times or not batches or rows.steps is None or not _falls(eta.values):
            return
        pairs = zip(rows.steps, _scaled(eta), times, strict=True)
        whole = [(step + left / time) / batches for step, left, time in pairs if left > 0 and time > 0][-50:]
        epochs = round(sorted(whole)[len(whole) // 2]) if whole else 0
        if epochs > 1 and sum(abs(each / epochs - 1) < 0.1 for each in whole) > 0.8 * len(whole):
            rows.total = epochs * batches

    def _check_total(self, rows: Rows) -> None:
        """A total is not below a step."""
        last = max(rows.steps or (0,))
        if rows.total and last > rows.total:
            readings = [(rows.total, "the number beside the counter"), (last, "the counter")]
            self.result.doubts.append(Doubt("total_steps", readings, [(rows.total, "a step is above it")]))

    def _check_time(self, rows: Rows) -> None:
        """A step takes no longer than what passed on the clock: else it is another unit, or the time of a line."""
        clock = self._clock_of_step(rows)
        printed = sorted(t for t in rows.time or () if t > 0)
        if clock is None or rows.time is None or len(printed) < 4:
            return
        each = printed[len(printed) // 2]
        if each <= CLOCK_MAY_DIFFER * clock:
            return
        if abs(each / 1000 / clock - 1) < CLOCK_MAY_DIFFER - 1:
            rows.time = array("d", (t / 1000 for t in rows.time))
            return
        readings = [(each, "the printed times"), (clock, "the clock")]
        self.result.doubts.append(Doubt("step_time_s", readings, [(each, "more than what passed on the clock")]))
        rows.time = None

    def _clock_of_step(self, rows: Rows) -> float | None:
        """Seconds a step by the clock of the lines; None if that is too coarse to tell."""
        stamp = next((c for c in rows.table.columns if c.part == "stamp"), None)
        if stamp is None or rows.steps is None:
            return None
        passed = [
            (b - a, (b - a) / (t - s))
            for (a, b), (s, t) in zip(pairwise(stamp.values), pairwise(rows.steps), strict=True)
            if t > s and b >= a
        ][:2000]
        if len(passed) < 4 or sum(seconds for seconds, _ in passed) < 30:
            return None
        return sum(each for _, each in passed) / len(passed)

    # --- trainer ---

    def _choose_trainer(self) -> None:
        scores: Counter[str] = Counter()
        by_name: dict[str, Trainer] = {}
        saves = any(event.kind == "saved" for event in self.events)
        for table in (*self.tables, *self.bars):
            trainer, _ = trainer_of(_signs(table), saves)
            if trainer:
                trains = (
                    table.get("loss", "time_s", "elapsed_s") is not None and table.get("val_loss", "val_bpb") is None
                )
                scores[trainer.name] += len(table) * (1000 if trains else 1)
                by_name[trainer.name] = trainer
        if scores:
            self.result.trainer = by_name[scores.most_common(1)[0][0]]

    def _means(self, name: str) -> bool:
        """Whether this is so, according to the trainer's file."""
        return bool(self.result.trainer and self.result.trainer.means.get(name))

    def _rename(self) -> None:
        roles = self.result.trainer.roles if self.result.trainer else {}
        for table in self.tables:
            for column in table.columns:
                if column.label in roles and column.part in ("", "duration"):
                    column.role = roles[column.label]

    # --- rows ---

    def _blocks(self) -> None:
        """Records over several lines: a heading with a counter, and values without one below it."""
        headings = [table for table in self.tables if _is_heading(table)]
        values = [table for table in self.tables if _is_value(table)]
        losses = [table for table in values if table.get("loss", "val_loss", "part_loss") is not None]
        counted = [table for table in self.tables if table.get("loss", "part_loss") is not None and table not in values]
        headings = [h for h in headings if len(h) > 1 and sum(map(len, losses)) >= 0.5 * len(h)]
        if not headings or not losses or sum(map(len, counted)) >= sum(map(len, losses)):
            return
        heading = max(headings, key=len)
        block = Table(None, heading.head, [], [], 0)
        block.columns = [_empty(c) for c in heading.columns] + [_empty(c) for table in values for c in table.columns]
        for index, at in enumerate(heading.at):
            end = heading.at[index + 1] if index + 1 < len(heading) else at + (BLOCK_LINES << LINE_BITS)
            end = min(end, at + (10 * BLOCK_LINES << LINE_BITS))
            row = [column.values[index] for column in heading.columns]
            last = at
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
        rows = Rows(table)
        rows.loss = table.get("loss", "part_loss")
        rows.val = table.get("val_loss")
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
        rows.loss = rows.loss if rows.loss and not rows.ends and _may_be_loss(rows.loss) else None
        rows.val = rows.val if rows.val and not rows.ends and _may_be_loss(rows.val) else None
        return rows

    def _validation_heads(self) -> None:
        """Rows right below a line like 'Test Error:' are evaluations."""
        heads = [event.at for event in self.events if event.kind == "eval_head"]
        for rows in self.rows if heads else ():
            if rows.loss is None or rows.val is not None or "train" in rows.table.head:
                continue
            near = sum(
                (i := bisect_left(heads, at)) > 0 and at - heads[i - 1] < (4 << LINE_BITS) for at in rows.table.at[:200]
            )
            if near > 0.6 * min(len(rows.table), 200):
                rows.val, rows.loss = rows.loss, None

    def _endings(self) -> list[Rows]:
        return [rows for rows in self.rows if rows.ends]

    # --- which rows are training, and their steps ---

    def _training(self) -> list[Rows]:
        """The rows of training: the best kind that the log has."""
        lines, epochs = [], []
        for rows in self.rows:
            if rows.loss is None or rows.ends:
                continue
            unit = self._count(rows)
            if unit == "step":
                lines.append(rows)
            elif unit == "epoch":
                epochs.append(rows)
        lines, epochs = _repeated(lines), _repeated(epochs)
        alone = [rows for rows in lines if rows.val is None]
        if alone and len(alone) < len(lines):  # lines with both losses are evaluations where training has its own
            both = [rows for rows in lines if rows.val is not None]
            same = {(_counter_label(rows), rows.loss.label) for rows in alone if rows.loss}
            lines = alone + [rows for rows in both if rows.loss and (_counter_label(rows), rows.loss.label) in same]
        elif lines and not alone and not any(_timed(rows.table) or rows.table.width == 0 for rows in lines):
            lines = [] if self._means("only_evaluates") else lines
        if (lines and sum(len(rows.table) for rows in lines) >= LEAST_ROWS) or self._is_sample(lines):
            return lines + self._timed_rows(lines)
        if epochs and (sum(len(rows.table) for rows in epochs) >= LEAST_ROWS or self._is_sample(epochs)):
            self.result.unit = "epoch"
            return epochs
        return self._bars_with_loss() or self._timed_rows([]) or self._lone_bars()

    def _is_sample(self, lines: list[Rows]) -> bool:
        """One row makes a run only if it has the shape of a trainer's line."""
        return bool(lines) and self.result.trainer is not None

    def _timed_rows(self, beside: list[Rows]) -> list[Rows]:
        """Rows with a counter and a time, and no loss: quoted lines, or trainers that print no loss."""
        found = []
        times = [(rows, rows.table.get("time_s", "steps_s", "bare_time")) for rows in beside]
        labels = {(_counter_label(rows), time.label) for rows, time in times if time}
        for rows in self.rows:
            table = rows.table
            if rows.loss is not None or rows.val is not None or rows.ends or table.get("step", "global_step") is None:
                continue
            if is_validation(table.head):
                continue
            printed = table.get("time_s", "steps_s", "bare_time")
            if (printed or (table.get("elapsed_s", "grad_norm") if not beside else None)) is None or table.width > 400:
                continue
            if beside and (printed is None or (_counter_label(rows), printed.label) not in labels):
                continue
            if len(table) + sum(len(r.table) for r in beside) < 3 and not self.result.trainer:
                continue
            if self._count(rows) == "step" and (beside or _starts_with_counter(rows)):
                found.append(rows)
        return found

    def _count(self, rows: Rows) -> Literal["step", "epoch"] | None:
        """Give the rows their steps; what they count, or None if nothing counts them."""
        table = rows.table
        inner, outer = self._counters(table)
        epoch = table.get("epoch")
        if inner is None:
            if epoch is not None and epoch.is_whole() and _advances(epoch, rows.loss):
                if not all(0 <= value < 2**53 for value in epoch.values):
                    return None
                rows.steps = array("q", map(int, epoch.values))
                rows.total = _constant(table.part_of(epoch, "of"))
                return "epoch"
            return "step" if self._count_by_bar(rows) else None
        of = table.part_of(inner, "of")
        rows.totals = of
        total = _constant(table.get("total")) or _constant(of)
        if outer is not None and inner.role != "global_step":
            self._nest(rows, inner, outer, of)
        else:
            other = table.get("step", "batch") if epoch is not None else None
            if other is not None and other is not inner and (batches := _constant(table.part_of(other, "of"))):
                self.batches[other.label] = batches
            rows.steps = _whole(inner.values)
            rows.total = total
        return "step"

    def _count_evaluation(self, rows: Rows) -> None:
        """Give evaluations their own steps, if they are counted as training is."""
        inner, outer = self._counters(rows.table)
        epoch = rows.table.get("epoch")
        if inner is not None:
            if outer is not None and inner.role != "global_step":
                self._nest(rows, inner, outer, rows.table.part_of(inner, "of"))
                rows.steps = None if rows.epoch else rows.steps
            else:
                rows.steps = _whole(inner.values)
                rows.total = _constant(rows.table.part_of(inner, "of"))
        elif self.result.unit == "epoch" and epoch is not None and epoch.is_whole():
            rows.steps = _whole(epoch.values)

    def _counters(self, table: Table) -> tuple[Column | None, Column | None]:
        """The column that counts steps, and the one inside which it may restart."""
        whole = [c for c in table.columns if c.part == "" and c.is_whole()]
        epoch = next((c for c in whole if c.role == "epoch"), None)
        pairs = [c for c in whole if table.part_of(c, "of") and c.role in (None, "bare_train")]
        named = [c for c in whole if c.role in ("global_step", "step", "batch")]
        bare = [c for c in whole if not c.label and not c.unit and c not in pairs]
        named.sort(key=lambda c: ("global_step", "step", "batch").index(c.role or ""))
        if (
            len(named) > 1 and named[0].role == named[1].role == "step"
        ):  # 'iter 5 step 2': the one that tells rows apart
            named[:2] = sorted(named[:2], key=lambda c: -len(set(c.sample())))
        unknown = [
            c for c in whole if c.role is None and c.label and c not in pairs and c.rises() > 0.9 and len(table) > 3
        ]
        unknown = unknown if table.get("epoch") is None else []
        for inner in (*named, *pairs[::-1], *bare[::-1][-1:], *unknown):
            outer = epoch
            if inner in pairs and outer is None:
                outer = (
                    pairs[0]
                    if len(pairs) > 1
                    else next((c for c in whole if c.role == "bare_train" and c not in pairs), None)
                )
            if inner in bare and len(bare) > 1 and outer is None:
                inner, outer = bare[1], bare[0]
            if outer is None:
                outer = self._heading_epoch(table, inner)
            if inner is not outer and _advances(inner, table.get("loss", "part_loss", "val_loss")):
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
            above = _empty(epoch)
            for at in table.at:
                index = bisect_right(heading.at, at) - 1
                above.values.append(epoch.values[index] if index >= 0 else NAN)
            self.result.epochs = self.result.epochs or _constant(heading.part_of(epoch, "of"))
            return above
        return None

    def _nest(self, rows: Rows, inner: Column, outer: Column, of: Column | None) -> None:
        """Steps from an epoch and a counter that may restart in it."""
        table = rows.table
        epochs_of = table.part_of(outer, "of") if outer in table.columns else None
        epochs = _constant(epochs_of) or self.result.epochs or self.settings.get("epochs")
        epochs = epochs if isinstance(epochs, int) and 0 < epochs < 10**6 else None
        self.result.epochs = epochs
        batches = _constant(of) or self.batches.get(inner.label)
        rises = drops = together = 0
        for (a, b), (e, f) in zip(pairwise(inner.values), pairwise(outer.values), strict=True):
            drops += b < a
            rises += f > e
            together += f > e and b <= a
        before = outer not in table.columns or table.columns.index(outer) < table.columns.index(inner)
        restarts = together >= 0.45 * rises if rises else None
        if restarts is False or (restarts is None and not before):
            rows.steps, rows.total = _whole(inner.values), batches
            return
        rows.batches = batches
        if batches:
            rows.left_in_epoch = array("d", (batches - i for i in inner.values))
            first = min(next((e for e in outer.values if e == e), 0.0), 1.0)
            rows.steps = array(
                "q",
                (
                    int(min(1e15, (e - first if e == e else 0) * batches + i))
                    for i, e in zip(inner.values, outer.values, strict=True)
                ),
            )
            rows.total = epochs * batches if epochs else None if rises or inner.role != "step" else batches
        else:
            rows.steps, rows.epoch = _whole(inner.values), outer
        rows.totals = None

    # --- rows that only a bar or a share of an epoch counts ---

    def _count_by_bar(self, rows: Rows) -> bool:
        """Steps of rows without a counter (Hugging Face's dicts), from the bar around them and their epoch."""
        table = rows.table
        epoch = table.get("epoch")
        if epoch is None and table.get("lr", "grad_norm") is None:
            return False
        bar = self._bar_of(table)
        before, after = _around(bar, table.at)
        total = _constant_of(bar) or self._said_total()
        rows.total = total
        every = self.settings.get("logging_steps")
        every = int(every) if isinstance(every, int | float) and every >= 1 else None
        # Lines come late, never early: the bar behind a row may have moved on, and logs are written at round steps.
        glued = _glued(bar, table)
        if epoch is not None and _spread(before, epoch) < 0.5 * _spread(after, epoch):
            after = before
        nearest = [
            b if b and (g or (a and a % 5 and b % 5 == 0)) else a or b
            for a, b, g in zip(after, before, glued, strict=True)
        ]
        steps = [step for step in nearest if step]
        per_epoch = self._steps_per_epoch(total, steps if len(steps) == len(table) else [], epoch)
        if len(steps) == len(table) and all(b > a for a, b in pairwise(steps)):
            rows.steps = array("q", steps)
        elif per_epoch and epoch is not None and all(0 <= each * per_epoch < 2**53 for each in epoch.values):
            rows.steps = array("q", _snapped(epoch.values, per_epoch, every))
            rows.total = rows.total or self._summary_steps()
        else:
            self.result.steps_are_lines = every is None
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
        epochs = self.settings.get("epochs") or self._summary("epoch")
        total = total or self._summary_steps()
        if total and isinstance(epochs, int | float) and epochs > 0:
            return total / epochs
        if epoch is not None and len(set(steps)) > 0.5 * len(steps) > 0:
            ratios = sorted(step / share for step, share in zip(steps, epoch.values, strict=True) if share > 0)
            return ratios[len(ratios) // 2] if ratios else None
        return None

    def _said_total(self) -> int | None:
        for key in ("max_iters", "max_steps", "total_steps"):
            if isinstance(self.settings.get(key), int) and self.settings[key] > 0:
                return int(self.settings[key])
        return None

    def _bar_of(self, table: Table) -> Table | None:
        """The bar that moves between these rows; a bar of something else is full before them, or moves inside them."""
        best, most = None, 0
        for bar in self.bars:
            if bar.columns[0].role != "bar" or _NOT_TRAINING.search(bar.bar or ""):
                continue
            before, after = _around(bar, table.at)
            seen = [b for b in (after if len(table) < 3 else before) if b is not None]
            moves = len(set(seen))
            if moves > most or (moves == most and best is not None and len(bar) > len(best)):
                best, most = bar, moves
        return best

    def _bar_clock(self, rows: Rows, bar: Table) -> None:
        """The bar's clock at the steps of the rows."""
        elapsed, position = bar.get("bar_elapsed"), bar.columns[0]
        assert rows.steps is not None
        if elapsed is None:
            return
        clock = {int(p): e for p, e in zip(position.values, elapsed.values, strict=True) if p == p and e == e}
        rows.clock = array("d", (clock.get(step, NAN) for step in rows.steps))
        pace = bar.get("bar_pace")
        fast = [p for p in pace.sample() if p == p] if pace else []
        if pace and fast and sorted(fast)[len(fast) // 2] < 0.5:
            paces = {int(p): s for p, s in zip(position.values, pace.values, strict=True) if p == p}
            rows.time, rows.clock = array("d", (paces.get(step, NAN) for step in rows.steps)), None
        rows.source, rows.resolution_s, rows.starts_with_run = "progress_bar", 1.0, True

    # --- bars alone ---

    def _bars_with_loss(self) -> list[Rows]:
        found = [bar for bar in self.bars if bar.get("loss", "part_loss") is not None and bar.columns[0].role == "bar"]
        found = [bar for bar in found if not _NOT_TRAINING.search(bar.bar or "") and len(bar) >= LEAST_ROWS]
        return [rows for bar in found if (rows := self._bar_rows(bar))]

    def _lone_bars(self) -> list[Rows]:
        found = [
            bar
            for bar in self.bars
            if bar.columns[0].role == "bar"
            and not _NOT_TRAINING.search(bar.bar or "")
            and len(bar) >= 3
            and (not bar.bar or _TRAINING.search(bar.bar))
        ]
        longest = max(found, key=lambda bar: len(set(bar.columns[0].values)), default=None)
        if longest is None or len(set(longest.columns[0].values)) < 3:
            return []
        rows = [self._bar_rows(bar) for bar in found if bar.bar == longest.bar]
        return [each for each in rows if each]

    def _bar_rows(self, bar: Table) -> Rows | None:
        """The states of a bar as steps, the last state of each position; a bar for every epoch is unrolled."""
        position, of = bar.columns[:2]
        epoch = next((c for c in bar.columns[2:] if c.role == "epoch" and c.part == "" and c.is_whole()), None)
        if (counter := bar.get("step")) is not None and bar.part_of(counter, "of"):
            position, of = counter, bar.part_of(counter, "of") or of
        elapsed, loss = bar.columns[2].values, bar.get("loss", "part_loss")
        last = [
            i
            for i in range(len(bar))
            if i + 1 == len(bar)
            or position.values[i + 1] != position.values[i]
            or elapsed[i + 1] < elapsed[i]
            or (
                epoch is None
                and elapsed[i + 1] == elapsed[i]
                and loss
                and loss.values[i + 1] != loss.values[i]
                and position.values[i] == of.values[i]
            )
        ]
        last = [i for i in last if position.values[i] > 0 or (bar.get("loss") is not None and len(last) < 3)]
        if not last:
            return None
        table = Table(bar.bar, "", [], bar.unused, 0)
        table.at = array("q", (bar.at[i] for i in last))
        for column in bar.columns:
            copy = _empty(column)
            copy.values = array("d", (column.values[i] for i in last))
            table.columns.append(copy)
        rows = Rows(table, loss=table.get("loss", "part_loss"), val=table.get("val_loss"))
        position, of = table.columns[:2]
        counter = table.get("step")
        if counter is not None and (total := table.part_of(counter, "of")):  # it counts batches, the bar counts updates
            position, of = counter, total
        epochs = None
        if epoch is not None:
            epoch = next(c for c in table.columns[2:] if c.role == "epoch")
            epochs = _constant(table.part_of(epoch, "of"))
        batches = _constant(of)
        if epoch is not None and batches and all(map(math.isfinite, (*epoch.values, *position.values))):
            rich = (bar.bar or "").startswith("rich")
            first = 0.0 if rich else min(epoch.values[0], 1.0)
            epochs = epochs + 1 if epochs and rich else epochs
            rows.steps = array(
                "q", (int((e - first) * batches + p) for e, p in zip(epoch.values, position.values, strict=True))
            )
            rows.total = epochs * batches if epochs and epochs > max(epoch.values) - first else None
        else:
            rows.steps, laps = _laps(position, of, rows.loss)
            rows.total = batches if not laps else None
        self._bar_times(rows)
        return rows

    def _bar_times(self, rows: Rows) -> None:
        table = rows.table
        elapsed, pace = table.get("bar_elapsed"), table.get("bar_pace")
        printed = table.get("time_s", "bare_time")
        rows.source = "progress_bar"
        if printed is not None:
            rows.time, rows.source = _scaled(printed), "printed"
            return
        speeds = sorted(p for p in pace.sample() if p == p) if pace else []
        if speeds and speeds[len(speeds) // 2] < 1 and pace:
            rows.time = pace.values
        elif elapsed:
            rows.clock, rows.resolution_s, rows.starts_with_run = elapsed.values, 1.0, True

    # --- time ---

    def _times(self, training: list[Rows]) -> None:
        for rows in training:
            if rows.time is None:
                self._time(rows)

    def _time(self, rows: Rows) -> None:
        """The time of a step, by whatever the rows show: a time, a rate, a clock that keeps running, a stamp."""
        table = rows.table
        for role in ("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed"):
            column = table.get(role)
            if column is None:
                continue
            values = _scaled(column)
            rows.resolution_s = 1.0 if column.part == "duration" else None
            if role == "steps_s":
                values = array("d", (1 / v if v > 0 else NAN for v in values))
                if not self._is_mean(rows, values):
                    rows.time, rows.source = values, "printed"
                    return
                continue
            rising = _is_clock(values) and not self._means("time_of_step")
            if role.endswith("time") or role == "time_s":
                if not rising or self._means("time_of_line"):
                    if self._is_mean(rows, values):
                        continue
                    rows.time, rows.source = values, "printed"
                    self._divide(rows)
                    self._check_time(rows)
                    return
            elif _falls(values):
                continue  # it shows the time left
            elif len(values) > 3 and column.rises() < 0.5:
                rows.time, rows.source = values, "printed"
                return
            rows.clock, rows.source = values, "cumulative"
            return
        stamp = next((c for c in table.columns if c.part == "stamp"), None)
        left = table.get("epoch_left_s")
        if left is not None and stamp is None and rows.left_in_epoch:
            pairs = zip(_scaled(left), rows.left_in_epoch, strict=True)
            rows.time = array("d", (seconds / steps if steps > 0 < seconds else NAN for seconds, steps in pairs))
            rows.source = "printed"
        if rows.clock is None and stamp is not None:
            rows.clock, rows.source = stamp.values, "timestamps"
            rows.resolution_s = 0.001 if any(not v.is_integer() for v in stamp.sample()[:20]) else 1.0

    def _is_mean(self, rows: Rows, values: Sequence[float]) -> bool:
        """Whether printed times are means since the run began: differences of the clock beside them tell more."""
        elapsed, steps = rows.table.get("elapsed_s", "bare_elapsed"), rows.steps
        if elapsed is None or steps is None or not _is_clock(elapsed.values):
            return False
        pairs = [
            (e * elapsed.factor, v * s)
            for e, v, s in zip(elapsed.values, values, steps, strict=True)
            if s > 20 and v > 0
        ]
        near = sum(abs(e - whole) <= 0.02 * whole + 1 for e, whole in pairs[:2000])
        return len(pairs) > 10 and near > 0.9 * len(pairs[:2000])

    def _divide(self, rows: Rows) -> None:
        """Divide printed times by the steps that they cover, if there is evidence that they cover several."""
        steps, times = rows.steps, rows.time
        assert steps is not None
        assert times is not None
        gaps = [b - a for a, b in pairwise(steps)]
        forward = sorted(gap for gap in gaps[:2000] if gap > 0)
        interval = forward[len(forward) // 2] if len(forward) > 1 else 1
        if interval < 5 or self._means("time_of_step") or not self._covers(rows, interval):
            return
        first = times[0] if steps[0] <= 1 else NAN
        rows.time = array("d", [first, *(t / gap if gap > 0 else NAN for t, gap in zip(times[1:], gaps, strict=True))])
        rows.spans = True

    def _covers(self, rows: Rows, interval: int) -> bool:
        """Whether a printed time is all that passed since the line before: by the clock, the first step, the speed."""
        if self._means("time_of_line"):
            return True
        assert rows.steps is not None
        assert rows.time is not None
        stamp = next((c for c in rows.table.columns if c.part == "stamp"), None)
        times = rows.time
        votes = []
        for index in range(1, min(len(times), 1000) if stamp else 0):
            passed = stamp.values[index] - stamp.values[index - 1] if stamp else NAN
            if passed > 3 and times[index] > 0 and rows.steps[index] - rows.steps[index - 1] >= 5:
                votes.append(0.75 * passed < times[index] < 1.3 * passed + 1)
        if len(votes) >= 3:
            return sum(votes) > 0.8 * len(votes)
        usual = sorted(t for t in times[1:2000] if t > 0)
        if not usual:
            return False
        each = usual[len(usual) // 2]
        if len(usual) > 4 and rows.steps[0] <= 1 and each / interval < times[0] < FIRST_IS_SHORT * usual[0]:
            return True
        tokens, speed = self.settings.get("tokens_per_step"), rows.table.get("tok_s")
        speeds = sorted(v for v in speed.values[1:2000] if v > 0) if speed else []
        if isinstance(tokens, int) and tokens > 0 and speeds and speed:
            return abs(speeds[len(speeds) // 2] * speed.factor * each / (tokens * interval) - 1) < 0.15
        return False


def _merged(bars: list[Table]) -> list[Table]:
    """One table for each bar, whatever values are shown beside it."""
    merged = []
    for name in dict.fromkeys((bar.bar, bar.columns[0].role) for bar in bars):
        same = [bar for bar in bars if (bar.bar, bar.columns[0].role) == name]
        whole = Table(name[0], "", [], [label for bar in same for label in bar.unused], 0)
        kinds = {(c.label, c.unit, c.part): c for bar in same for c in bar.columns}
        whole.columns = [_empty(column) for column in kinds.values()]
        for at, each, index in sorted(((at, bar, i) for bar in same for i, at in enumerate(bar.at)), key=itemgetter(0)):
            values = {(c.label, c.unit, c.part): c.values[index] for c in each.columns}
            whole.at.append(at)
            for column in whole.columns:
                column.values.append(values.get((column.label, column.unit, column.part), NAN))
        merged.append(whole)
    return merged


def _epochs_of(bar: Table, headed: bool) -> Table:
    """Bars that show one epoch each (Keras): their last states are the rows; without headings they are counted."""
    position, of = bar.columns[0].values, bar.columns[1].values
    val = bar.get("val_loss")
    ends = [i for i in range(len(bar)) if position[i] == of[i] or (val and val.values[i] == val.values[i])]
    loss = bar.get("loss", "part_loss")
    if not headed and loss:  # a bar that is drawn again
        ends = [
            i for i, j in zip(ends, [*ends[1:], -1], strict=False) if j != i + 1 or loss.values[i] != loss.values[j]
        ]
    table = Table(None, "", [], bar.unused, 0)
    table.at = array("q", (bar.at[i] for i in ends))
    for column in bar.columns[5:]:
        copy = _empty(column)
        copy.values = array("d", (column.values[i] for i in ends))
        if any(value == value for value in copy.values):
            table.columns.append(copy)
    if not headed and table.get("epoch") is None:
        table.columns.insert(0, Column(Cell("epoch", "", "", "", 0, 0)))
        table.columns[0].values = array("d", range(1, len(ends) + 1))
    return table


def _is_cut(table: Table, whole: Table) -> bool:
    """Whether the only row of a table is the last line of the log, and the first half of another table's line."""
    labels, others = [c.label for c in table.columns], [c.label for c in whole.columns]
    is_last = len(table) == 1 < len(whole) and table.at[0] > whole.at[-1]
    return is_last and len(labels) <= 0.6 * len(others) and others[: len(labels)] == labels


def _signs(table: Table) -> set[str]:
    return {c.label or (c.unit and f"# {c.unit}") for c in table.columns if c.part != "stamp"} | set(
        map(label_of, table.unused)
    )


def _repeated(several: list[Rows]) -> list[Rows]:
    """Without shapes that were seen once, where the same is said in others that came again."""
    again = {(rows.val or rows.loss or rows.table.columns[0]).label for rows in several if len(rows.table) > 1}
    several = [rows for rows in several if not any(_is_cut(rows.table, other.table) for other in several)]
    return [
        rows
        for rows in several
        if len(rows.table) > 1 or not again or (rows.val or rows.loss or rows.table.columns[0]).label in again
    ]


def _is_heading(table: Table) -> bool:
    roles = {c.role for c in table.columns if c.part == ""}
    return bool(roles & {"epoch", "step", "batch"}) and not roles & (LOSSES - {"bare_train"}) and table.width < 120


def _is_value(table: Table) -> bool:
    """A row with values and no counter."""
    roles = {c.role for c in table.columns if c.part != "of"}
    counted = any(c.part == "" and (not c.label or c.role is None) and not c.unit for c in table.columns)
    values = {"loss", "part_loss", "val_loss", "ppl", "val_ppl", "time_s", "bare_time", "elapsed_s", "lr", "grad_norm"}
    return bool(roles & values) and not roles & {"global_step", "step", "batch", "epoch", "total"} and not counted


def _may_be_loss(column: Column) -> bool:
    """A loss is no count: not only whole numbers, unless they are zero."""
    finite = [v for v in column.sample() if math.isfinite(v)]
    return not finite or column.has_point or any(not v.is_integer() for v in finite) or max(finite) < 100


def _empty(column: Column) -> Column:
    """A column of the same kind without values."""
    copy = object.__new__(Column)
    copy.__dict__.update(column.__dict__)
    copy.values = array("d")
    return copy


def _constant(column: Column | None) -> int | None:
    """The one value that a column has."""
    if column is None or not len(column.values):
        return None
    values = {v for v in column.sample() if v == v}
    return int(values.pop()) if len(values) == 1 and 0 < min(values) < 1e13 else None


def _constant_of(bar: Table | None) -> int | None:
    return int(bar.columns[1].values[-1]) if bar is not None and bar.columns[1].values[-1] > 0 else None


def _advances(counter: Column, loss: Column | None) -> bool:
    """Whether a counter tells rows with different losses apart."""
    values = counter.sample()
    if len(values) < 4 or loss is None or counter.role in ("step", "global_step"):
        return True
    losses = loss.sample()
    apart = [(a != b) for (a, b), (x, y) in zip(pairwise(values), pairwise(losses), strict=True) if x != y]
    return not apart or sum(apart) >= 0.5 * len(apart)


def _whole(values: Sequence[float]) -> "array[int]":
    if all(map(math.isfinite, values)) and max(values, default=0) < 1e15:
        return array("q", map(int, values))  # much faster
    return array("q", (int(v) if v == v and v < 1e15 else -1 for v in values))


def _scaled(column: Column) -> "array[float]":
    if column.factor == 1.0:
        return column.values
    divisor = round(1 / column.factor) or 1
    return array(
        "d", (v / divisor for v in column.values) if divisor > 1 else (v * column.factor for v in column.values)
    )


def _counter_label(rows: Rows) -> str:
    column = rows.table.get("global_step", "step", "batch")
    return column.label if column else ""


def _starts_with_counter(rows: Rows) -> bool:
    first = next((c for c in rows.table.columns if c.part != "stamp"), None)
    return first is not None and first.role in ("step", "global_step")


def _timed(table: Table) -> bool:
    return table.get("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed") is not None


def _is_clock(times: Sequence[float]) -> bool:
    """Whether times only ever rise: then they are a clock that keeps running."""
    sample = times if len(times) < 2000 else times[:1000]
    rises = sum(a < b for a, b in pairwise(sample))
    first = next((value for value in sample if value > 0), 0.0)
    return len(sample) >= 4 and rises >= 0.95 * (len(sample) - 1) and sample[-1] >= 3 * first


def _falls(times: Sequence[float]) -> bool:
    falls = sum(a > b for a, b in pairwise(times[:2000]))
    return falls > 0.5 * (len(times[:2000]) - 1) > 0


def _around(bar: Table | None, places: Sequence[int]) -> tuple[list[int | None], list[int | None]]:
    """The position of the bar before and behind each place."""
    before: list[int | None] = []
    after: list[int | None] = []
    if bar is None:
        return [None] * len(places), [None] * len(places)
    values = bar.columns[0].values
    for at in places:
        index = bisect_left(bar.at, at)
        before.append(int(values[index - 1]) if index > 0 else None)
        after.append(int(values[index]) if index < len(bar) else None)
    return before, after


def _glued(bar: Table | None, table: Table) -> list[bool]:
    """Whether a row stands behind the bar on its line."""
    places = set(bar.at) if bar else set()
    return [at - 1 in places for at in table.at]


def _spread(steps: Sequence[int | None], epoch: Column) -> float:
    """How far from constant steps an epoch are, by these steps."""
    ratios = [step / share for step, share in zip(steps, epoch.values, strict=True) if step and 0 < share < math.inf]
    return max(ratios) / min(ratios) - 1 if len(ratios) > 1 else math.inf


USUAL_LOGGING_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)


def _snapped(shares: Sequence[float], per_epoch: float, every: int | None) -> list[int]:
    """Steps from shares of an epoch: logs come at one distance, and shares may be printed with too few digits."""
    exact = [share * per_epoch for share in shares]
    if every is None:
        gaps = sorted(b - a for a, b in pairwise(exact) if b > a) or [exact[0]]
        middle = max(gaps[len(gaps) // 2], 0.5)
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
