"""Runs from rows and events. All rows are known, so every question is a pass over typed arrays.

The training rows of a log are one sequence of steps, in the order of the file. It is cut into parts where the steps
stop rising and where a line says that a run may begin. The first step of a part says which run it belongs to:
- with the total of another run of this log, that run (two runs share one log);
- where another run of the last lines was expected to print this step, that run;
- a larger step continues the current run; one of the last few steps again is a copy, printed twice or by another rank;
- a step back to where the run began, or before, starts a new run; a step back into the middle resumes the run.
A step back may also be the next excerpt of a log that somebody quotes: excerpts that fit together are one run.
Evaluations, saves, ends and errors then belong to the rows around them.
"""

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, count, islice, pairwise
from operator import le, ne
from typing import Any, Literal

from nanoscope.runs.claims import Numbering, Rows, scaled
from nanoscope.runs.columns import Table, Tables, missing
from nanoscope.runs.meaning import Understanding, understand
from nanoscope.runs.run import (
    LINE_BITS,
    MISSING,
    NOT_FINITE,
    ConfigValue,
    Evaluation,
    LineRows,
    Log,
    LoggedError,
    Run,
    SavedCheckpoint,
    Series,
    Traits,
)
from nanoscope.runs.scan import LEFT_OUT, label_of
from nanoscope.runs.settings import read_settings
from nanoscope.runs.surroundings import Event

# What rows have besides the columns of `Steps`: the role, the name and the factor of the series.
SERIES = (
    ("bar_left", "eta_s", 1.0),
    ("eta_s", "eta_s", 1.0),
    ("loss_scale", "loss_scale", 1.0),
    ("memory_gb", "memory_gb", 1.0),
    ("memory_mb", "memory_gb", 1e-3),
    ("data_s", "data_s", 1.0),
    ("lr_share", "lr_share", 1.0),
)
SAME_VAL = 0.002
INTERLEAVED_WITHIN_LINES = 60
RECENT_STEPS = 3  # a step printed again within this many is a copy
MOST_STEPS = 10**13  # a number beyond this is none of a step
TINY, HUGE = 1e-9, 1e9  # seconds and nats beyond these are damage to the log, not measurements
ROUNDED_S = 6e-4  # a time that is quoted in whole milliseconds may be off by so much
MOST_QUOTED = 200  # lines of excerpts that may be out of order: nobody quotes more
SAME_LOSS = 0.25  # a resumed run prints about the loss it had at that step; another run may print any loss
BOUNDS = {
    "loss": (-HUGE, HUGE, NOT_FINITE),
    "time": (TINY, HUGE, MISSING),  # 0.00 ms: not measured
    "lr": (-math.inf, math.inf, MISSING),
    "tok_s": (0, math.inf, MISSING),
    "mfu_pct": (-math.inf, math.inf, MISSING),
}
_LANGUAGE = re.compile(r"\b(?:ppl|perplexity|bp[bc]|tok(?:en)?s?|kt/s|wps|lm loss|mlm|language)\b")
_OTHER_TASK = re.compile(
    r"loss (?:box|mask|rpn|objectness|classifier|cls|bbox|dfl|keypoint)|\b(?:box|cls|dfl) loss\b"
    r"|acc ?[15]\b|top ?[15]\b|\bm?iou\b|\bdice\b|\bmap\b|\bwer\b|\bcer\b|\bctc|psnr|\bfid\b|acc seg|\bauc\b|decode "
    r"|\b[dg] loss\b|\bloss [dg]\b"
)
_NO_MEASURE = re.compile(r"v_num|rank|local_rank|pid|gpus?|device|node|seed|line|\S*\.py", re.IGNORECASE)
_AVERAGE = re.compile(r"(?:avg|average|mean|running|smooth\w*) (?:train )?loss|loss (?:avg|mean)")


# --- the sequence of steps ---


