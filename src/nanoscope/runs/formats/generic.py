"""Any trainer at all: lines with a step and a loss, as `key: value`, `key=value`, `| … |`, tables or plain words."""

import re
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from nanoscope.runs.fields import Fields, number, read_fields, timestamp_s
from nanoscope.runs.formats.base import Format, Line, named, step_record
from nanoscope.runs.records import CheckpointRecord, Clock, EndRecord, EvalRecord, Record, StepRecord
from nanoscope.runs.run import MISSING, Run

_LOSS = re.compile(r"loss|bpb", re.IGNORECASE)
# 'Epoch:[0/19](100/24681)', '[100/5000]', '[100 | 120.5]', '120 | loss …': a step that no word names.
_BARE_STEP = re.compile(
    r"Epoch:?\s?\[(\d{1,6})/\d{1,6}\]\s?\((\d{1,12})/(\d{1,12})\)|\[\s{0,8}()(\d{1,12})\s?(?:/\s?(\d{1,12})\s?\]|\|\s?[\d.]{1,16}\])"
    r"|epoch (\d{1,6}):?\s{1,6}(\d{1,12}) / (\d{1,12}) loss|^\s{0,8}()(\d{1,12})(?:/(\d{1,12}))?\s?[|:,]\s"
)
_CLOCK_IN_BRACKETS = re.compile(r"\[\s{0,8}\d{1,12} \| ([\d.]{1,16})\]")
_SPLIT_SECONDS = re.compile(r":\d\d[.,]\d")
_TIMES = frozenset(("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed"))
_TABLE_HEAD = re.compile(r"(?:step|iter(?:ation)?|epoch)s?\b.{1,200}loss", re.IGNORECASE)


