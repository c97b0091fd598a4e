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
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import compress, count, islice, pairwise
from operator import itemgetter, le, ne
from typing import Any

from nanoscope.runs.claims import Rows, middle, scaled, settle
from nanoscope.runs.columns import Tables, missing
from nanoscope.runs.meaning import Meaning
from nanoscope.runs.run import (
    LINE_BITS,
    MISSING,
    NOT_FINITE,
    ConfigValue,
    Evaluation,
    Log,
    LoggedError,
    Reading,
    Run,
    SavedCheckpoint,
    Series,
    ShownLine,
    Traits,
)
from nanoscope.runs.scan import LEFT_OUT, label_of
from nanoscope.runs.surroundings import Event

NAMES = ("step", "loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")  # the columns of `Steps`
# By role of a column, the first that a row has: the name that it gets in a run.
SERIES = ("eta_s", "loss_scale", "memory_gb", "data_s", "lr_share")
PRINTED = {name: name for name in (*NAMES[3:], *SERIES)} | {"tok_s_each": "tok_s", "bar_left": "eta_s"}
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
    r"|\b[dg] loss\b|\bloss [dg]\b|\brewards?\b"
)
_NO_MEASURE = re.compile(r"v_num|rank|local_rank|pid|gpus?|device|node|seed|line|\S*\.py", re.IGNORECASE)
_AVERAGE = re.compile(r"(?:avg|average|mean|running|smooth\w*) (?:train )?loss|loss (?:avg|mean)")


# --- the sequence of steps ---

Track = dict[str, Any]  # the training rows of a log in the order of the file: arrays by name


def _track(several: list[Rows], train: bool) -> Track:
    """The rows of several tables; what a table does not have is missing."""
    parts = [_columns(rows, train) for rows in several]
    if len(parts) == 1:
        return parts[0]
    whole: Track = {name: array("q" if name in ("at", "step") else "d") for name in ("at", *NAMES, "total")}
    for name in {name: None for part in (whole, *parts) for name in part}:
        column = whole.setdefault(name, missing(0))
        for part in parts:
            column.extend(part.get(name) or missing(len(part["at"])))
    return _chosen(whole, sorted(range(len(whole["at"])), key=whole["at"].__getitem__))


def _chosen(track: Track, rows: Sequence[int]) -> Track:
    return {name: array(values.typecode, map(values.__getitem__, rows)) for name, values in track.items()}