@dataclass(eq=False, repr=False)
class Track:
    """The training rows of a log in the order of the file, column by column."""

    at: "array[int]"
    step: "array[int]"
    columns: "list[array[float]]"  # those of `Steps` behind the step
    total: "array[float]"
    series: "dict[str, array[float]]"

    def run_may_change(self, events: Sequence[Event]) -> list[int]:
        """Where a part begins: where steps stop rising or totals change, and behind lines that may begin a run."""
        steps, size = self.step, len(self.step)
        falls = list(compress(count(1), map(le, islice(steps, 1, None), steps)))
        totals = self.total
        cuts = {0, *falls, *(bisect_left(self.at, event.at) for event in events)} - {size}
        if falls:  # there may be two runs in turns
            cuts |= {i for i in range(2, size) if steps[i] - steps[i - 1] != steps[i - 1] - steps[i - 2]}
        cuts |= set(compress(count(1), map(ne, islice(totals, 1, None), totals)))
        return sorted(cuts)


def _track(several: list[Rows]) -> Track:
    parts = [_columns(rows) for rows in several or [Rows(Table(None, "", [], [], 0), count=Numbering(array("q")))]]
    whole: dict[str, Any] = parts[0] if len(parts) == 1 else _merged(parts)
    at, step = whole.pop("at"), whole.pop("step")
    columns = [whole.pop(name) for name in ("loss", "time", "lr", "grad_norm", "tok_s", "mfu_pct")]
    return Track(at, step, columns, whole.pop("total"), whole)


def _columns(rows: Rows) -> "dict[str, Any]":
    """The columns of training rows, without rows that are none of training."""
    table, size = rows.table, len(rows.table)
    assert rows.steps is not None
    found: dict[str, Any] = {"at": table.at, "step": rows.steps}
    nothing = missing(size)  # one for all: a log may have a million rows
    found["total"] = array("d", [rows.total or 0]) * size  # 0: unknown
    totals = rows.count.totals if rows.count else None
    if totals and size and math.isfinite(max(totals.values)):
        found["total"] = array("d", (value if value == value else 0 for value in totals.values))
    printed = {"loss": rows.loss.values if rows.loss else None, "time": rows.times.values if rows.times else None}
    for name in ("lr", "grad_norm", "tok_s", "mfu_pct"):
        column = table.get(name, f"{name}_each")
        printed[name] = scaled(column) if column else None
        if name == "mfu_pct" and column and not column.unit and 0 < max(column.sample(), default=0) < 1:
            printed[name] = array("d", (100 * value for value in column.values))  # a share
    for name, values in printed.items():
        found[name] = _within(values, *BOUNDS.get(name, (MISSING,) * 3)) if values else nothing
    for role, name, factor in SERIES:
        if (column := table.get(role)) and name not in found:
            found[name] = array("d", (value * factor for value in scaled(column)))
    steps = rows.steps
    if rows.kept is None and (not size or (min(steps) >= 0 and max(steps) < MOST_STEPS)):
        return found
    kept = [i for i in rows.kept or range(size) if 0 <= steps[i] < MOST_STEPS]
    return {name: array(values.typecode, map(values.__getitem__, kept)) for name, values in found.items()}


def _merged(parts: "list[dict[str, Any]]") -> "dict[str, Any]":
    whole: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        whole[name] = array("q" if name in ("at", "step") else "d")
        for part in parts:
            whole[name].extend(part[name] if name in part else missing(len(part["at"])))
    order = sorted(range(len(whole["at"])), key=whole["at"].__getitem__)
    return {name: array(values.typecode, map(values.__getitem__, order)) for name, values in whole.items()}


def _within(values: "array[float]", least: float, most: float, otherwise: float) -> "array[float]":
    """The values, those outside the bounds replaced; what somebody left out is missing."""
    if math.isnan(least) or (math.isfinite(sum(values)) and least < min(values) and max(values) < most):
        return values
    return array("d", (v if least < v < most or v != v else MISSING if v == LEFT_OUT else otherwise for v in values))


# --- which run they belong to ---


