"""Any trainer at all: whatever line has a step and a loss, in `key: value`, `key=value`, `| … |` or plain words."""

import re
from array import array
from itertools import pairwise
from typing import Literal

from nanoscope.runs.fields import Fields, read_fields, timestamp_s
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits

_LOSS = re.compile(r"loss|bpb", re.IGNORECASE)
# 'Epoch:[0/19](100/24681)', '[100/5000]', '[100 | 120.5]', '120 | loss …': a step that no word names.
_BARE_STEP = re.compile(
    r"Epoch:?\s?\[(\d{1,6})/\d{1,6}\]\s?\((\d{1,12})/(\d{1,12})\)|\[\s{0,8}()(\d{1,12})\s?(?:/\s?(\d{1,12})\s?\]|\|\s?[\d.]{1,16}\])"
    r"|epoch (\d{1,6}):?\s{1,6}(\d{1,12}) / (\d{1,12}) loss|^\s{0,8}()(\d{1,12})(?:/(\d{1,12}))?\s?[|:,]\s"
)
_CLOCK_IN_BRACKETS = re.compile(r"\[\s{0,8}\d{1,12} \| ([\d.]{1,16})\]")
_TIMES = frozenset(("time_s", "steps_s", "bare_time", "elapsed_s", "bare_elapsed"))
_HEAD = re.compile(r"(?:step|iter(?:ation)?|epoch)s?\b.{1,200}loss", re.IGNORECASE)
_SAVED = re.compile(r"\b(?:sav(?:ed|ing)|wr(?:ote|iting))\b.{0,40}\b(?:checkpoint|model|ckpt)\b", re.IGNORECASE)
_OVER = re.compile(r"\btraining (?:is )?(?:complete[d]?|finished|done)\b", re.IGNORECASE)


