"""Runs from rows and events. All rows are known, so every question is a pass over typed arrays.

The training rows of a log are one sequence of steps, in the order of the file. It is cut into parts where the steps
stop rising and where a line says that a run may begin. The first step of a part says which run it belongs to:
- another run of the last lines that was expected to print this step, or that has its total (two runs share one log);
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

from nanoscope.runs.claims import Reading, Rows, middle, scaled, settle
from nanoscope.runs.columns import Tables, missing
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
from nanoscope.runs.surroundings import Event

NAMES = ("step", "loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")  # the columns of `Steps`
# What rows have besides: the role, the name and the factor of the series.
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
LEAST_SHOWN_S = 2.0  # by a clock that shows whole seconds
ROUNDED_S = 6e-4  # a time that is quoted in whole milliseconds may be off by so much
MOST_QUOTED = 200  # lines of excerpts that may be out of order: nobody quotes more
SAME_LOSS = 0.25  # a resumed run prints about the loss it had at that step; another run may print any loss
BOUNDS = {  # and what stands for a number outside
    "loss": (-HUGE, HUGE, NOT_FINITE),
    "time_s": (TINY, HUGE, MISSING),  # 0.00 ms: not measured
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

Track = dict[str, Any]  # the training rows of a log in the order of the file: arrays by name


def _track(several: list[Rows]) -> Track:
    whole: Track = {name: array("q" if name in ("at", "step") else "d") for name in ("at", *NAMES, "total")}
    parts = [_columns(rows) for rows in several]
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        size = len(whole["at"])
        for name in {**whole, **part}:
            column = whole.setdefault(name, missing(size))
            column.extend(part[name] if name in part else missing(len(part["at"])))
    return _chosen(whole, sorted(range(len(whole["at"])), key=whole["at"].__getitem__))


def _chosen(track: Track, rows: Sequence[int]) -> Track:
    return {name: array(values.typecode, map(values.__getitem__, rows)) for name, values in track.items()}


def _columns(rows: Rows) -> Track:
    """The columns of training rows, without rows that are none of training."""
    table, steps, counted, size = rows.table, rows.steps or array("q"), rows.count, len(rows.table)
    found: Track = {"at": table.at, "step": steps, **{name: missing(0) for name in NAMES[1:]}}
    found["total"] = array("d", [rows.total or 0]) * size  # 0: unknown
    if counted and counted.totals and size and math.isfinite(max(counted.totals.values)):
        found["total"] = array("d", (value if value == value else 0 for value in counted.totals.values))
    printed = {"loss": rows.loss.values if rows.loss and rows.trains else None}
    printed["time_s"] = rows.times.values if rows.times else None
    for name in NAMES[3:]:
        if column := table.get(name, f"{name}_each"):
            printed[name] = scaled(column)
            if name == "mfu_pct" and not column.unit and 0 < max(column.sample(), default=0) < 1:
                printed[name] = array("d", (100 * value for value in column.values))  # a share
    for name, values in printed.items():
        if values:
            found[name] = _within(values, *BOUNDS[name]) if name in BOUNDS else values
    found |= {name: missing(size) for name in NAMES[1:] if not found[name]}
    for role, name, factor in SERIES:
        if (column := table.get(role)) and name not in found:
            found[name] = array("d", (value * factor for value in scaled(column)))
    if (stamp := table.stamp()) is not None:
        found["stamp"] = stamp.values
    if rows.kept is None and (not size or (min(steps) >= 0 and max(steps) < MOST_STEPS)):
        return found
    return _chosen(found, [i for i in rows.kept or range(size) if 0 <= steps[i] < MOST_STEPS])


def _within(values: "array[float]", least: float, most: float, otherwise: float) -> "array[float]":
    """The values, those outside the bounds replaced; what somebody left out is missing."""
    if math.isfinite(sum(values)) and least < min(values) and max(values) < most:
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
        training = [each for each in rows if each.trains]
        leading = training or [each for each in rows if each.evaluates and each.count]
        self.main = max(leading, key=lambda each: len(each.table), default=None)
        self.track = _track(leading)
        self.facts: dict[str, ConfigValue] = {}  # settings printed since the last run began; the next run gets them
        self.typed: set[str] = set()  # those given on a command line, which override a printed file
        self.current: Run | None = None
        self.boundary = self.resuming = False
        self.resumed: list[tuple[int, Run, int]] = []  # where, which run, at which step
        self.recent_from = 0  # index into the current run's steps: what is earlier does not count as recent
        self.pieces: list[tuple[int, Run]] = []  # the first row of each, and its run
        self.ends_at: dict[int, int] = {}  # id of a run → its last row
        self.excerpts: list[Run] = []
        self.kinds = {event.kind for event in self.found.events}
        quoted = self.format == "nanogpt" and any(v != v for v in self.track["loss"])
        self.abridged = "left_out" in self.kinds or (quoted and bool(training))
        self.last_evaluation: tuple[int, Run, int] | None = None

    def assemble(self) -> list[Run]:
        """All runs, in order of appearance."""
        events = [event for event in self.found.events if event.kind in ("settings", "resume", "error")]
        done = 0
        for start, end in pairwise([*self._cuts(events), len(self.track["step"])]):
            while done < len(events) and events[done].at < self.track["at"][start]:
                self._begin(events[done])
                done += 1
            self._place(start, end)
        self._join_excerpts()
        self._place_around()
        for run in self.runs:
            if self.main and not self.main.trains:  # evaluations alone: they may tell the time of steps
                run.steps.keep([index for index, time in enumerate(run.steps.time_s) if time == time])
        return [run for run in self.runs if run.steps or run.evals]

    def _cuts(self, events: Sequence[Event]) -> list[int]:
        """Where a part begins: where steps stop rising or totals change, and behind lines that may begin a run."""
        steps, totals, size = self.track["step"], self.track["total"], len(self.track["step"])
        falls = list(compress(count(1), map(le, islice(steps, 1, None), steps)))
        cuts = {0, *falls, *(bisect_left(self.track["at"], event.at) for event in events)} - {size}
        if falls:  # there may be two runs in turns
            cuts |= {i for i in range(2, size) if steps[i] - steps[i - 1] != steps[i - 1] - steps[i - 2]}
        return sorted(cuts.union(compress(count(1), map(ne, islice(totals, 1, None), totals))))

    def _begin(self, event: Event) -> None:
        """Take note of a line that may begin a run."""
        if event.kind == "settings":
            event.what.add_to(self.facts, self.typed)
        self.boundary = self.boundary or event.kind != "settings" or event.what.begins
        self.resuming = self.resuming or event.kind == "resume"

    def _place(self, start: int, end: int) -> None:
        """Give a part to its run."""
        track = self.track
        while (run := self._run_of(start)) is None:
            start += 1
            if start == end:
                return
        for name, column in zip(NAMES, run.steps.columns(), strict=True):
            if end - start == len(track["step"]):
                setattr(run.steps, name, track[name])  # a log of one run, which may be very long
            else:
                column.extend(track[name][start:end])
        if self.main and (times := self.main.times):
            run.time_source, run.time_spans_steps, run.clock_resolution_s = times[1:]
            if times.spans and times.source != "printed" and track["step"][start] in run.resumed_at[-1:]:
                run.steps.time_s[start - end] = MISSING  # the clock went on while the run stood still
        total = track["total"][end - 1]
        run.total_steps = int(total) if 0 < total < MOST_STEPS else run.total_steps
        for name in (name for name in track if name not in ("at", "total", "stamp", *NAMES)):
            for step, value in zip(track["step"][start:end], track[name][start:end], strict=True):
                if math.isfinite(value):
                    run.series.setdefault(name, Series()).append(step, value)
        self.pieces.append((start, run))
        self.ends_at[id(run)] = end - 1

    def _run_of(self, index: int) -> Run | None:
        """The run that a row belongs to, or None if it is a copy."""
        step, loss, time_s, total = (self.track[name][index] for name in ("step", "loss", "time_s", "total"))
        boundary, resuming, self.boundary, self.resuming = self.boundary, self.resuming, False, False
        run = self.current
        if run is None:
            run = self._new_run()
            run.begins_with_resume = resuming and step > 1
            return run
        other = None if boundary else self._in_turn(run, index)
        if other is not None:
            self.current, self.recent_from = other, len(other.steps)
            return other
        steps, extends = run.steps.step, _fits_total(run, total) or resuming
        if step > steps[-1] and (extends or _same_loss(run, step, loss)):
            if resuming:
                self._resume(run, step, index)
            return run
        if not boundary and extends and step in steps[max(self.recent_from, len(steps) - RECENT_STEPS) :]:
            run.duplicates_dropped += 1
            return None
        quoted = self.abridged and not boundary and _may_be_of(run, step, loss, time_s)
        if extends and step > 1 and not quoted and (resuming or (step > steps[0] and _same_loss(run, step, loss))):
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
        self.current, self.recent_from = run, 0
        return run

    def _resume(self, run: Run, step: int, index: int) -> None:
        """Continue the run at `step`, with the settings printed since it stopped."""
        run.cut_from(step)
        run.resumed_at = [*(s for s in run.resumed_at if s < step), step]
        self.resumed.append((self.track["at"][index], run, step))
        run.config |= self.facts
        self.facts, self.typed = {}, set()
        self.recent_from = len(run.steps)

    def _in_turn(self, run: Run, index: int) -> Run | None:
        """Another run of the last lines that was expected to print this step, if the current one was not."""
        track, step, total = self.track, self.track["step"][index], self.track["total"][index]
        fits = _fits_total(run, total)
        if len(self.runs) < 2 or (fits and step == self._expected(run)):
            return None
        for other in reversed(self.runs[-4:]):
            lines = (track["at"][index] - track["at"][self.ends_at[id(other)]]) >> LINE_BITS
            is_next = lines < INTERLEAVED_WITHIN_LINES and step == self._expected(other)
            if (
                other is not run
                and _fits_total(other, total)
                and (is_next or (not fits and step >= other.steps.step[-1]))
            ):
                return other
        return None

    def _expected(self, run: Run) -> int | None:
        """The step that a run should print next: as far ahead as its last one, or as another run's."""
        steps = next((each.steps.step for each in (run, *reversed(self.runs)) if len(each.steps) > 1), None)
        return run.steps.step[-1] + steps[-1] - steps[-2] if steps else None

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
        trainer = self.meaning.trainer
        before = trainer is not None and trainer.means.get("evaluation_printed") == "before"
        self.leads = before or self._evaluations_lead()
        items: list[tuple[int, Any, int]] = [(event.at, event, 0) for event in self.found.events]
        for each in self.meaning.rows:
            if each.evaluates or each.ends:
                items += [(at, each, index) for index, at in enumerate(each.table.at)]
        for at, what, index in sorted(items, key=lambda item: item[0]):
            run, last = self._here(at)
            if isinstance(what, Rows) and not what.ends:
                self._evaluate(what, index, at)
            elif isinstance(what, Event) and what.kind == "error":
                self._fail(what, run, last)
            elif isinstance(what, Event) and what.kind == "saved":
                self._save(what.what, run, last)
            elif run is not None and isinstance(what, Rows):
                seconds = what.table.get("bare_elapsed")
                self._finish(run, at, "the summary of the run", seconds.values[index] if seconds else None)
            elif run is not None and what.kind == "end":
                self._finish(run, at, "a line of the log", what.what)
            elif run is not None and what.kind == "loss_scale":
                run.series.setdefault("loss_scale", Series()).append(last or 0, what.what)
        for run in self.runs if self.abridged else ():
            run.evals.sort(key=lambda evaluation: evaluation.step)
            run.checkpoints.sort(key=lambda saved: saved.step)

    def _evaluations_lead(self) -> bool:
        """Whether evaluations without a step are printed before the step that they belong to: those steps are then
        multiples of one interval."""
        unnumbered = [rows for rows in self.meaning.rows if rows.evaluates and not rows.trains and not rows.count]
        places, steps = sorted(at for rows in unnumbered for at in rows.table.at), self.track["step"]
        after = [bisect_left(self.track["at"], at) for at in places]
        if not after or (after[0] == 0 and steps[:1] == array("q", [0])):
            return bool(after)
        pairs = [(steps[index - 1], steps[index]) for index in after if 0 < index < len(steps)]
        if len({behind for _, behind in pairs}) < 2:
            return bool(pairs) and pairs[0][1] % 5 == 0 != pairs[0][0] % 5
        return math.gcd(*(behind for _, behind in pairs)) > max(1, math.gcd(*(before for before, _ in pairs)))

    def _run_at(self, index: int) -> Run | None:
        """The run of a row."""
        at = bisect_right(self.pieces, index, key=lambda piece: piece[0]) - 1
        return self.pieces[at][1] if at >= 0 and index >= 0 else None

    def _here(self, at: int) -> tuple[Run | None, int | None]:
        """The run and step that were printed last: by a row, or by an evaluation behind it."""
        index = bisect_left(self.track["at"], at) - 1
        if self.last_evaluation and (index < 0 or self.last_evaluation[0] > self.track["at"][index]):
            return self.last_evaluation[1:]
        return self._run_at(index), self.track["step"][index] if index >= 0 else None

    def _evaluate(self, rows: Rows, index: int, at: int) -> None:
        assert rows.val is not None
        table, steps, val = rows.table, self.track["step"], rows.val.values[index]
        on_its_way = rows.only_last and index + 1 < len(table) and table.at[index + 1] - at < (3 << LINE_BITS)
        step = rows.steps[index] if rows.steps is not None else None
        after = bisect_right(self.track["at"], at)
        run = self._owner(after, step)
        if on_its_way or val != val or run is None or not 0 <= (step or 0) < MOST_STEPS:
            return
        if rows.repeats_val and run.evals and abs(run.evals[-1].val - val) < SAME_VAL:
            return
        if step is None and after and (not self.leads or after == len(steps)):
            step = steps[after - 1] + self.leads
        elif step is None:
            step = steps[after] if self.leads or steps[after] > 1 else 0
        if any(owner is run and at < place and step > back for place, owner, back in self.resumed):
            return
        self.last_evaluation = (at, run, step)
        run.total_steps = run.total_steps or (rows.count and rows.count.total)
        if run.evals and run.evals[-1].step == step and run.evals[-1].metric == rows.metric:
            return  # printed twice, or by another rank
        if val == LEFT_OUT:
            run.evaluated_at += [step] if step not in run.evaluated_at[-1:] else []
            return
        train = rows.loss.values[index] if rows.loss else MISSING
        error, took = table.part_of(rows.val, "error"), table.get("eval_s")
        evaluation = Evaluation(step, val if -HUGE < val < HUGE else NOT_FINITE, metric=rows.metric)
        evaluation.train_loss = train if train == train and train != LEFT_OUT else None
        evaluation.seconds = took.values[index] * took.factor if took else self._on_the_clock(rows, index, after, step)
        evaluation.stderr = error.values[index] if error else None
        run.evals.append(evaluation)

    def _on_the_clock(self, rows: Rows, index: int, after: int, step: int) -> float | None:
        """What passed on the clock of the lines between a step, whose own time is printed, and its evaluation."""
        stamp, stamps, times = rows.table.stamp(), self.track.get("stamp"), self.main.times if self.main else None
        if not (stamp and stamps and after and times) or times.spans or step > self.track["step"][after - 1]:
            return None
        seconds = stamp.values[index] - stamps[after - 1]
        return seconds if seconds > LEAST_SHOWN_S else None

    def _owner(self, after: int, step: int | None) -> Run | None:
        """The run of an evaluation between two rows: that whose steps are nearer to its own."""
        steps = self.track["step"]
        run, following = self._run_at(after - 1), self._run_at(after) if after < len(steps) else None
        if run is None or following is None or following is run:
            return run or following
        if step is None:
            return following if self.leads else run
        return run if 0 <= step - steps[after - 1] <= abs(step - steps[after]) else following

    def _save(self, step: int, run: Run | None, last: int | None) -> None:
        if run is None:
            run, last = self._run_at(0), 0
        if run is None or (step < 0 and run.said_finished):  # the final model
            return
        counts_alike = step >= 0 and (last is None or step <= 2 * last + 2)
        step = step if counts_alike else last or 0
        if not run.checkpoints or run.checkpoints[-1].step != step:
            run.checkpoints.append(SavedCheckpoint(step))

    def _finish(self, run: Run, at: int, why: str, seconds: float | None) -> None:
        """Training is over if a line says so and the counter does not contradict it. The time that the line names is
        used where no step has one."""
        rows_behind = max(0, self.ends_at.get(id(run), -1) + 1 - bisect_right(self.track["at"], at))
        claim = settle("finished", [Reading(rows_behind, why, "text", 1)], run)
        run.said_finished = run.said_finished or bool(claim.readings)
        run.doubts += [claim.doubt()] if claim.refused and not rows_behind else []
        if run.steps and seconds and not rows_behind and not any(time > 0 for time in run.steps.time_s):
            run.steps.time_s[-1] = seconds / max(1, run.steps.step[-1])
            run.time_source, run.time_spans_steps = "cumulative", True

    def _fail(self, event: Event, run: Run | None, last: int | None) -> None:
        """Note an error; it ended the run whose last row it follows."""
        kind, message, line = event.what
        error = LoggedError(line, kind, message, run)
        self.errors.append(error)
        if run is None or self.track["at"][self.ends_at[id(run)]] > event.at:
            return  # it goes on
        run.last_error = run.last_error or error
        if not run.said_finished:  # what happens after the end does no harm
            run.failed = not run.total_steps or (last or 0) < run.total_steps