@dataclass(eq=False, repr=False)
class Assembler:
    """Places what the rows and events of a log say."""

    found: Tables
    meaning: Understanding
    format: str
    traits: Traits
    runs: list[Run] = field(default_factory=list)
    errors: list[LoggedError] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = self.meaning.rows
        leading = [each for each in rows if each.trains]
        self.only_evaluates = not leading
        self.rows = leading or [each for each in rows if each.evaluates and each.steps is not None]
        self.main = max(self.rows, key=lambda each: len(each.table), default=None)
        self.track = _track(self.rows)
        self.facts: dict[str, ConfigValue] = {}  # settings printed since the last run began; the next run gets them
        self.typed: set[str] = set()  # those given on a command line, which override a printed file
        self.current: Run | None = None
        self.boundary = self.resuming = False
        self.resumed: list[tuple[int, Run, int]] = []  # where, which run, at which step
        self.recent_from = 0  # index into the current run's steps: what is earlier does not count as recent
        self.pieces: list[tuple[int, Run]] = []  # the first row of each, and its run
        self.ends_at: dict[int, int] = {}  # id of a run → its last row
        self.excerpts: list[Run] = []
        kinds = {event.kind for event in self.found.events}
        quoted = self.format == "nanogpt" and any(v != v for v in self.track.columns[0])
        self.abridged = "left_out" in kinds or (quoted and bool(leading))
        self.language = "language" in kinds
        self.last_evaluation: tuple[int, Run, int] | None = None

    def assemble(self) -> list[Run]:
        """All runs, in order of appearance."""
        events = [event for event in self.found.events if event.kind in ("settings", "resume", "error")]
        cuts = self.track.run_may_change(events)
        done = 0
        for start, end in pairwise([*cuts, len(self.track.step)]):
            while done < len(events) and events[done].at < self.track.at[start]:
                self._begin(events[done])
                done += 1
            self._place(start, end)
        self._join_excerpts()
        self._place_around()
        if self.only_evaluates:
            for run in self.runs:
                run.steps = run.steps.where_timed()
        return [run for run in self.runs if run.steps or run.evals]

    def _begin(self, event: Event) -> None:
        """Take note of a line that may begin a run."""
        is_header = event.kind == "settings" and read_settings(event.what, self.facts, self.typed)
        self.boundary = self.boundary or is_header or event.kind != "settings"
        self.resuming = self.resuming or event.kind == "resume"

    def _place(self, start: int, end: int) -> None:
        """Give a part to its run."""
        track = self.track
        while (run := self._run_of(start)) is None:
            start += 1
            if start == end:
                return
        run.steps.step.extend(track.step[start:end])
        for column, values in zip(run.steps.columns()[1:], track.columns, strict=True):
            column.extend(values[start:end])
        times = self.main.times if self.main else None
        if times:
            run.time_source, run.time_spans_steps = times.source, times.spans
            run.clock_resolution_s = times.resolution_s
            if times.spans and times.source != "printed" and run.resumed_at and run.resumed_at[-1] == track.step[start]:
                run.steps.time_s[-(end - start)] = MISSING  # the clock went on while the run stood still
        total = track.total[end - 1]
        run.total_steps = int(total) if 0 < total < MOST_STEPS else run.total_steps
        for name, values in track.series.items():
            for step, value in zip(track.step[start:end], values[start:end], strict=True):
                if math.isfinite(value):
                    run.series.setdefault(name, Series()).append(step, value)
        self.pieces.append((start, run))
        self.ends_at[id(run)] = end - 1

    def _run_of(self, index: int) -> Run | None:
        """The run that a row belongs to, or None if it is a copy."""
        track, run = self.track, self.current
        step, loss, time_s, total = (
            track.step[index],
            track.columns[0][index],
            track.columns[1][index],
            track.total[index],
        )
        boundary, resuming, self.boundary, self.resuming = self.boundary, self.resuming, False, False
        if run is not None and total > 0 and run.total_steps and total != run.total_steps and not resuming:
            run = self._run_with_total(run, int(total), step, loss)
        if run is None or not run.steps:
            run = run or self._new_run()
            run.begins_with_resume = resuming and step > 1
            return run
        other = None if boundary else self._in_turn(run, step, track.at[index] >> LINE_BITS)
        if other is not None and not (total > 0 and other.total_steps and total != other.total_steps):
            self._switch(other, len(other.steps))
            return other
        steps = run.steps.step
        if step > steps[-1]:
            if resuming:
                self._resume(run, step, index)
            return run
        if not boundary and step in steps[max(self.recent_from, len(steps) - RECENT_STEPS) :]:
            run.duplicates_dropped += 1
            return None
        quoted = self.abridged and not boundary and _may_be_of(run, step, loss, time_s)
        if step > 1 and not quoted and (resuming or (step > steps[0] and _same_loss(run, step, loss))):
            self._resume(run, step, index)
            return run
        new = self._new_run()
        if not boundary:
            self.excerpts.append(new)
        return new

    def _new_run(self) -> Run:
        run = Run(self.format, self.traits, config=self.facts)
        run.is_language_model = self.traits.trains_language_models or None
        self.facts, self.typed = {}, set()
        self.runs.append(run)
        self._switch(run, 0)
        return run

    def _switch(self, run: Run, recent_from: int) -> None:
        self.current, self.recent_from = run, recent_from

    def _resume(self, run: Run, step: int, index: int) -> None:
        """Continue the run at `step`, with the settings printed since it stopped."""
        run.cut_from(step)
        run.resumed_at = [*(s for s in run.resumed_at if s < step), step]
        self.resumed.append((self.track.at[index], run, step))
        run.config |= self.facts
        self.facts, self.typed = {}, set()
        self._switch(run, len(run.steps))

    def _run_with_total(self, current: Run, total: int, step: int, loss: float) -> Run:
        """The run that a step of another total than the current run's belongs to: two runs write into one log."""
        for other in reversed(self.runs[-4:]):
            if other.total_steps == total and other.steps and step >= other.steps.step[-1]:
                self._switch(other, max(0, len(other.steps) - 1))
                return other
        if step > (current.last_step or 0) and _same_loss(current, step, loss):
            return current  # the run was extended
        return self._new_run()

    def _in_turn(self, run: Run, step: int, line: int) -> Run | None:
        """Another run of the last lines that was expected to print this step, if the current one was not."""
        if len(self.runs) < 2 or step == self._expected(run):
            return None
        for other in (each for each in self.runs[-4:] if id(each) in self.ends_at):
            near = line - (self.track.at[self.ends_at[id(other)]] >> LINE_BITS) < INTERLEAVED_WITHIN_LINES
            if other is not run and near and step == self._expected(other):
                return other
        return None

    def _expected(self, run: Run) -> int | None:
        """The step that a run should print next: as far ahead as its last one, or as another run's."""
        for other in (run, *reversed(self.runs)):
            steps = other.steps.step
            if len(steps) > 1:
                return (run.last_step or 0) + steps[-1] - steps[-2]
        return None

    # --- excerpts ---

    def _join_excerpts(self) -> None:
        """Make one run of excerpts that were quoted out of order, where they fit together."""
        joined: list[Run] = []
        for run in self.runs:
            if joined and run in self.excerpts and _fits(joined[-1], run, self.abridged):
                joined[-1].join(run)
                self.ends_at[id(joined[-1])] = max(self.ends_at[id(run)], self.ends_at[id(joined[-1])])
                self.pieces = [(first, joined[-1] if owner is run else owner) for first, owner in self.pieces]
            else:
                joined.append(run)
        self.runs = joined

    # --- what stands around the rows ---

    def _place_around(self) -> None:
        """Evaluations, saves, ends and errors, in the order of the file."""
        rows = self.meaning.rows
        trainer = self.meaning.trainer
        before = trainer is not None and trainer.means.get("evaluation_printed") == "before"
        self.leads = before or _evaluations_lead(rows)
        items: list[tuple[int, Any, int]] = [(event.at, event, 0) for event in self.found.events]
        for each in rows:
            if each.evaluates or each.ends:
                items += [(at, each, index) for index, at in enumerate(each.table.at)]
        items.sort(key=lambda item: item[0])
        for at, what, index in items:
            if isinstance(what, Rows):
                (self._end if what.ends else self._evaluate)(what, index, at)
            elif what.kind == "error":
                self._fail(what)
            elif what.kind == "saved":
                self._save(what.what, at)
            elif what.kind == "end" and (run := self._here(at)[0]) is not None:
                run.said_finished = True
            elif what.kind == "loss_scale" and (run := self._here(at)[0]) is not None:
                run.series.setdefault("loss_scale", Series()).append(self._here(at)[1] or 0, what.what)
        if self.abridged:
            for run in self.runs:
                run.evals.sort(key=lambda evaluation: evaluation.step)
                run.checkpoints.sort(key=lambda saved: saved.step)

    def _run_at(self, index: int) -> Run | None:
        """The run of a row."""
        at = bisect_right(self.pieces, index, key=lambda piece: piece[0]) - 1
        return self.pieces[at][1] if at >= 0 and index >= 0 else None

    def _here(self, at: int) -> tuple[Run | None, int | None]:
        """The run and step that were printed last: by a row, or by an evaluation behind it."""
        track = self.track
        index = bisect_left(track.at, at) - 1
        if self.last_evaluation and (index < 0 or self.last_evaluation[0] > track.at[index]):
            return self.last_evaluation[1:]
        return self._run_at(index), track.step[index] if index >= 0 else None

    def _evaluate(self, rows: Rows, index: int, at: int) -> None:
        assert rows.val is not None
        track, table, val = self.track, rows.table, rows.val.values[index]
        on_its_way = rows.only_last and index + 1 < len(table) and table.at[index + 1] - at < (3 << LINE_BITS)
        if on_its_way or val != val:
            return
        step = rows.steps[index] if rows.steps is not None else None
        after = bisect_right(track.at, at)
        run = self._owner(after, step)
        if run is None or (step is not None and not 0 <= step < MOST_STEPS):
            return
        if rows.repeats_val and run.evals and abs(run.evals[-1].val - val) < SAME_VAL:
            return
        if step is None and after and (not self.leads or after == len(track.step)):
            step = track.step[after - 1] + self.leads
        elif step is None:
            step = track.step[after] if self.leads or track.step[after] > 1 else 0
        if any(owner is run and at < place and step > back for place, owner, back in self.resumed):
            return
        self.last_evaluation = (at, run, step)
        totals = rows.count.totals if rows.count else None
        total = totals.values[index] if totals else (rows.count and rows.count.total) or 0
        if run.total_steps is None and 0 < total < MOST_STEPS:
            run.total_steps = int(total)
        if run.evals and run.evals[-1].step == step and run.evals[-1].metric == rows.metric:
            return  # printed twice, or by another rank
        if val == LEFT_OUT:
            run.evaluated_at += [step] if step not in run.evaluated_at[-1:] else []
            return
        val = val if -HUGE < val < HUGE else NOT_FINITE
        train = rows.loss.values[index] if rows.loss else MISSING
        error = table.part_of(rows.val, "error") if rows.val in table.columns else None
        took = table.get("eval_s")
        run.evals.append(
            Evaluation(
                step,
                val,
                train if train == train and train != LEFT_OUT else None,
                rows.metric,
                took.values[index] * took.factor if took else None,
                error.values[index] if error else None,
            )
        )

    def _owner(self, after: int, step: int | None) -> Run | None:
        """The run of an evaluation between two rows: that whose steps are nearer to its own."""
        track = self.track
        run, following = self._run_at(after - 1), self._run_at(after) if after < len(track.step) else None
        if run is None or following is None or following is run:
            return run or following
        if step is None:
            return following if self.leads else run
        past = step - track.step[after - 1]
        return run if 0 <= past <= abs(step - track.step[after]) else following

    def _save(self, step: int, at: int) -> None:
        run, last = self._here(at)
        if run is None:
            run, last = self._run_at(0), 0
        if run is None or (step < 0 and run.said_finished):  # the final model
            return
        counts_alike = step >= 0 and (last is None or step <= 2 * last + 2)
        step = step if counts_alike else last or 0
        if not run.checkpoints or run.checkpoints[-1].step != step:
            run.checkpoints.append(SavedCheckpoint(step))

    def _end(self, rows: Rows, index: int, at: int) -> None:
        """The last line of a run, which sums it up; its time is used where no step has one."""
        run, last = self._here(at)
        if run is None:
            return
        run.said_finished = True
        seconds = rows.table.get("bare_elapsed")
        if run.steps and seconds and not any(time > 0 for time in run.steps.time_s):
            run.steps.time_s[-1] = seconds.values[index] / max(1, last or 1)
            run.time_source, run.time_spans_steps = "cumulative", True

    def _fail(self, event: Event) -> None:
        """Note an error; it ended the run whose last row it follows."""
        kind, message, line = event.what
        run, last = self._here(event.at)
        error = LoggedError(line, kind, message, run)
        self.errors.append(error)
        if run is None:
            return
        goes_on = self.track.at[self.ends_at[id(run)]] > event.at
        if not run.said_finished and not goes_on:  # what happens after the end does no harm
            run.failed = not run.total_steps or (last or 0) < run.total_steps
        if not goes_on:
            run.last_error = run.last_error or error


