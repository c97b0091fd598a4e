"""Any other trainer: numbers are found by their meaning, in lines, tables, headings with values below, or bars.

A run is counted by the best kind of record that the log has (see `Level`): where a trainer prints lines for its
batches, a summary of an epoch adds only its evaluation; where it prints nothing but a progress bar, the bar is used.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Literal

from nanoscope.runs.bars import Bar, hides_bar, read_bars
from nanoscope.runs.clocks import Clocks, Timing, bar_timing
from nanoscope.runs.fields import Fields, meaning_after, number, read_fields
from nanoscope.runs.formats.base import Format, Line, named, step_record
from nanoscope.runs.position import Position, Positions
from nanoscope.runs.records import CheckpointRecord, EndRecord, EvalRecord, OtherRecord, Record, StepRecord
from nanoscope.runs.run import MISSING, Run
from nanoscope.runs.saving import saved_step
from nanoscope.runs.spans import is_clock, take_differences
from nanoscope.runs.tables import TableReader
from nanoscope.runs.task import Task
from nanoscope.runs.text import undecorated


class Level(IntEnum):
    """The kinds of training records, from the worst to the best."""

    NONE = 0
    BARS_ALONE = 1  # bars without a loss
    TIMES = 2  # lines with a time and no loss
    BARS = 3  # bars with a loss
    EPOCHS = 4  # one record for each epoch
    LINES = 5  # one record for each step that is printed


_WEAK = (Level.BARS_ALONE, Level.TIMES)
_ENOUGH_WEAK = 3  # records without a loss that make a run
_LINES_BELOW_BAR = 3
_SHORT = 90  # characters of a line that has a time and no loss; a longer one may be the first half of a record
_LINES_BELOW = 12  # that belong to a heading
_MOST_LABELS = 50_000  # new to one log; a log with more names than any trainer has is read by its lines' beginnings
_BEGINNING = 400  # characters

_VALUES = re.compile(
    r"loss|bp[bc]\b|perplexity|ppl|tokens_per|\b(?:step|iter|epoch|update|itr|batch)|\b(?:time|dt|took|eta|lr)\b|\d\s?m?s\b|nll|xent",
    re.IGNORECASE,
)
_LIGHTNING_STOPPED = re.compile(r"Trainer\.fit` stopped: `max_(?:epochs|steps)=\d{1,9}` reached")
_RECORD_WORD = re.compile(r"\b(iter|step|epoch|iteration)s?\b[:=\s#\[]{0,4}\d", re.IGNORECASE)
_BEGINS_WITH_STEP = re.compile(r"\W{0,8}(?:iter|step|it)", re.IGNORECASE)
_HEADING = re.compile(
    r"^\W{0,12}(?:(?:start(?:ing)?|begin(?:ning)?|training|train) )?(?:epoch|step|iter\w{0,7})\b[^a-z]{1,30}\W{0,60}$"
    r"|(?:^|\s)\[(?:step|batch|iter)=\d{1,12}(?:/\d{1,12})?(?:,\s?\w{1,12}=\d{1,12})?\]:?\s{0,4}$",
    re.IGNORECASE,
)
_VALIDATION_LINE = re.compile(
    r"^\W{0,8}(?:\w{1,20}\W{1,4})?(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\b", re.IGNORECASE
)
# 'Test: [ 10/196]  Time 0.31 (0.29)  Loss 5.42 (5.39)': a line on the way, with the mean so far in brackets.
_EVAL_PROGRESS = re.compile(
    r"^\W{0,8}(?:test|val\w{0,7}|eval\w{0,7})\b[^\[\w]{0,20}\[\s{0,6}\d{1,9}/\s{0,4}\d{1,9}\]", re.IGNORECASE
)
_MEAN_LOSS = re.compile(r"\bloss:?\s{1,4}[\d.e+-]{1,16}\s{1,2}\(\s{0,4}([\d.e+-]{1,16})\)", re.IGNORECASE)
_LOSS_AT = re.compile(
    r"^((?:[a-z]{2,12} ){0,2})loss (?:\([^()]{0,40}\) )?(?:at|after|for) "
    r"(step|iter(?:ation)?|epoch) (\d{1,12})\s?(?:[:=]|is)\s?",
    re.IGNORECASE,
)
_ESPNET = re.compile(r"(?:^|\s)(\d{1,6})epoch:train:\d{1,9}-(\d{1,9})batch:")
_TRAIN_EPOCH = re.compile(r"^\W{0,4}Train: (\d{1,6}) \[")  # timm


@dataclass(eq=False, repr=False)
class Heading:
    """A line that only says where training is ('Epoch 3/20'); its values are on the lines below."""

    position: Position
    fields: Fields = field(default_factory=Fields)
    lines_left: int = _LINES_BELOW


class Generic(Format):
    name = "generic"
    fallback = True
    lines = (
        Line(
            EndRecord,
            r"(?i)\b(?:training|train) (?:is |has )?(?:been )?(?:complete[d]?|finished|done)\b(?! \d)"
            r"|^\W{0,8}(?:finished|end of) training\b(?! (?:epoch|step|batch|iter|loop))|\bLoss for final step: ",
            "",
        ),
    )
    record_words = ("step", "iter", "epoch", "batch", "%|", "it/s", "ms", "nll")
    settings = named(
        "checkpoint_every total_steps train_steps warmup_steps world_size",
        num_train_epochs="epochs", max_epochs="epochs", num_epochs="epochs", n_epochs="epochs",
        max_update="total_steps", train_iters="max_iters", iters="max_iters", nproc_per_node="world_size",
    )  # fmt: skip
    header = (
        (
            "parameters",
            r"(?:number of (?:trainable )?|total |num_|model #|model |trainable )param(?:eter)?s\s?[:=]"
            r"\s?([\d.,]+\s?[KMB]?)",
        ),
        ("max_iters", r"\btotal steps ([\d,]+) ?\(warmup|\bstarting training\W{1,6}iters: ([\d,]+)"),
        (
            "tokens_per_step",
            r"total (?:number of )?tokens per (?:iteration|step|batch)\s?[:=]?\s?([\d,]+)"
            r"|(?<!total )tokens per (?:step|batch)\s?[:=]\s?([\d,]+)",
        ),
        ("gradient_accumulation_steps", r"\bgrad(?:ient)?[ _]accum(?:ulation)?[ _]?(?:steps)?\s?[:=]\s?([\d,]+)"),
        ("world_size", r"\b(?:world[ _]size|num(?:ber of)? (?:gpus|devices))\s?[:=]\s?([\d,]+)"),
        ("vocab_size", r"\bvocab(?:ulary)?(?: size)?\s?[:=]\s?([\d,]+)"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._level = Level.NONE
        self._misses = meaning_after.cache_info().misses
        self._tables = TableReader()
        self._heading: Heading | None = None
        self._bar: StepRecord | None = None  # the last state of a bar; its next state may correct the values
        self._bar_level, self._bar_line = Level.BARS, 0
        self._laps = 0  # how often that bar was full and began anew
        self._whole_bar = (0, 0)  # position and total of the last bar that belongs to no epoch
        self._positions = Positions()
        self._clocks = Clocks()
        self._task = Task()
        self._stopped = False  # Lightning says so, perhaps before it prints the last state of its bar
        self._each_device = False
        self._on_the_way: EvalRecord | None = None  # the last state of an evaluation that prints its progress
        self._eval_heading_left = 0  # lines that a heading like 'Test Error:' still covers
        self._early_evals: list[EvalRecord] = []  # printed before the step that they belong to
        self._evals_lead = False  # this trainer evaluates, then prints the step
        # Lines with both losses are evaluations where training has lines of its own; until that is clear, they wait.
        self._both_are: Literal["unknown", "evaluations", "steps"] = "unknown"
        self._held: list[StepRecord] = []

    # --- one line ---

    def parse(self, line: str) -> Sequence[Record]:
        text = undecorated(line)
        row = self._tables.row(text)
        text = text if row is None else row
        self._eval_heading_left -= 1
        if len(text) > _BEGINNING and meaning_after.cache_info().misses - self._misses > _MOST_LABELS:
            text = text[:_BEGINNING]
        if (len(text) > 2000 and not _RECORD_WORD.search(text, 0, 200)) or text.startswith('File "'):
            return ()
        bars = read_bars(text) if row is None else []
        if bars:
            return self._parse_bars(bars, text)
        if hides_bar(text):
            return ()
        if not _VALUES.search(text):
            return self._parse_other(text)
        joined = _joined_records(text)
        if joined:
            return [record for part in joined for record in self._parse_values(part, line, is_row=False)]
        records = self._parse_values(text, line, is_row=row is not None)
        if records and isinstance(records[0], EvalRecord):
            return (*records, *self._parse_other(text))
        return records or self._parse_other(text)

    def _parse_other(self, text: str) -> Sequence[Record]:
        if _LIGHTNING_STOPPED.search(text):
            self._stopped = True
            return (OtherRecord("end"),)
        if len(text) < 40 and text.rstrip().endswith(":") and _VALIDATION_LINE.match(text):
            self._eval_heading_left = 3
        saved = self._parse_checkpoint(text)
        return (saved,) if saved else tuple(super().parse(text))

    def _parse_values(self, text: str, line: str, is_row: bool) -> Sequence[Record]:
        if " step " in text or " epoch " in text or " iter" in text:
            text = _LOSS_AT.sub(r"\2 \3: \1loss ", text, count=1)
        fields = read_fields(text)
        values = fields.values
        timm = _TRAIN_EPOCH.match(text)
        if timm:
            values["epoch"] = float(timm[1])
        espnet = _ESPNET.search(text)
        if espnet:
            values |= {"epoch": float(espnet[1]), "batch": float(espnet[2])}
            if "elapsed_s" in values:  # 'train_time' is that of a batch, 'iter_time' that of its data
                values["time_s"] = values.pop("elapsed_s")
                values.pop("bare_time", None)
        if _EVAL_PROGRESS.match(text) and "loss" in values:
            mean = _MEAN_LOSS.search(text)
            self._on_the_way = EvalRecord(None, number(mean[1]) if mean else fields.get("loss"))
            return (OtherRecord("eval"),)
        self._end_eval()
        if (
            (_VALIDATION_LINE.match(text) or self._eval_heading_left > 0)
            and "val_loss" not in values
            and "loss" in values
            and "train" not in text[:40].lower()
        ):
            values["val_loss"] = values.pop("loss")
        has_loss, has_val = "loss" in values, "val_loss" in values or "val_bpb" in values
        self._task.see(text, fields)
        self._positions.take_setting(self.builder.facts.get("epochs"))
        position = self._positions.find(text, fields)
        if position is None:
            if not values:
                return ()
            return self._parse_below(fields, has_loss, has_val)
        if not has_loss and not has_val:
            return self._parse_no_loss(text, line, fields, position)
        self._end_heading()
        timing = self._clocks.read(line, fields, position.number)
        if position.unit == "epoch":
            return self._epoch_record(fields, position, timing)
        record = self._step(fields, position, timing)
        if not has_val:
            self._both_are = "evaluations"
            self._held.clear()
            return self._submit(Level.LINES, record)
        return self._with_both(fields, record, has_loss, is_row)

    def _parse_checkpoint(self, line: str) -> CheckpointRecord | None:
        step = saved_step(line)
        if step is None:
            return None
        last = self.builder.last_step
        counts_alike = self._level in (Level.LINES, Level.EPOCHS) and (last is None or step <= 2 * last + 2)
        return CheckpointRecord(step if step >= 0 and counts_alike else None)

    # --- headings ---

    def _parse_no_loss(self, text: str, line: str, fields: Fields, position: Position) -> Sequence[Record]:
        """A heading, or a step of which only the time is known."""
        names_step = not fields.values.keys().isdisjoint(("step", "epoch", "batch"))
        if names_step and _HEADING.search(text) and len(text) < 120:
            self._end_heading()
            if position.unit == "epoch":
                self._positions.heading_epoch = float(position.number)
            total = position.total or fields.totals.get(position.unit) or fields.totals.get("batch")
            self._heading = Heading(Position(position.unit, position.number, total))
            return (OtherRecord("header"),)
        timed = fields.values.keys() & {"time_s", "steps_s", "bare_time"}
        sure = position.total is not None or "time_s" in fields or "steps_s" in fields
        if timed and sure and "step" in fields and len(text) < _SHORT and _BEGINS_WITH_STEP.match(text):
            timing = self._clocks.read(line, fields, position.number)
            return self._submit(Level.TIMES, self._step(fields, position, timing))
        if self._heading and names_step and self._heading.position.number == position.number:
            return self._parse_below(fields, False, False)
        return ()

    def _parse_below(self, fields: Fields, has_loss: bool, has_val: bool) -> Sequence[Record]:
        """Values without a position: they belong to the heading above, or to the last step."""
        heading = self._heading
        if self._bar and self.builder.line - self._bar_line <= _LINES_BELOW_BAR and (has_loss or has_val):
            return self._complete_bar(self._bar, fields)
        if heading is not None and heading.lines_left > 0:
            heading.lines_left -= 1
            for name, value in fields.values.items():
                heading.fields.values.setdefault(name, value)
            return (OtherRecord("step" if has_loss else "eval" if has_val else "other"),) if has_loss or has_val else ()
        if not has_val:
            return ()
        evaluation = self._evaluation(fields, None)
        if self.builder.last_step is None or self._evals_lead:  # if no step follows, the first was only a remark
            self._early_evals = [evaluation]
            return (OtherRecord("eval"),) if self._evals_lead else ()
        return (evaluation,)

    def _end_eval(self) -> None:
        """Place the last state of an evaluation that printed its progress."""
        evaluation, self._on_the_way = self._on_the_way, None
        if evaluation is not None and self.builder.last_step is not None:
            self.builder.place(evaluation)

    def _end_heading(self) -> None:
        """Place the values that were printed below a heading."""
        heading, self._heading = self._heading, None
        if heading is None or not heading.fields.values:
            return
        fields, position = heading.fields, heading.position
        timing = self._clocks.read("", fields, position.number)
        records: list[Record] = []
        if position.unit == "epoch":
            records = self._epoch_record(fields, position, timing)
        else:
            if "loss" in fields:
                records += self._submit(Level.LINES, self._step(fields, position, timing))
            if "val_loss" in fields:
                records.append(self._evaluation(fields, position.number))
        for record in records:
            self.builder.place(record)

    def _epoch_record(self, fields: Fields, position: Position, timing: Timing) -> list[Record]:
        """The summary of an epoch: a step of its own, or only an evaluation where steps have better records."""
        records: list[Record] = []
        if "loss" in fields and self._level <= Level.EPOCHS:
            epoch = position._replace(total=position.total or self._positions.epochs)
            records += self._submit(Level.EPOCHS, self._step(fields, epoch, timing))
        if "val_loss" in fields or "val_bpb" in fields:
            counts_epochs = self._level == Level.EPOCHS or self.builder.last_step is None
            records.append(self._evaluation(fields, position.number if counts_epochs else None))
        return records

    # --- bars ---

    def _parse_bars(self, bars: list[Bar], text: str) -> Sequence[Record]:
        kind = "bar"
        for bar in bars:
            if bar.trains and bar.total > 0:
                self._task.see(text, bar.values)
                kind = self._take_bar(bar) or kind
        return (OtherRecord(kind),)

    def _take_bar(self, bar: Bar) -> str | None:
        fields = bar.values
        if bar.of_epoch and "epoch" in bar.heading:
            self._begin_epoch(bar)
        if bar.of_epoch and (bar.position == bar.total or "val_loss" in fields):
            return self._take_epoch(fields)
        position = self._bar_position(bar)
        if bar.left_s is not None:
            fields.values.setdefault("eta_s", bar.left_s)
        level = Level.BARS if "loss" in fields else Level.BARS_ALONE
        may_train = bar.names_itself or bar.heading.values or not self._level or self._bar
        if level is Level.BARS_ALONE and (not may_train or bar.position == 0):
            return None
        if self._level > Level.BARS or level < self._level:
            return None
        if self._bar and self._bar.step != position.number:
            self._flush_bar()
        self._bar = self._step(fields, position, bar_timing(bar))
        self._bar_level, self._bar_line = level, self.builder.line
        if "val_loss" in fields and bar.position == bar.total:
            self._flush_bar()
            self.builder.place(self._evaluation(fields, position.number))
        return "step" if level is Level.BARS else "lone bar"

    def _begin_epoch(self, bar: Bar) -> None:
        """The bar names the epoch that it shows, so it is a heading as well."""
        epoch = Position("epoch", int(bar.heading.get("epoch")), bar.heading.totals.get("epoch"))
        if self._heading is None or self._heading.position != epoch:
            self._end_heading()
            self._positions.epochs = epoch.total
            self._heading = Heading(epoch)

    def _take_epoch(self, fields: Fields) -> str | None:
        """The last state of a bar that shows one epoch; its values belong to the heading above."""
        if self._heading is None:  # no heading: count the epochs
            last = self.builder.last_step if self._level == Level.EPOCHS else None
            self._heading = Heading(Position("epoch", (last or 0) + 1))
        self._heading.lines_left = _LINES_BELOW
        self._heading.fields.values.update(fields.values)  # a bar is drawn again with better values
        return "step" if "loss" in fields else None

    def _bar_position(self, bar: Bar) -> Position:
        positions = self._positions
        if bar.epochs_from_zero:
            positions.first_epoch = 0
        for fields in (bar.heading, bar.values):
            positions.epochs = fields.totals.get("epoch", positions.epochs)
        epoch = bar.heading.get("epoch")
        of_run = bar.total == self._whole_bar[1]  # this bar was there before the heading
        if epoch != epoch and "epoch" not in bar.values and self._heading and not of_run:
            epoch = positions.heading_epoch
        batch, batches = bar.position, bar.total
        if "step" in bar.heading and bar.heading.total:  # it counts batches, the bar counts updates
            batch, batches, bar.seconds_per_step = int(bar.heading.get("step")), bar.heading.total, None
        if epoch == epoch and epoch.is_integer():
            return Position("step", *positions.unrolled(int(epoch), batch, batches))
        if self._begins_lap(bar):
            self._laps += 1
            if self.builder.current:
                self.builder.current.total_steps = None  # it was that of an epoch
        self._whole_bar = (bar.position, bar.total)
        if self._laps:
            return Position("step", self._laps * bar.total + bar.position)
        return Position("step", bar.position, bar.total)

    def _begins_lap(self, bar: Bar) -> bool:
        """Whether a bar that was full begins anew and its loss goes on: it shows epochs that it does not name."""
        position, total = self._whole_bar
        if bar.total != total or not bar.position < position == total or self._bar is None:
            return False
        losses = self.builder.current.steps.loss if self.builder.current else ()
        first, last, now = losses[0] if losses else MISSING, self._bar.loss, bar.values.get("loss")
        return abs(now - last) < abs(now - first)

    def _complete_bar(self, bar: StepRecord, fields: Fields) -> Sequence[Record]:
        """Add values that a narrow terminal moved to the lines below the bar."""
        if "loss" in fields:
            bar.loss, self._bar_level = fields.get("loss"), Level.BARS
            return (OtherRecord("step"),)
        self._flush_bar()
        return (self._evaluation(fields, bar.step),)

    def _flush_bar(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            for record in self._submit(self._bar_level, bar):
                self.builder.place(record)

    # --- records ---

    def _submit(self, level: Level, record: StepRecord) -> list[Record]:
        """The record, if no better kind has been seen; the first of a better kind replaces what was placed."""
        if level < self._level:
            return []
        if level > self._level:
            if self._level:
                evals = self.builder.runs[-1].evals if self.builder.runs else []
                self.builder.forget_runs()
                if level is not Level.EPOCHS:
                    self._early_evals += [EvalRecord(None, e.val, e.train_loss, e.metric) for e in evals[-1:]]
                self._bar = None
            self._level = level
        early, self._early_evals = self._early_evals, []
        if early:
            self._evals_lead = self._evals_lead or self.builder.last_step is None
            early[-1].step = record.step
        return [*early[-1:], record]

    def _step(self, fields: Fields, position: Position, timing: Timing) -> StepRecord:
        values = fields.values
        tok_s = fields.get("tok_s", fields.get("tok_s_each"))
        self._each_device = "tok_s_each" in values and "tok_s" not in values
        known = {"time_s": timing[0], "clock": timing[1], "total": position.total, "epoch": position.epoch}
        return step_record(position.number, fields, **known, tok_s=tok_s)

    def _evaluation(self, fields: Fields, step: int | None) -> EvalRecord:
        return EvalRecord(
            step,
            fields.get("val_loss") if "val_loss" in fields else fields.get("val_bpb"),
            fields.values.get("loss"),
            metric="loss" if "val_loss" in fields else "bpb",
            seconds=fields.values.get("eval_s"),
        )

    def _with_both(self, fields: Fields, training: StepRecord, has_loss: bool, is_row: bool) -> Sequence[Record]:
        """A line of a step with a validation loss, and perhaps a training loss too."""
        if self._level in _WEAK:
            self.builder.forget_runs()
            self._level, self._bar = Level.NONE, None
        evaluation = self._evaluation(fields, training.step)
        if training.epoch == training.epoch and self.builder.last_step is not None:
            evaluation.step = None if training.step < self.builder.last_step else training.step
        if has_loss:
            timed = fields.values.keys() & {"time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed"}
            if self._both_are == "steps" or timed or is_row:
                for record in self._submit(Level.LINES, training):
                    self.builder.place(record)
                evaluation.step = self.builder.last_step
            elif self._both_are == "unknown":
                self._held.append(training)
                if len(self._held) >= 500:
                    self._place_held()
        return [evaluation]

    def _place_held(self) -> None:
        self._both_are = "steps"
        for training in self._held:
            for record in self._submit(Level.LINES, training):
                self.builder.place(record)
        self._held.clear()

    # --- the end ---

    def end(self) -> None:
        """Now it is known whether lines with both losses are all there is, and whether times only ever rise."""
        self._flush_bar()
        self._end_eval()
        self._end_heading()
        self._place_held()
        if self.builder.last_step is not None:
            for evaluation in self._early_evals:
                self.builder.place(evaluation)
        runs = self.builder.runs
        if self._level in _WEAK and sum(len(run.steps) for run in runs) < _ENOUGH_WEAK:
            self.builder.forget_runs()
        for run in self.builder.runs[-1:] if self._stopped else ():
            run.said_finished = True
        for run in self.builder.runs:
            if not run.time_spans_steps and is_clock(run.steps.time_s):
                take_differences(run)
            if self._level == Level.EPOCHS:
                run.unit = "epoch"
                run.total_steps = run.total_steps or self._positions.epochs
            elif run.total_steps is None and len(runs) == 1:
                run.total_steps = self._total_of_bar(run)
            run.tok_s_per_device = self._each_device
            self._task.settle(run)

    def _total_of_bar(self, run: Run) -> int | None:
        """The total of a bar that stands where the run stands: it may have shown this run."""
        position, total = self._whole_bar
        steps = run.steps.step
        interval = steps[-1] - steps[-2] if len(steps) > 1 else 1
        return total if steps and total and abs(position - steps[-1]) <= 2 * interval else None


def _joined_records(text: str) -> list[str]:
    """The records of a line that a web page joined from several; none if it is one record."""
    if len(text) < 60 or text.count("loss") < 3:
        return []
    words = list(_RECORD_WORD.finditer(text))
    same = [match.start() for match in words if match[1].lower() == words[0][1].lower()] if words else []
    parts = [text[a:b] for a, b in pairwise([*same, len(text)])]
    return parts if len(parts) >= 3 and all("loss" in part for part in parts) else []