def _columns(rows: Rows, train: bool) -> Track:
    """The columns of training rows, without rows that are none of training."""
    assert rows.count is not None
    table, steps, size = rows.table, rows.count.steps, len(rows.table)
    found: Track = {"at": table.at, "step": steps, "total": array("d", [rows.count.total or 0]) * size}  # 0: unknown
    if rows.count.totals:
        found["total"] = array("d", (value if math.isfinite(value) else 0 for value in rows.count.totals.values))
    if rows.loss and train:
        found["loss"] = rows.loss.values
    if rows.times:
        found["time_s"] = rows.times.values
    for role, name in PRINTED.items():
        if (column := table.get(role)) and name not in found:
            found[name] = scaled(column)
            if name == "mfu_pct" and not column.unit and 0 < max(column.sample(), default=0) < 1:
                found[name] = array("d", (100 * value for value in column.values))  # a share
    for name in NAMES[1:]:
        values = found.get(name) or missing(size)
        found[name] = _within(values, *BOUNDS[name]) if name in BOUNDS else values
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
class Placed:
    """A run while it is put together: which rows of the track are its steps. These rise."""

    run: Run
    track: Track
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    last: int = -1  # of its rows, the last in the file

    def step(self, index: int) -> int:
        return int(self.track["step"][self.rows[index]])

    def place_of(self, step: int) -> int:
        """Where among its rows a step is, or would be."""
        return bisect_left(self.rows, step, key=self.track["step"].__getitem__)

    def fits_total(self, total: float) -> bool:
        return not (total > 0 and self.run.total_steps and total != self.run.total_steps)

    def has_about(self, step: int, loss: float) -> bool:
        """Whether the run had about this loss at that step."""
        before = self.track["loss"][self.rows[max(0, self.place_of(step + 1) - 1)]]
        if not (loss < NOT_FINITE and before < NOT_FINITE):
            return True
        return bool(abs(loss - before) <= SAME_LOSS * abs(before))

    def may_have(self, row: int) -> bool:
        """Whether it may have printed this row: it has none of that step, or the same."""
        steps, losses, times = (self.track[name] for name in ("step", "loss", "time_s"))
        at = self.place_of(steps[row])
        if at == len(self.rows) or self.step(at) != steps[row]:
            return True
        own = self.rows[at]
        return not (abs(losses[row] - losses[own]) > 0 or abs(times[row] - times[own]) > ROUNDED_S)

    def fits(self, part: range, abridged: bool) -> bool:
        """Whether another part of a text is of this run: they agree where they meet, and lines were surely left out."""
        steps, first, last = self.track["step"], self.step(0), self.step(-1)
        own = {steps[row] for row in self.rows}
        interleave = first < steps[part[-1]] and not any(steps[row] in own for row in part)
        return (abridged or interleave) and all(
            self.may_have(row)
            and (not first < steps[row] < last or self.has_about(steps[row], self.track["loss"][row]))
            for row in part
        )

    def take(self, part: range) -> None:
        """Add rows; of two of a step, the one with a loss stays."""
        steps, losses = self.track["step"], self.track["loss"]
        in_order = not self.rows or steps[part[0]] > self.step(-1)
        self.rows.extend(part)
        self.last = part[-1]
        if not in_order:
            rows = sorted(self.rows, key=lambda row: (steps[row], losses[row] != losses[row]))
            kept = [row for before, row in pairwise([-1, *rows]) if before < 0 or steps[before] != steps[row]]
            self.run.duplicates_dropped += len(rows) - len(kept)
            self.rows = array("q", kept)