def _may_be_of(run: Run, step: int, loss: float, time_s: float) -> bool:
    """Whether a run may have printed this row: it has none of that step, or the same."""
    index = bisect_left(run.steps.step, step)
    if index == len(run.steps) or run.steps.step[index] != step:
        return True
    other_loss, other_s = run.steps.loss[index], run.steps.time_s[index]
    rounded = loss != loss or other_loss != other_loss  # people who leave losses out round times
    return (rounded or loss == other_loss) and not abs(time_s - other_s) > (ROUNDED_S if rounded else 0.0)


def _fits(run: Run, excerpt: Run, abridged: bool) -> bool:
    """Whether two parts of a text are of one run: they agree where they meet, and lines were surely left out."""
    steps, first, last = excerpt.steps, run.steps.step[0], run.steps.step[-1]
    if len(run.steps) + len(steps) > MOST_QUOTED or not run.time_source == excerpt.time_source == "printed":
        return False
    interleave = first < steps.step[-1] and steps.step[0] < last and not {*run.steps.step} & {*steps.step}
    return (abridged or interleave) and all(
        _may_be_of(run, step, loss, time_s) and (not first < step < last or _same_loss(run, step, loss))
        for step, loss, time_s in zip(steps.step, steps.loss, steps.time_s, strict=True)
    )


