"""What the tables of a log mean: which rows are training, which are evaluations, and what is claimed about them."""

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Literal

from nanoscope.runs.claims import NAN, Numbering, Rows, falls, middle, scaled, settle
from nanoscope.runs.columns import LOSSES, Column, Table, Tables
from nanoscope.runs.counters import Counters, constant_end, is_heading, laps
from nanoscope.runs.roles import COUNTERS, is_validation
from nanoscope.runs.run import LINE_BITS, Claim, Reading
from nanoscope.runs.scan import LEFT_OUT, Cell
from nanoscope.runs.surroundings import Event
from nanoscope.runs.times import TIMES, readings_of_times
from nanoscope.runs.trainers import Trainer, trainers, trainers_of

LEAST_ROWS = 2
_NOT_TRAINING = re.compile(
    r"\b(?:download|load|map|filter|tokeniz|process|generat|validat|valid|val|eval|test|predict|sanity|cach|extract|group"
    r"|sampl|prepar|encod|pack|saving|upload|fetch|convert|quantiz|calibrat|read|creat|writing|inference|infer)"
)
_TRAINING = re.compile(r"train|epoch|step|iter|fit")


class Meaning:
    """What the tables of a log mean."""

    def __init__(self, found: Tables, settings: dict[str, Any]) -> None:
        self.trainer = _trainer(found)
        self.unit: Literal["step", "epoch"] = "step"
        self.steps_are_lines = False
        self.averaged = False  # the losses are means since the epoch began
        self.doubts: list[Claim] = []
        self.ends: list[Event] = []  # rows that sum up a run
        self.means = self.trainer.means if self.trainer else {}
        self.settings, self.lines = settings, found.lines
        self.eval_heads = [event.at for event in found.events if event.kind == "eval_head"]
        self.tables = _streams([table.without_copies() for table in found.tables if table.bar is None])
        self.bars: list[Table] = []
        self._join_bars([table for table in found.tables if table.bar is not None])
        self._join_blocks()
        self.rows = [self._describe(table) for table in self.tables]
        summary: Table | None = None
        for table in (rows.table for rows in self.rows if rows.ends):
            summary, took = summary or table, table.get("bare_elapsed")
            for index, at in enumerate(table.at):
                self.ends.append(Event("end", at >> LINE_BITS, took.values[index] if took else None, at))
        headings = [table for table in self.tables if is_heading(table)]
        self.counters = Counters(settings, headings, self.bars, summary)
        self.training = self._training()
        self.evaluating = self._evaluating()
        for rows in self.training:
            self._settle(rows)
        for rows in self.evaluating if not self.training else ():
            if rows.count and rows.table.get("elapsed_s", "bare_elapsed"):
                self._settle_times(rows)

    # --- rows ---

    def _join_bars(self, bars: list[Table]) -> None:
        """The states of each bar as one table; of bars that show an epoch each, the last states are rows."""
        for _, same in groupby(sorted(bars, key=_kind_of_bar), key=_kind_of_bar):
            bar = Table.joined(list(same))
            if bar.bar == "keras" and any(map(float.__eq__, bar.columns[0].values, bar.columns[1].values)):
                self.averaged = True
                self.tables.append(_epochs_of(bar, any(is_heading(t) and len(t) > 1 for t in self.tables)))
            elif not _NOT_TRAINING.search(bar.bar or ""):
                self.bars.append(bar)  # else it is a bar of something else

    def _join_blocks(self) -> None:
        """Records over several lines: a heading with a counter, and values without one below it."""
        values = [table for table in self.tables if _is_value(table)]
        losses = sum(len(table) for table in values if table.get("loss", "val_loss", "part_loss"))
        counted = sum(len(t) for t in self.tables if t.get("loss", "part_loss") and t not in values)
        headings = [h for h in self.tables if is_heading(h) and 1 < len(h) <= 2 * losses]
        if not headings or counted >= losses:
            return
        heading = max(headings, key=len)
        block = heading.select(list(range(len(heading))))
        block.width, block.unused = 0, []
        for table in values:
            above = [bisect_left(heading.at, at) - 1 for at in table.at]
            rows = {i: row for row, i in enumerate(above) if i >= 0}
            for column in table.columns if rows else ():
                block.columns.append(column.empty())
                values_of = (column.values[rows[i]] if i in rows else NAN for i in range(len(heading)))
                block.columns[-1].values.extend(values_of)
            for i, row in rows.items():
                block.at[i] = max(block.at[i], table.at[row])
        self.tables = [table for table in self.tables if table not in values and table is not heading] + [block]

    def _describe(self, table: Table) -> Rows:
        """Which losses rows have."""
        rows = Rows(table, table.get("loss", "part_loss"), table.get("val_loss", "val_bpb"))
        rows.ends = {"train runtime", "train loss"} <= {c.label for c in table.columns}
        bare, ppl = table.get("bare_train"), table.get("val_ppl", "ppl")
        if rows.loss is None and bare is not None:
            is_alone = len([c for c in table.columns if c.part == ""]) <= 2 and not bare.is_whole()
            rows.loss = bare if rows.val is not None or is_alone else None
        if ppl and (rows.val if ppl.role == "val_ppl" else rows.loss or rows.val) is None:
            ppl.values = array("d", (math.log(v) if 0 < v < math.inf else v for v in ppl.values))
            rows.val, rows.loss = (ppl, rows.loss) if ppl.role == "val_ppl" else (None, ppl)
        elif rows.val is None and (is_validation(table.head) or self._below_heads(table)):
            rows.val, rows.loss = rows.loss, None
        elif rows.val is None and any(is_validation(c.label) for c in table.columns if table.part_of(c, "of")):
            rows.loss = None  # an evaluation on its way: 'epoch 4 | valid 1000 / 1311 loss=3.24'
        if rows.val and (mean := table.part_of(rows.val, "mean")):
            rows.only_last, rows.val = True, mean
        rows.loss = rows.loss if rows.loss and rows.loss.may_be_loss() else None
        rows.val = rows.val if rows.val and rows.val.may_be_loss() else None
        return rows

    def _below_heads(self, table: Table) -> bool:
        """Whether rows stand right below lines like 'Test Error:'."""
        heads, places = [-(2**62), *self.eval_heads], table.at[:200]
        near = sum(at - heads[bisect_left(heads, at) - 1] < (4 << LINE_BITS) for at in places)
        return near > 0.6 * len(places)

    # --- which rows are training ---

    def _training(self) -> list[Rows]:
        """The rows of training: the best kind that the log has. One row is enough only if a trainer is known by it."""
        told = [rows for rows in self.rows if rows.loss is not None and not _stands(rows) and self._count(rows)]
        lines = _seen_again([rows for rows in told if rows.count and rows.count.unit == "step"])
        epochs = _seen_again([rows for rows in told if rows.count and rows.count.unit == "epoch"])
        alone = [rows for rows in lines if rows.val is None]
        if alone:  # lines with both losses are evaluations where training has its own
            best = min(map(_rank, alone))
            same = {_kind(rows) for rows in alone if _rank(rows) == best}
            lines = [rows for rows in lines if _kind(rows) in same]
        elif self.means.get("only_evaluates"):
            lines = [rows for rows in lines if rows.table.get(*TIMES)]
        for several in (lines, epochs):
            if sum(len(rows.table) for rows in several) >= LEAST_ROWS or (several and self.trainer):
                self.unit = "step" if several is lines else "epoch"
                return several
        timed = [rows for rows in self.rows if self._is_timed(rows) and self._count(rows)]
        with_loss = [bar for bar in self.bars if len(bar) >= LEAST_ROWS and bar.get("loss", "part_loss")]
        longest = max(filter(self._trains, self.bars), key=_length, default=None)
        long = [longest] if longest and _length(longest) > LEAST_ROWS else []
        return [*filter(None, map(self._bar_rows, with_loss))] or timed or [*filter(None, map(self._bar_rows, long))]

    def _trains(self, bar: Table) -> bool:
        """Whether a bar without a loss shows training: by its name; one without, where it is most of the log, or where
        other things speak of training."""
        unnamed = self.trainer or self.settings or 4 * len(bar) > self.lines
        return constant_end(bar) is not None and bool(_TRAINING.search(bar.bar) if bar.bar else unnamed)

    def _is_timed(self, rows: Rows) -> bool:
        """Rows with a counter and a time, and no loss: quoted lines, or trainers that print no loss."""
        table = rows.table
        first = next((column for column in table.columns if column.part != "stamp"), None)
        counted = table.get(*COUNTERS) is not None and first is not None and first.role in ("epoch", *COUNTERS)
        if rows.val or not counted or is_validation(table.head):
            return False
        if len(table) < 3 and not self.trainer:
            return False
        return table.get(*TIMES, "grad_norm") is not None

    def _count(self, rows: Rows) -> Numbering | None:
        """Give the rows their steps, if anything counts them."""
        claim = settle("step", self.counters.readings(rows.table), rows)
        if claim.value is None:
            claim = settle("step", self.counters.by_bar(rows.table), rows)
            rows.doubt = claim if any(reading.descent == "order" for reading in claim.readings) else None
        rows.count = claim.value
        return rows.count

    def _evaluating(self) -> list[Rows]:
        """The rows of evaluations alone, with their own steps if they are counted as training is."""
        found = [rows for rows in self.rows if rows.val is not None and rows not in self.training]
        named = any(_rank(rows) == 0 for rows in self.training)
        for rows in found:
            count = settle("step", self.counters.readings(rows.table), rows).value
            column = count.column if count else None
            other = column is not None and column.role is None and (column.label or named)  # 'Accuracy: 91% (912/1000)'
            alike = count is not None and not other and (count.unit == "step" or self.unit == "epoch")
            rows.count = count if alike else None
        if any(rows.count for rows in (*found, *(r for r in self.training if r.val))):  # others sum them up
            found = [rows for rows in found if rows.count or len(rows.table) > 1]
        return found

    def _bar_rows(self, bar: Table) -> Rows | None:
        """The states of a bar as steps, the last state of each position; a bar for every epoch is unrolled."""
        counter = bar.get("step")  # it counts batches, the bar counts updates
        position = counter if counter and bar.part_of(counter, "of") else bar.columns[0]
        of = bar.columns[1]
        at, whole, elapsed, loss = position.values, of.values, bar.columns[2].values, bar.get("loss", "part_loss")
        epoch = next((c for c in bar.columns[2:] if c.role == "epoch" and c.part == "" and c.is_whole()), None)
        last: list[int] = []
        for i in range(len(bar)):
            again = i + 1 < len(bar) and at[i + 1] == at[i] and elapsed[i + 1] >= elapsed[i]
            if again and not epoch and loss and at[i] == whole[i] and elapsed[i + 1] == elapsed[i]:
                again = loss.values[i + 1] == loss.values[i]  # else the next epoch has one batch, too
            if not again and at[i] > 0:
                last.append(i)
        if not last:
            return None
        table = bar.select(last)
        rows = Rows(table, table.get("loss", "part_loss"), table.get("val_loss"))
        position, of = (table.columns[bar.columns.index(column)] for column in (position, of))
        outer = table.columns[bar.columns.index(epoch)] if epoch else laps(position, of, rows.loss)
        rows.count = self.counters.counted(table, position, outer if epoch or any(outer.values) else None).value
        return rows

    # --- totals and times ---

    def _settle(self, rows: Rows) -> None:
        """What is claimed about rows of training."""
        if rows.doubt:
            self.steps_are_lines = True
            self._doubt(rows.doubt)
        told, others = (rows.loss, True) if rows.loss else (rows.val, False)
        if told and not math.isfinite(sum(told.values)):
            rows.kept = [i for i, value in enumerate(told.values) if (value == value) is others]
        self._settle_total(rows)
        self._settle_times(rows)

    def _settle_total(self, rows: Rows) -> None:
        """A total that is not below a step: the counter's own, that of a bar that moves alike, or by the time left."""
        count, steps = rows.count, rows.steps or array("q")
        assert count is not None
        readings = (
            [Reading(count.total, "the number beside the counter", "counter", count.total)] if count.total else []
        )
        if len(steps) > 1:
            for bar in self.bars:
                at, of = bar.columns[0].values[-1], constant_end(bar)
                if of and of >= max(steps) and abs(at - steps[-1]) <= 2 * max(1, steps[-1] - steps[-2]):
                    readings.append(Reading(of, "the bar that moves with the lines", "bar", of))
        eta, times, batches = rows.table.get("eta_s"), rows.table.get("time_s", "bare_time"), count.batches
        if eta is not None and times is not None and batches and falls(eta.values):
            triples = zip(steps, scaled(eta), scaled(times), strict=True)
            each = [(step + left / time) / batches for step, left, time in triples if left > 0 and time > 0][-50:]
            epochs = round(middle(each) or 0)
            if epochs > 1 and sum(abs(n / epochs - 1) < 0.03 for n in each) > 0.8 * len(each):
                readings.append(Reading(epochs * batches, "the time left", "time left", epochs * batches))
        claim = settle("total_steps", readings, rows)
        refused = bool(claim.refused and not claim.readings)
        rows.count = count._replace(total=claim.value, totals=None if refused else count.totals)
        if refused:
            self._doubt(claim)

    def _settle_times(self, rows: Rows) -> None:
        bar = self.counters.bar_of(rows.table) if rows.count and rows.count.column is None else None
        readings = readings_of_times(rows, bar, self.means, self.settings.get("tokens_per_step"))
        claim = settle("step_time_s", readings, rows)
        rows.times = claim.value
        if rows.pace and claim.refused and not claim.readings:
            self._doubt(claim)

    def _doubt(self, claim: Claim) -> None:
        if all(doubt.name != claim.name for doubt in self.doubts):
            self.doubts.append(claim)