class Assembler:
    """Places what the rows and events of a log say."""

    def __init__(self, found: Tables, meaning: Meaning) -> None:
        self.found, self.meaning, trainer = found, meaning, meaning.trainer
        self.format, self.traits = (trainer.name, trainer.traits) if trainer else ("generic", Traits())
        self.means = trainer.means if trainer else {}
        leading = meaning.training or [rows for rows in meaning.evaluating if rows.count]
        self.main = max(leading, key=lambda each: len(each.table), default=None)
        self.track = _track(leading, bool(meaning.training))
        self.facts: dict[str, ConfigValue] = {}  # settings printed since the last run began; the next run gets them
        self.typed: set[str] = set()  # those given on a command line, which override a printed file
        self.placed: list[Placed] = []  # in order of appearance
        self.pieces: list[tuple[int, Placed]] = []  # the first row of each part, and its run
        self.resumed: list[tuple[int, Run, int]] = []  # where, which run, at which step
        self.errors: list[LoggedError] = []
        self.kinds = {event.kind for event in found.events}
        quoted = self.format == "nanogpt" and any(v != v for v in self.track["loss"])
        self.until = 0  # rows above are placed
        self.abridged = "left_out" in self.kinds or (quoted and bool(meaning.training))
        self.evaluated: list[tuple[int, Placed, int]] = []  # where, of which run, at which step

    def assemble(self) -> list[Run]:
        """All runs, in order of appearance."""
        begins: defaultdict[int, list[Event]] = defaultdict(list)  # what stands before a row and may begin a run
        for event in self.found.events:
            if event.kind in ("settings", "resume", "error"):
                begins[bisect_left(self.track["at"], event.at)].append(event)
        for start, end in pairwise([*self._cuts(begins.keys()), len(self.track["step"])]):
            for event in begins[start]:
                if event.kind == "settings":
                    event.what.add_to(self.facts, self.typed)
            kinds = {event.kind for event in begins[start] if event.kind != "settings" or event.what.begins}
            if start >= self.until:
                self._place(range(start, end), bool(kinds), "resume" in kinds)
        for each in self.placed:
            self._fill(each)
        self._place_around()
        return [each.run for each in self.placed if each.run.steps or each.run.evals]

    def _cuts(self, begins: Set[int]) -> list[int]:
        """Where a part begins: where steps stop rising or totals change, or after lines that may begin a run."""
        steps, totals, size = self.track["step"], self.track["total"], len(self.track["step"])
        falls = [*compress(count(1), map(le, islice(steps, 1, None), steps))]
        self.ends = [*falls, size]  # of stretches that rise
        cuts = {0, *falls, *begins} - {size}
        if falls:  # there may be two runs in turns
            cuts |= {i for i in range(2, size) if steps[i] - steps[i - 1] != steps[i - 1] - steps[i - 2]}
        return sorted(cuts.union(compress(count(1), map(ne, islice(totals, 1, None), totals))))

    def _place(self, part: range, boundary: bool, resuming: bool) -> None:
        """Give a part to its run."""
        while (placed := self._run_of(part, boundary, resuming)) is None:  # its first row is a copy
            part = part[1:]
            if not part:
                return
        total = self.track["total"][part[-1]]
        if 0 < total < MOST_STEPS:
            placed.run.total_steps = int(total)
        placed.take(range(part[0], max(part[-1] + 1, self.until)))
        self.pieces.append((part[0], placed))

    def _run_of(self, part: range, boundary: bool, resuming: bool) -> Placed | None:
        """The run that a part belongs to, or None if its first row is a copy."""
        step, loss, total = (self.track[name][part[0]] for name in ("step", "loss", "total"))
        if not self.pieces:
            new = self._new_run()
            new.run.begins_with_resume = resuming and step > 1
            return new
        current = self.pieces[-1][1]
        if not boundary and (other := self._in_turn(current, part[0])):
            return other
        extends, alike = current.fits_total(total) or resuming, current.has_about(step, loss)
        first, last = current.step(0), current.step(-1)
        if step > last and (extends or alike):
            if resuming:
                self._resume(current, part[0])
            return current
        recent = current.rows[-RECENT_STEPS:]
        if not boundary and extends and any(self.track["step"][each] == step for each in recent):
            current.run.duplicates_dropped += 1
            return None
        end = self.ends[bisect_right(self.ends, part[0])]
        few = len(current.rows) + end - part[0] <= MOST_QUOTED
        is_excerpt = few and not boundary and current.fits(range(part[0], end), self.abridged)
        again = extends and step > 1 and (resuming or (step > first and alike))
        if again and not (is_excerpt and self.abridged):
            self._resume(current, part[0])
        elif is_excerpt:
            self.until = end
        else:
            return self._new_run()
        return current

    def _new_run(self) -> Placed:
        self.placed.append(Placed(Run(self.format, self.traits, config=self.facts), self.track))
        self.facts, self.typed = {}, set()
        return self.placed[-1]

    def _resume(self, placed: Placed, row: int) -> None:
        """Continue the run at a step, with the settings printed since it stopped."""
        run, step, times = placed.run, self.track["step"][row], self.main.times if self.main else None
        del placed.rows[placed.place_of(step) :]
        run.resumed_at = [*(s for s in run.resumed_at if s < step), step]
        self.resumed.append((self.track["at"][row], run, step))
        run.config |= self.facts
        self.facts, self.typed = {}, set()
        if times and times.spans and times.source != "printed":
            self.track["time_s"][row] = MISSING  # the clock went on while the run stood still

    def _in_turn(self, current: Placed, row: int) -> Placed | None:
        """Another run of the last lines that was expected to print this step, if the current one was not."""
        step, total, at = (self.track[name][row] for name in ("step", "total", "at"))
        for other in reversed(self.placed[-4:]):
            lines = (at - self.track["at"][other.last]) >> LINE_BITS
            near = other is not current and lines < INTERLEAVED_WITHIN_LINES
            if near and other.fits_total(total) and step == self._expected(other):
                return other
        return None

    def _expected(self, placed: Placed) -> int | None:
        """The step that a run should print next: as far ahead as its last one, or as another run's."""
        known = next((each for each in (placed, *reversed(self.placed[-4:])) if len(each.rows) > 1), None)
        return placed.step(-1) + known.step(-1) - known.step(-2) if known else None

    def _fill(self, placed: Placed) -> None:
        """Give a run its steps."""
        run, track, rows = placed.run, self.track, placed.rows
        if self.main and (times := self.main.times):
            run.time_source, run.time_spans_steps, run.clock_resolution_s = times[1:]
        if not self.meaning.training:  # evaluations alone: they may tell the time of steps
            rows = array("q", (row for row in rows if track["time_s"][row] == track["time_s"][row]))
        if rows != array("q", range(len(track["step"]))):  # else it is the only one, and may be very long
            track = _chosen(track, rows)
        run.steps.__dict__.update({name: track[name] for name in NAMES})
        for name in (name for name in track if name not in ("at", "total", "stamp", *NAMES)):
            series = run.series[name] = Series()
            known = [math.isfinite(value) for value in track[name]]
            series.steps.extend(compress(track["step"], known))
            series.values.extend(compress(track[name], known))
        run.series = {name: series for name, series in run.series.items() if series.steps}

    # --- what stands around the rows ---

    def _place_around(self) -> None:
        """Evaluations, then saves, ends and errors, in the order of the file."""
        self.leads = self.means.get("evaluation_printed") == "before" or self._evaluations_lead()
        evaluating = [*(rows for rows in self.meaning.training if rows.val), *self.meaning.evaluating]
        places = [(at, rows, index) for rows in evaluating for index, at in enumerate(rows.table.at)]
        for at, rows, index in sorted(places, key=lambda place: place[0]):
            self._evaluate(rows, index, at)
        for event in sorted([*self.found.events, *self.meaning.ends], key=lambda event: event.at):
            placed, last = self._here(event.at)
            if event.kind == "error":
                self._fail(event, placed, last)
            elif event.kind == "saved":
                self._save(event.what, placed, last)
            elif event.kind == "end" and placed:
                self._finish(placed, event)
            elif event.kind == "loss_scale" and placed:
                series = placed.run.series.setdefault("loss_scale", Series())
                series.steps.append(last or 0)
                series.values.append(event.what)
        for each in self.placed if self.abridged else ():
            each.run.evals.sort(key=lambda evaluation: evaluation.step)
            each.run.checkpoints.sort(key=lambda saved: saved.step)

    def _evaluations_lead(self) -> bool:
        """Whether evaluations without a step are printed before the step that they belong to: those steps are then
        multiples of one interval."""
        unnumbered = [rows for rows in self.meaning.evaluating if not rows.count]
        places, steps = sorted(at for rows in unnumbered for at in rows.table.at), self.track["step"]
        after = [bisect_left(self.track["at"], at) for at in places]
        if not after or (after[0] == 0 and steps[:1] == array("q", [0])):
            return bool(after)
        pairs = [(steps[index - 1], steps[index]) for index in after if 0 < index < len(steps)]
        before, behind = zip(*pairs, strict=True) if pairs else ((), ())
        most = 5 * (len({*behind}) < 2)  # a single one tells little
        return math.gcd(*behind, most) > max(1, math.gcd(*before, most))

    def _placed_at(self, row: int) -> Placed | None:
        """The run of a row."""
        at = bisect_right(self.pieces, row, key=lambda piece: piece[0]) - 1
        return self.pieces[at][1] if at >= 0 and row >= 0 else None

    def _here(self, at: int) -> tuple[Placed | None, int | None]:
        """The run and step that were printed last: by a row, or by an evaluation behind it."""
        row, evaluated = bisect_left(self.track["at"], at) - 1, bisect_left(self.evaluated, at, key=itemgetter(0)) - 1
        if evaluated >= 0 and (row < 0 or self.evaluated[evaluated][0] > self.track["at"][row]):
            return self.evaluated[evaluated][1:]
        return self._placed_at(row), self.track["step"][row] if row >= 0 else None

    def _evaluate(self, rows: Rows, index: int, at: int) -> None:
        assert rows.val is not None
        table, steps, val = rows.table, self.track["step"], rows.val.values[index]
        on_its_way = rows.only_last and index + 1 < len(table) and table.at[index + 1] - at < (3 << LINE_BITS)
        step = rows.steps[index] if rows.steps is not None else None
        after = bisect_right(self.track["at"], at)
        placed = self._owner(after, step)
        if on_its_way or val != val or placed is None or not 0 <= (step or 0) < MOST_STEPS:
            return
        run = placed.run
        if self.means.get("repeats_validation") and run.evals and abs(run.evals[-1].val - val) < SAME_VAL:
            return
        if step is None and after and (not self.leads or after == len(steps)):
            step = steps[after - 1] + self.leads
        elif step is None:
            step = steps[after] if self.leads or steps[after] > 1 else 0
        if any(owner is run and at < place and step > back for place, owner, back in self.resumed):
            return
        self.evaluated.append((at, placed, step))
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

    def _owner(self, after: int, step: int | None) -> Placed | None:
        """The run of an evaluation between two rows."""
        steps = self.track["step"]
        before, behind = self._placed_at(after - 1), self._placed_at(after) if after < len(steps) else None
        if before is None or behind is None or before.run is behind.run:
            return before or behind
        return before if step is None or step >= steps[after - 1] else behind

    def _save(self, step: int, placed: Placed | None, last: int | None) -> None:
        if placed is None:
            steps = self.track["step"]  # a log that begins in the middle of a run says nothing about step 0
            placed, last = self._placed_at(0), steps[0] if len(steps) > 1 and steps[0] > steps[1] - steps[0] else 0
        if placed is None or (step < 0 and placed.run.said_finished):  # the final model
            return
        counts_alike = step >= 0 and (last is None or last <= 2 * step <= 4 * last + 4)  # else it counts epochs
        saved = SavedCheckpoint(step if counts_alike else last or 0)
        if [each.step for each in placed.run.checkpoints[-1:]] != [saved.step]:
            placed.run.checkpoints.append(saved)

    def _finish(self, placed: Placed, end: Event) -> None:
        """Training is over if a line says so and the counter does not contradict it. The time that the line names is
        used where no step has one."""
        run, seconds = placed.run, end.what
        goes_on = placed.last >= 0 and self.track["at"][placed.last] > end.at
        claim = settle("finished", [Reading(goes_on, "a line of the log", "text", 1)], run)
        run.said_finished = run.said_finished or bool(claim.readings)
        run.doubts += [claim] if claim.refused and not goes_on else []
        if run.steps and seconds and not goes_on and not any(time > 0 for time in run.steps.time_s):
            run.steps.time_s[-1] = seconds / max(1, run.steps.step[-1])
            run.time_source, run.time_spans_steps = "cumulative", True

    def _fail(self, event: Event, placed: Placed | None, last: int | None) -> None:
        """Note an error; it ended the run whose last row it follows."""
        kind, message, line = event.what
        error = LoggedError(line, kind, message, placed.run if placed else None)
        self.errors.append(error)
        if placed is None or self.track["at"][placed.last] > event.at:
            return  # it goes on
        run = placed.run
        run.last_error = run.last_error or error
        if not run.said_finished:  # what happens after the end does no harm
            run.failed = not run.total_steps or (last or 0) < run.total_steps