class Generic(Format):
    name = "generic"
    fallback = True
    lines = (
        Line(
            CheckpointRecord,
            r"(?i)\b(?:sav(?:ed|ing)|wr(?:ote|iting))\b.{0,40}\b(?:checkpoint|model|ckpt)\b",
            "",
            check=lambda found: len(found.string) < 400,
        ),
        Line(EndRecord, r"(?i)\btraining (?:is )?(?:complete[d]?|finished|done)\b", ""),
    )
    settings = named("checkpoint_every total_steps train_steps warmup_steps world_size")
    header = (
        ("parameters", r"(?:number of (?:trainable )?|total |num_|model #)param(?:eter)?s\s?[:=]\s?([\d.,]+\s?[KMB]?)"),
        ("max_iters", r"\btotal steps ([\d,]+) ?\(warmup"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[str] = []  # separator and column names of the table whose head was last seen
        # Lines with both losses are evaluations where training has lines of its own; until that is clear, they wait.
        self._both_are: Literal["unknown", "evaluations", "steps"] = "unknown"
        self._held: list[StepRecord] = []

    def parse(self, line: str) -> Iterable[Record]:
        row = self._table_row(line)
        if row is not None:
            line = row
        records: Iterable[Record] = ()
        if _LOSS.search(line) and not line.startswith('  File "'):
            records = self._parse_losses(line)
        return records or super().parse(line)

    def _table_row(self, line: str) -> str | None:
        """A row of a table (CSV, tabs or bars) with the names of the columns before the numbers."""
        if not self._columns or _TABLE_HEAD.search(line):
            separator = next((mark for mark in ("|", "\t", ",") if mark in line), None)
            names = [name.strip() for name in line.strip().strip("|").split(separator)] if separator else []
            if len(names) >= 2 and _TABLE_HEAD.search(line) and not any(c.isdigit() for c in line) and len(line) < 300:
                self._columns = [separator or "", *names]
            return None
        separator, *names = self._columns
        cells = [cell.strip() for cell in line.strip().strip("|").split(separator)]
        if len(cells) != len(names) or not cells[0].isdigit():
            return None
        return ", ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))

    def _parse_losses(self, line: str) -> list[Record]:
        fields = read_fields(line)
        training = _step_record(line, fields)
        if "val_loss" not in fields and "val_bpb" not in fields:
            if training is None or "loss" not in fields:
                return []
            self._both_are = "evaluations"
            self._held.clear()
            return [training]
        if training is None and self.builder.last_step is None:
            return []
        evaluation = EvalRecord(
            training.step if training else None,
            fields.get("val_loss") if "val_loss" in fields else fields.get("val_bpb"),
            fields.values.get("loss"),
            metric="loss" if "val_loss" in fields else "bpb",
            seconds=fields.values.get("eval_s"),
        )
        if training is not None and "loss" in fields:
            if self._both_are == "steps" or not _TIMES.isdisjoint(fields.values):
                self.builder.place(training)
                evaluation.step = self.builder.last_step
            elif self._both_are == "unknown":
                self._held.append(training)
                if len(self._held) >= 500:
                    self._place_held()
        return [evaluation]

    def _place_held(self) -> None:
        self._both_are = "steps"
        for record in self._held:
            self.builder.place(record)
        self._held.clear()

    def end(self) -> None:
        """Now it is known whether lines with both losses are all there is, and whether times only ever rise."""
        self._place_held()
        for run in self.builder.runs:
            if not run.time_spans_steps and _is_clock(run.steps.time_s):
                _difference(run)


def _step_record(line: str, fields: Fields) -> StepRecord | None:
    step, total, epoch = _step_of(line, fields)
    if step is None:
        return None
    time_s, clock = _time_of(line, fields)
    return step_record(step, fields, time_s=time_s, clock=clock, total=total, epoch=epoch)


def _step_of(line: str, fields: Fields) -> tuple[int | None, int | None, float]:
    """Step, total and epoch of a line (the epoch only where steps may restart with it)."""
    epoch = fields.get("epoch")
    if "step" in fields:
        return _whole(fields.get("step")), fields.total, epoch
    bare = _BARE_STEP.search(line)
    if bare:
        parts = [part for part in bare.groups() if part is not None]
        numbers = [int(part) if part else None for part in parts]
        total = numbers[2] if len(numbers) > 2 and numbers[0] is None else None
        return numbers[1], total, float(numbers[0]) if numbers[0] is not None else epoch
    if epoch == epoch:
        return _whole(epoch), None, MISSING
    return None, None, MISSING


def _whole(value: float) -> int | None:
    return int(value) if 0 <= value < 1e12 else None


def _time_of(line: str, fields: Fields) -> tuple[float, Clock | None]:
    """Seconds of the step, or the reading of a clock that keeps running."""
    if "time_s" in fields:
        return fields.get("time_s"), None
    if fields.get("steps_s", 0.0) > 0:
        return 1 / fields.get("steps_s"), None
    if "bare_time" in fields:
        return fields.get("bare_time"), None
    if "elapsed_s" in fields or "bare_elapsed" in fields:
        return MISSING, Clock(fields.get("elapsed_s", fields.get("bare_elapsed")))
    bracket = _CLOCK_IN_BRACKETS.search(line)
    if bracket:
        return MISSING, Clock(number(bracket[1]))
    at = timestamp_s(line)
    if at is not None:
        return MISSING, Clock(at, "timestamps", 0.001 if _SPLIT_SECONDS.search(line[:80]) else 1.0)
    return MISSING, None


def _is_clock(times: "array[float]") -> bool:
    """Whether times that are printed as a step's own only ever rise: then they are a clock that keeps running."""
    rises = sum(a < b for a, b in pairwise(times))
    return len(times) >= 4 and rises >= 0.95 * (len(times) - 1) and not times[-1] < 3 * times[0]


def _difference(run: Run) -> None:
    steps, times = run.steps.step, run.steps.time_s
    seconds = [
        (b - a) / (t - s) if b > a else MISSING for (a, b), (s, t) in zip(pairwise(times), pairwise(steps), strict=True)
    ]
    run.steps.time_s = array("d", [MISSING, *seconds])
    run.time_source, run.time_spans_steps = "cumulative", True