def _same_loss(run: Run, step: int, loss: float) -> bool:
    """Whether the run had about this loss at that step."""
    index = max(0, bisect_right(run.steps.step, step) - 1)
    before = run.steps.loss[index]
    if not (loss < NOT_FINITE and before < NOT_FINITE):
        return True
    return abs(loss - before) <= SAME_LOSS * max(abs(before), 0.5)


def _evaluations_lead(rows: list[Rows]) -> bool:
    """Whether evaluations without a step are printed before the step that they belong to: those steps are then
    multiples of one interval."""
    places = sorted(
        at for each in rows if each.evaluates and not each.trains and each.steps is None for at in each.table.at
    )
    if not places:
        return False
    steps = sorted(
        (at, step)
        for each in rows
        if each.trains and each.steps
        for at, step in zip(each.table.at, each.steps, strict=True)
    )
    before, after, index = [], [], 0
    for at in places:
        while index < len(steps) and steps[index][0] < at:
            index += 1
        if index and index < len(steps):
            before.append(steps[index - 1][1])
            after.append(steps[index][1])
    if steps and steps[0][0] > places[0] and steps[0][1] == 0:
        return True
    if len(set(after)) < 2:
        return bool(after) and after[0] % 5 == 0 != before[0] % 5
    return math.gcd(*after) > max(1, math.gcd(*before))