# --- what the rows as a whole say about a run ---


def _said_by_all(meaning: Meaning, language: bool) -> dict[str, Any]:
    """What holds for every run of the log."""
    rows, training = [*meaning.training, *meaning.evaluating], meaning.training
    tables = [each.table for each in rows]
    unused = list(dict.fromkeys(name for table in tables for name in table.unused))
    labels = " | ".join({*(column.label for table in tables for column in table.columns), *map(label_of, unused)})
    said: dict[str, Any] = {"unit": meaning.unit, "steps_are_lines": meaning.steps_are_lines}
    traits = meaning.trainer.traits if meaning.trainer else Traits()
    bits_per_byte = any(each.metric == "bpb" for each in rows)
    if not traits.trains_language_models and _OTHER_TASK.search(labels):
        said["is_language_model"] = False
    elif traits.trains_language_models or bits_per_byte or _LANGUAGE.search(labels) or language:
        said["is_language_model"] = True
    each = any(table.get("tok_s_each") for table in tables) and not any(table.get("tok_s") for table in tables)
    said["tok_s_per_device"] = traits.tok_s_per_device or each
    said["loss_is_average"] = meaning.averaged or bool(_AVERAGE.search(labels)) or any(map(_is_mean, training))
    said["loss_in_bits"] = any(map(_is_in_bits, training))
    said["unused_columns"] = tuple(name for name in unused if not _NO_MEASURE.fullmatch(name))[:50]
    return said