# --- tables ---


def _trainer(found: Tables) -> Trainer | None:
    """The trainer whose signs most rows have; what it alone means by some labels is noted."""
    scores: Counter[str] = Counter()
    saves = any(event.kind == "saved" for event in found.events)
    for table in found.tables:
        for name in trainers_of(table.signs(), saves):
            scores[name] += len(table)
    if not scores:
        return None
    trainer = max(trainers(), key=lambda trainer: scores[trainer.name])
    for column in (column for table in found.tables for column in table.columns):
        if column.label in trainer.roles and column.part in ("", "duration"):
            column.role = trainer.roles[column.label]
    return trainer


def _kind_of_bar(table: Table) -> tuple[str, str]:
    return table.bar or "", table.columns[0].role or ""


def _streams(tables: list[Table]) -> list[Table]:
    """Lines of different makes as one table, where they begin with one counter, and one has all values of the other."""
    end = max(filter(len, tables), key=lambda table: table.at[-1], default=None)
    if end is not None and any(end.is_cut(other) for other in tables):
        tables = [table for table in tables if table is not end]
    streams: dict[Any, list[list[Table]]] = defaultdict(list)  # by the counter that they begin with
    for table in sorted(tables, key=lambda table: -len(table.columns)):
        names = table.names()
        alike = table.columns[0].role in COUNTERS and table.get(*LOSSES, "time_s", "steps_s", "bare_time")
        known = streams[names[0] if names[0] and alike else table]
        same = next((stream for stream in known if {*names} <= {*stream[0].names()}), None)
        if same is None:
            known.append([table])
        else:
            same.append(table)
    return [Table.joined(stream, no_loss=LEFT_OUT) for known in streams.values() for stream in known]