# --- what the rows as a whole say about a run ---


def _is_mean(rows: Rows) -> bool:
    """Whether the printed loss is smoothed: torchvision's meters, Lightning's bar."""
    table, loss = rows.table, rows.loss
    meter = loss and loss.part == "" and loss in table.columns and table.part_of(loss, "mean")
    return bool(meter and table.head.startswith("epoch")) or (table.bar is not None and "v_num" in table.unused)


def _settle(run: Run, meaning: Understanding, language: bool) -> None:
    tables = [rows.table for rows in meaning.rows if rows.trains or rows.evaluates]
    training = [rows for rows in meaning.rows if rows.trains]
    labels = " | ".join(
        {c.label for t in tables for c in t.columns} | {label_of(name) for t in tables for name in t.unused}
    )
    for key in run.traits.total_keys:  # a number that a step is above is no total
        said = run.config.get(key)
        if isinstance(said, int | float) and said < (run.last_step or 0):
            del run.config[key]
    run.unit, run.doubts, run.steps_are_lines = meaning.unit, meaning.doubts, meaning.steps_are_lines
    if run.unit == "epoch":
        said = run.config.get("epochs")
        run.total_steps = run.total_steps or meaning.epochs or (said if isinstance(said, int) else None)
    if not run.traits.trains_language_models:
        if _OTHER_TASK.search(labels):
            run.is_language_model = False
        elif (
            _LANGUAGE.search(labels)
            or language
            or "vocab_size" in run.config
            or any(e.metric == "bpb" for e in run.evals)
        ):
            run.is_language_model = True
    run.tok_s_per_device = run.traits.tok_s_per_device or (
        any(t.get("tok_s_each") for t in tables) and not any(t.get("tok_s") for t in tables)
    )
    run.loss_is_average = meaning.averaged or bool(_AVERAGE.search(labels)) or any(map(_is_mean, training))
    unused = dict.fromkeys(name for t in tables for name in t.unused if not _NO_MEASURE.fullmatch(name))
    run.unused_columns = tuple(unused)[:50]
    for rows in training:
        if rows.loss and (ppl := rows.table.get("ppl")):
            pairs = [(a, b) for a, b in zip(rows.loss.values, ppl.values, strict=True) if 0.5 < a < 60 and b > 1][:50]
            nats = sum(abs(math.exp(a) / b - 1) < 0.05 for a, b in pairs)
            run.loss_in_bits = sum(abs(2**a / b - 1) < 0.05 for a, b in pairs) > nats
        seen = rows.table.get("tokens_seen")
        if seen is not None and rows.steps and len(rows.steps) > 1 and rows.steps[-1] > rows.steps[-2]:
            each = (seen.values[-1] - seen.values[-2]) / (rows.steps[-1] - rows.steps[-2])
            if 1 <= each < math.inf:
                run.config.setdefault("tokens_per_step", round(each))


def _line_rows(meaning: Understanding, found: Tables) -> list[LineRows]:
    lines = []
    for rows in meaning.rows:
        mfu = rows.table.get("mfu_pct")
        if rows.trains or rows.evaluates:
            kind: Literal["step", "eval"] = "step" if rows.trains else "eval"
            lines.append(LineRows(kind, rows.table.at, rows.steps, mfu.values if mfu else None))
    saved = array("q", (event.at for event in found.events if event.kind == "saved"))
    return [*lines, LineRows("checkpoint", saved)]


def assemble(found: Tables, source: str, keep_rows: bool) -> Log:
    """The log that these tables are of; with `keep_rows` it says what each line is."""
    settings: dict[str, Any] = {}
    for event in found.events:
        if event.kind == "settings":
            read_settings(event.what, settings, set())
    meaning = understand(found, settings)
    trainer = meaning.trainer
    name = trainer.name if trainer else "generic"
    assembler = Assembler(found, meaning, name, trainer.traits if trainer else Traits())
    runs = assembler.assemble()
    for run in runs:
        _settle(run, meaning, assembler.language)
    lines = _line_rows(meaning, found) if keep_rows else []
    return Log(source, name if runs else "none", runs, assembler.errors, found.lines, found.rejoined, lines)