def _is_mean(rows: Rows) -> bool:
    """Whether the printed loss is smoothed: torchvision's meters."""
    meter = rows.loss and rows.table.part_of(rows.loss, "mean")
    return bool(meter and rows.table.head.startswith("epoch"))


def _is_in_bits(rows: Rows) -> bool:
    """Whether two to the power of the loss is the perplexity beside it."""
    ppl = rows.table.get("ppl")
    pairs = zip(rows.loss.sample(), ppl.sample(), strict=True) if rows.loss and ppl else ()
    known = [(loss, ppl) for loss, ppl in pairs if 0.5 < loss < 60 and ppl > 1]
    nats, bits = (sum(abs(base**loss / ppl - 1) < 0.05 for loss, ppl in known) for base in (math.e, 2))
    return bool(bits > nats)


def _tokens_per_step(rows: Rows) -> int | None:
    """By a counter of tokens in its last rows."""
    seen, steps = rows.table.get("tokens_seen"), rows.steps
    if seen is None or not steps or len(steps) < 2 or steps[-1] <= steps[-2]:
        return None
    tokens = (seen.values[-1] - seen.values[-2]) / (steps[-1] - steps[-2])
    return round(tokens) if 1 <= tokens < math.inf else None


def _settle(run: Run, meaning: Meaning) -> None:
    """What the rows as a whole say about a run."""
    for key in run.traits.total_keys:  # a number that a step is above is no total
        said = run.config.get(key)
        if isinstance(said, int | float) and said < (run.last_step or 0):
            del run.config[key]
    epochs = meaning.counters.epochs or run.config.get("epochs")
    if run.unit == "epoch" and isinstance(epochs, int):
        run.total_steps = run.total_steps or epochs
    for tokens in filter(None, map(_tokens_per_step, meaning.training)):
        run.config.setdefault("tokens_per_step", tokens)
    speed = middle([speed for speed in run.steps.tok_s[:1000] if speed > 0])
    claim = settle("throughput_tok_s", [Reading(speed, "the printed tokens per second", "printed", speed)], run)
    run.doubts += meaning.doubts
    if claim.refused:
        run.steps.tok_s = missing(len(run.steps))
        run.doubts.append(claim)