def _epochs_of(bar: Table, headed: bool) -> Table:
    """Bars that show one epoch each (Keras): their last states are the rows; without headings they are counted."""
    position, of = bar.columns[0].values, bar.columns[1].values
    ends = [i for i in range(len(bar)) if position[i] == of[i]]
    table = bar.select(ends)
    table.bar, table.width = None, 0
    table.columns = [column for column in table.columns[5:] if any(value == value for value in column.values)]
    if not headed and table.get("epoch") is None:
        table.columns.insert(0, Column(Cell("epoch", "", "", "", 0, 0)))
        table.columns[0].values.extend(range(1, len(ends) + 1))
    return table


def _stands(rows: Rows) -> bool:
    """Whether the same is printed again and again: a sample of text, an example."""
    return len(rows.table) > 2 and all(len({*column.values}) == 1 for column in rows.table.columns if not column.part)


def _rank(rows: Rows) -> int:
    """How well it is known what numbers them: a named counter, a number without a name, or something around them."""
    column = rows.count.column if rows.count else None
    return 2 if column is None else column.role not in COUNTERS


def _length(bar: Table) -> int:
    return len(set(bar.columns[0].values))


def _kind(rows: Rows) -> tuple[int, str, str]:
    """What rows are counted by, and what they are printed for."""
    counter = rows.table.get("global_step", "step", "batch")
    return _rank(rows), counter.label if counter else "", rows.loss.label if rows.loss else ""


def _seen_again(several: Iterable[Rows]) -> list[Rows]:
    """Without shapes that were seen once, where the same is said in others that came again."""
    labelled = [(rows, {column.label for column in (rows.loss, rows.val) if column}) for rows in several]
    again = {label for rows, labels in labelled if len(rows.table) > 1 for label in labels}
    return [rows for rows, labels in labelled if len(rows.table) > 1 or not again or labels & again]


def _is_value(table: Table) -> bool:
    """A row with values and no counter."""
    counts = {*COUNTERS, "epoch", "total", None}
    return not any(c.part == "" and (c.role in counts or not c.label) and not c.unit for c in table.columns)