def _fits_total(run: Run, total: float) -> bool:
    return not (total > 0 and run.total_steps and total != run.total_steps)


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
    before = run.steps.loss[max(0, bisect_right(run.steps.step, step) - 1)]
    if not (loss < NOT_FINITE and before < NOT_FINITE):
        return True
    return abs(loss - before) <= SAME_LOSS * max(abs(before), 0.5)


# --- what the rows as a whole say about a run ---


def _is_mean(rows: Rows) -> bool:
    """Whether the printed loss is smoothed: torchvision's meters, Lightning's bar."""
    table, loss = rows.table, rows.loss
    meter = loss and loss.part == "" and table.part_of(loss, "mean")
    return bool(meter and table.head.startswith("epoch")) or (table.bar is not None and "v_num" in table.unused)


def _settle(run: Run, meaning: Understanding, language: bool) -> None:
    tables = [rows.table for rows in meaning.rows if rows.trains or rows.evaluates]
    training = [rows for rows in meaning.rows if rows.trains]
    unused = dict.fromkeys(name for table in tables for name in table.unused)
    labels = " | ".join({*(column.label for table in tables for column in table.columns), *map(label_of, unused)})
    last = run.last_step or 0
    for key in run.traits.total_keys:  # a number that a step is above is no total
        said = run.config.get(key)
        if isinstance(said, int | float) and said < last:
            del run.config[key]
    run.unit, run.steps_are_lines = meaning.unit, meaning.steps_are_lines
    run.doubts += meaning.doubts
    said = run.config.get("epochs")
    if run.unit == "epoch":
        run.total_steps = run.total_steps or meaning.epochs or (said if isinstance(said, int) else None)
    bits_per_byte = any(evaluation.metric == "bpb" for evaluation in run.evals)
    if not run.traits.trains_language_models and _OTHER_TASK.search(labels):
        run.is_language_model = False
    elif _LANGUAGE.search(labels) or language or "vocab_size" in run.config or bits_per_byte:
        run.is_language_model = True
    each = any(table.get("tok_s_each") for table in tables) and not any(table.get("tok_s") for table in tables)
    run.tok_s_per_device = run.traits.tok_s_per_device or each
    speed = middle([speed for speed in run.steps.tok_s[:1000] if speed > 0])
    claim = settle(
        "throughput_tok_s", [Reading(speed, "the printed tokens per second", "printed", speed)] if speed else [], run
    )
    if claim.refused:
        run.steps.tok_s = missing(len(run.steps))
        run.doubts.append(claim.doubt())
    run.loss_is_average = meaning.averaged or bool(_AVERAGE.search(labels)) or any(map(_is_mean, training))
    run.unused_columns = tuple(name for name in unused if not _NO_MEASURE.fullmatch(name))[:50]
    for rows in training:
        if rows.loss and (ppl := rows.table.get("ppl")):
            pairs = [(a, b) for a, b in zip(rows.loss.values, ppl.values, strict=True) if 0.5 < a < 60 and b > 1][:50]
            nats = sum(abs(math.exp(a) / b - 1) < 0.05 for a, b in pairs)
            run.loss_in_bits = sum(abs(2**a / b - 1) < 0.05 for a, b in pairs) > nats
        seen, steps = rows.table.get("tokens_seen"), rows.steps
        if seen is not None and steps and len(steps) > 1 and steps[-1] > steps[-2]:
            tokens = (seen.values[-1] - seen.values[-2]) / (steps[-1] - steps[-2])
            if 1 <= tokens < math.inf:
                run.config.setdefault("tokens_per_step", round(tokens))


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
            event.what.add_to(settings, set())
    meaning = understand(found, settings)
    trainer = meaning.trainer
    name = trainer.name if trainer else "generic"
    assembler = Assembler(found, meaning, name, trainer.traits if trainer else Traits())
    runs = assembler.assemble()
    for run in runs:
        _settle(run, meaning, "language" in assembler.kinds)
    lines = _line_rows(meaning, found) if keep_rows else []
    return Log(source, name if runs else "none", runs, assembler.errors, found.lines, found.rejoined, lines)