def _shown(meaning: Meaning, found: Tables) -> dict[int, ShownLine]:
    """By line: its kind, and the step and the MFU that it shows."""
    shown: dict[int, ShownLine] = {}
    for rows in (*meaning.training, *meaning.evaluating):
        mfu = rows.table.get("mfu_pct")
        for index, at in enumerate(rows.table.at):
            step = rows.steps[index] if rows.steps else None
            line: ShownLine = ("step" if rows in meaning.training else "eval", step, mfu.values[index] if mfu else None)
            shown.setdefault(at >> LINE_BITS, line)
    saved = (event.at >> LINE_BITS for event in found.events if event.kind == "saved")
    return {**dict.fromkeys(saved, ("checkpoint", None, None)), **shown}


def assemble(found: Tables, source: str, keep_rows: bool) -> Log:
    """The log that these tables are of; with `keep_rows` it says what each line is."""
    settings: dict[str, Any] = {}
    for event in found.events:
        if event.kind == "settings":
            event.what.add_to(settings, set())
    meaning = Meaning(found, settings)
    assembler = Assembler(found, meaning)
    runs = assembler.assemble()
    for run in runs:
        vars(run).update(_said_by_all(meaning, "language" in assembler.kinds))
        _settle(run, meaning)
    shown = _shown(meaning, found) if keep_rows else {}
    return Log(source, assembler.format if runs else "none", runs, assembler.errors, found.lines, found.rejoined, shown)