class Generic(Format):
    name = "generic"
    traits = Traits()

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[str] = []  # of the table whose head was last seen
        # Lines with both losses are evaluations where training has lines of its own; until that is clear, they wait.
        self._both_are: Literal["unknown", "evaluations", "steps"] = "unknown"
        self._held: list[tuple[str, Fields, int, int | None, float]] = []

    def read(self, line: str) -> str | None:
        row = self._table_row(line)
        if row is not None:
            line = row
        if _LOSS.search(line) and not line.startswith('  File "'):
            kind = self._read_losses(line)
            if kind:
                return kind
        if _SAVED.search(line) and len(line) < 400:
            self.log.checkpoint()
            return "checkpoint"
        if _OVER.search(line):
            self.log.finished()
            return "end"
        return None

    def _table_row(self, line: str) -> str | None:
        """A row of a table (CSV, tabs or bars) with its column's names before the numbers."""
        if not self._columns or _HEAD.search(line):
            separator = next((mark for mark in ("|", "\t", ",") if line.count(mark) >= 1), None)
            names = [name.strip() for name in line.strip().strip("|").split(separator)] if separator else []
            if len(names) >= 2 and _HEAD.search(line) and not any(c.isdigit() for c in line) and len(line) < 300:
                self._columns = [separator or "", *names]
            return None
        separator, *names = self._columns
        cells = [cell.strip() for cell in line.strip().strip("|").split(separator)]
        if len(cells) != len(names) or not cells[0].isdigit():
            return None
        return ", ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))

    def _read_losses(self, line: str) -> str | None:
        fields = read_fields(line)
        step, total, epoch = self._step_of(line, fields)
        has_val = "val_loss" in fields or "val_bpb" in fields
        if not has_val:
            if "loss" not in fields or step is None:
                return None
            self._both_are = "evaluations"
            self._held.clear()
            self._record(line, fields, step, total, epoch)
            return "step"
        if step is None and self.log.last_step is None:
            return None
        if "loss" in fields and step is not None:
            if self._both_are == "steps" or not _TIMES.isdisjoint(fields.values):
                self._record(line, fields, step, total, epoch)
                step = self.log.last_step
            elif self._both_are == "unknown":
                self._held.append((line, fields, step, total, epoch))
                if len(self._held) >= 500:
                    self._release()
        self.log.evaluation(
            step,
            fields.get("val_loss") if "val_loss" in fields else fields.get("val_bpb"),
            fields.values.get("loss"),
            metric="loss" if "val_loss" in fields else "bpb",
            seconds=fields.values.get("eval_s"),
        )
        return "eval"

    def _record(self, line: str, fields: Fields, step: int, total: int | None, epoch: float) -> None:
        time_s, clock_s, resolution_s = self._time_of(line, fields)
        self.log.step(
            step,
            fields.get("loss"),
            time_s,
            clock_s=clock_s,
            clock="timestamps" if resolution_s else "cumulative",
            lr=fields.get("lr"),
            grad_norm=fields.get("grad_norm"),
            tok_s=fields.get("tok_s"),
            mfu_pct=fields.get("mfu_pct"),
            total=total,
            epoch=epoch,
        )
        if resolution_s and self.log.current is not None:
            self.log.current.clock_resolution_s = resolution_s

    @staticmethod
    def _step_of(line: str, fields: Fields) -> tuple[int | None, int | None, float]:
        """Step, total and epoch of a line (the epoch only where steps may start again with it)."""
        epoch = fields.get("epoch")
        if "step" in fields:
            return _whole(fields.get("step")), fields.total, epoch
        bare = _BARE_STEP.search(line)
        if bare:
            parts = [part for part in bare.groups() if part is not None]
            numbers = [int(part) if part else None for part in parts]
            total = numbers[2] if len(numbers) > 2 and not numbers[0] and numbers[0] != 0 else None
            return numbers[1], total, float(numbers[0]) if numbers[0] is not None else epoch
        if epoch == epoch:
            return _whole(epoch), None, MISSING
        return None, None, MISSING

    @staticmethod
    def _time_of(line: str, fields: Fields) -> tuple[float, float | None, float]:
        """Seconds of the step, or the reading of a clock that runs on (and its resolution, for timestamps)."""
        if "time_s" in fields:
            return fields.get("time_s"), None, 0.0
        if fields.get("steps_s", 0.0) > 0:
            return 1 / fields.get("steps_s"), None, 0.0
        if "bare_time" in fields:
            return fields.get("bare_time"), None, 0.0
        if "elapsed_s" in fields or "bare_elapsed" in fields:
            return MISSING, fields.get("elapsed_s", fields.get("bare_elapsed")), 0.0
        bracket = _CLOCK_IN_BRACKETS.search(line)
        if bracket:
            return MISSING, float(bracket[1]), 0.0
        at = timestamp_s(line)
        if at is not None:
            return MISSING, at, 0.001 if re.search(r":\d\d[.,]\d", line[:80]) else 1.0
        return MISSING, None, 0.0

    def _release(self) -> None:
        self._both_are = "steps"
        for held in self._held:
            self._record(*held)
        self._held.clear()

    def end(self) -> None:
        """Now it is known whether lines with both losses are all there is, and whether times only ever rise."""
        self._release()
        for run in self.log.runs:
            steps, times = run.steps.step, run.steps.time_s
            rises = sum(a < b for a, b in pairwise(times))
            if run.time_spans_steps or len(times) < 4 or rises < 0.95 * (len(times) - 1) or times[-1] < 3 * times[0]:
                continue
            seconds = [
                (b - a) / (t - s) if b > a else MISSING
                for (a, b), (s, t) in zip(pairwise(times), pairwise(steps), strict=True)
            ]
            run.steps.time_s = array("d", [MISSING, *seconds])
            run.time_source, run.time_spans_steps = "cumulative", True  # not a step's own time: a clock that runs on


def _whole(value: float) -> int | None:
    return int(value) if 0 <= value < 1e12 else None


FORMAT = Generic
