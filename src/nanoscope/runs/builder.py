"""Places records in runs: decides where a run begins, resumes, is printed twice or is mixed with another.

A format says what a line is; the order of the steps decides which run it belongs to. The rules, in order:
- a step with the total of another run of this log continues that run (two runs share one log);
- a step that another run of the last lines was expected to print continues that run;
- a larger step continues the current run;
- one of the last few steps again is the same record, printed twice or by another rank;
- a step back to where the run began, or before, starts a new run; a step back into the middle resumes the run.
A step back may also be the next excerpt of a log that somebody quotes: excerpts that fit together are one run.
"""

from bisect import bisect_left
from itertools import islice
from operator import lt
from typing import Any

from nanoscope.runs.records import CheckpointRecord, Clock, EndRecord, EvalRecord, HeaderRecord, Record, StepRecord
from nanoscope.runs.run import (
    MISSING,
    NOT_FINITE,
    ConfigValue,
    ErrorKind,
    Evaluation,
    LoggedError,
    Run,
    SavedCheckpoint,
    Series,
    Traits,
)

INTERLEAVED_WITHIN_LINES = 60
RECENT_STEPS = 3  # a step printed again within this many is a copy
MOST_STEPS = 10**13  # a number beyond this is none of a step
TINY, HUGE = 1e-9, 1e9  # seconds and nats beyond these are damage to the log, not measurements
ROUNDED_S = 6e-4  # a time that is quoted in whole milliseconds may be off by so much
MOST_QUOTED = 200  # lines of excerpts that may be out of order: nobody quotes more
SAME_LOSS = 0.25  # a resumed run prints about the loss it had at that step; another run may print any loss


class RunBuilder:
    """Collects the records of one log into runs."""

    def __init__(self, format_name: str, traits: Traits) -> None:
        self.format_name = format_name
        self.traits = traits
        self.runs: list[Run] = []
        self.errors: list[LoggedError] = []
        self.current: Run | None = None
        self.line = 0  # number of the line being read
        self.facts: dict[str, ConfigValue] = {}  # settings printed since the last run began; the next run gets them
        self.typed: set[str] = set()  # those given on a command line, which override a printed file
        self.abridged = False  # the text leaves lines or losses out, as people do who quote a log
        self._excerpts: list[Run] = []  # runs that may be parts of the run before them
        self._boundary = False  # a header, an error or a 'resuming' line came after the last step
        self._resuming = False
        self._rollback = False
        self._resumed_step: int | None = None  # where the current run was last resumed
        self._fed_at: dict[int, int] = {}  # id of a run → line of its last record
        self._recent_from = 0  # index into the current run's steps: what is earlier does not count as recent
        self._clock: tuple[int, float, str] | None = None  # step, reading and source of a cumulative clock
        # Waiting for the step that says which run they are of; where none comes, evaluations are all there is.
        self._queued: list[Evaluation | SavedCheckpoint | EndRecord] = []
        self._queued_totals: dict[int, int] = {}  # id of a queued evaluation → total of its run
        self._eval_clocks: dict[int, float] = {}  # id of an evaluation → reading of the clock on its line
        self._epoch = MISSING
        self._epoch_offset = 0

    @property
    def last_step(self) -> int | None:
        """The current run's last step."""
        return self.current.last_step if self.current else None

    def place(self, record: Record) -> None:
        """Put one record where it belongs."""
        if type(record) is StepRecord:
            if not self._place_next(record):
                self._place_step(record)
        elif isinstance(record, EvalRecord):
            self._place_eval(record)
        elif isinstance(record, CheckpointRecord):
            self._place_checkpoint(record)
        elif isinstance(record, HeaderRecord):
            self.boundary()
            self.facts["max_iters"] = record.total
        elif isinstance(record, EndRecord):
            if self._queued:
                self._queued.append(record)
            elif self.current is not None:
                self.current.said_finished = True

    def boundary(self, resuming: bool = False, rollback: bool = False) -> None:
        """Note that a run may begin or resume here; a rollback is a resume by the run itself."""
        self._boundary = True
        self._rollback = rollback
        self._resuming = self._resuming or resuming
        if resuming:
            self._clock = None

    def error(self, kind: ErrorKind, message: str, line: int | None = None) -> None:
        """Note an error; it ended the current run. Its line is the current one unless given."""
        self._boundary = True
        run = self.current
        if run is not None and not run.said_finished:  # what happens after the end does no harm
            run.failed = not run.total_steps or (run.last_step or 0) < run.total_steps
        self.errors.append(LoggedError(line or self.line, kind, message, run))
        if run is not None:
            run.last_error = run.last_error or self.errors[-1]

    def finish(self) -> list[Run]:
        """Return all runs, in order of appearance."""
        for item in self._queued:  # no step followed them
            run = self.current
            if run is None or (
                not run.steps and isinstance(item, Evaluation) and run.evals and item.step < run.evals[-1].step
            ):
                run = self._new_run()
            self._attach(run, item)
        self._queued = []
        self._join_excerpts()
        for run in self.runs:
            if not run.steps:
                self._time_evaluations(run)
        return self.runs

    def forget_runs(self) -> None:
        """Drop what was placed so far: a better kind of record has come. Settings are kept."""
        for run in self.runs:
            self.facts = {**run.config, **self.facts}
        self.runs, self._queued = [], []
        self.current = self._clock = None
        for error in self.errors:
            error.run = None

    def _time_evaluations(self, run: Run) -> None:
        """Turn the clock on the lines of evaluations into steps: training lines are not in this log."""
        before: tuple[int, float] | None = None
        for evaluation in run.evals:
            seconds = self._eval_clocks.get(id(evaluation))
            if seconds is None:
                continue
            if before and evaluation.step > before[0] and seconds > before[1]:
                run.time_source, run.time_spans_steps = "cumulative", True
                each = (seconds - before[1]) / (evaluation.step - before[0])
                run.steps.append(evaluation.step, MISSING, each, MISSING, MISSING, MISSING, MISSING)
            before = (evaluation.step, seconds)

    # --- steps ---

    def _place_next(self, record: StepRecord) -> bool:
        """The case of nearly every line in a long log: the next step of the only run, and nothing in between."""
        if self._boundary or self._queued or len(self.runs) != 1 or record.clock or record.total or record.extra:
            return False
        step, loss, time_s = record.step, record.loss, record.time_s
        steps = self.runs[0].steps
        is_next = steps.step and step > steps.step[-1] and record.epoch != record.epoch
        if not (is_next and TINY < time_s < HUGE and -HUGE < loss < HUGE):
            return False
        steps.append(step, loss, time_s, record.lr, record.grad_norm, record.tok_s, record.mfu_pct)
        return True

    def place_next_steps(self, steps: list[int], losses: list[Any], times: list[Any], *rest: list[float]) -> bool:
        """The same for many steps at once, column by column; False if one of them is not the next step."""
        if self._boundary or self._queued or len(self.runs) != 1 or None in losses or None in times:
            return False
        columns = self.runs[0].steps
        is_next = columns.step and steps[0] > columns.step[-1] and all(map(lt, steps, islice(steps, 1, None)))
        if not (is_next and min(times) > TINY and max(times) < HUGE and min(losses) > -HUGE and max(losses) < HUGE):
            return False
        columns.extend(steps, losses, times, *rest)
        return True

    def _place_step(self, record: StepRecord) -> None:
        step, loss, time_s = record.step, record.loss, record.time_s
        if not -HUGE < loss < HUGE and loss == loss:
            loss = NOT_FINITE
        if record.epoch == record.epoch:
            step = self._unroll_epochs(step, record.epoch)
        if not 0 <= step < MOST_STEPS:
            return
        at_start = self.current is None or self._boundary
        run = self._run_of(step, loss, time_s, record.total)
        if run is None:
            if self.current is not None:
                self._attach_queued(self.current, step, begins=False)
            return
        begins = not run.steps or step == self._resumed_step
        if record.clock is not None:
            time_s = self._since_last_reading(run, step, record.clock, at_start)
        if not TINY < time_s < HUGE:
            time_s = MISSING  # 0.00 ms: not measured
        tok_s = record.tok_s if record.tok_s > 0 else MISSING  # 0: not measured
        run.steps.append(step, loss, time_s, record.lr, record.grad_norm, tok_s, record.mfu_pct)
        for name, value in (record.extra or {}).items():
            run.series.setdefault(name, Series()).append(step, value)
        if record.total and record.total < MOST_STEPS:
            run.total_steps = record.total
        self._fed_at[id(run)] = self.line
        if self._queued:
            self._attach_queued(run, step, begins)

    def _run_of(self, step: int, loss: float, time_s: float, total: int | None) -> Run | None:
        """The run that a step belongs to, or None if the record is a copy."""
        run = self.current
        if run is not None and total and run.total_steps and total != run.total_steps and not self._resuming:
            run = self._run_with_total(total, step, loss)
        boundary, resuming = self._boundary, self._resuming
        self._boundary = self._resuming = False
        if run is None or not run.steps:
            run = run or self._new_run()
            run.begins_with_resume = resuming and step > 1
            return run
        other = self._interleaved(step) if not boundary else None
        if other is not None and not (total and other.total_steps and total != other.total_steps):
            self.current = other
            self._forget_recent(other)
            return other
        if step > run.steps.step[-1]:
            if resuming:
                self._resume(run, step)
            run.last_error = None  # it goes on
            return run
        if not boundary and step in run.steps.step[max(self._recent_from, len(run.steps) - RECENT_STEPS) :]:
            run.duplicates_dropped += 1
            return None
        quoted = self.abridged and not boundary and _may_be_of(run, step, loss, time_s)
        if step > 1 and not quoted and (resuming or (step > run.steps.step[0] and _same_loss(run, step, loss))):
            self._resume(run, step)
            return run
        if boundary:
            return self._new_run()
        self._excerpts.append(self._new_run())
        return self.current

    def _new_run(self) -> Run:
        if self.current is not None:
            self._fed_at[id(self.current)] = self.line
        run = Run(self.format_name, self.traits, config=self.facts)
        run.is_language_model = self.traits.trains_language_models or None
        self.facts, self.typed = {}, set()
        self.runs.append(run)
        self.current = run
        self._recent_from = 0
        self._epoch, self._epoch_offset = MISSING, 0
        return run

    def _resume(self, run: Run, step: int) -> None:
        """Continue the run at `step`, with the settings printed since it stopped."""
        run.steps.cut_from(step)
        for series in run.series.values():
            series.cut_from(step)
        run.evals = [e for e in run.evals if e.step <= step]
        run.evaluated_at = [at for at in run.evaluated_at if at <= step]
        run.resumed_at = [s for s in run.resumed_at if s < step] + ([] if self._rollback else [step])
        self._resumed_step = step
        run.failed = run.said_finished = False
        run.last_error = None
        run.config |= self.facts
        self.facts, self.typed = {}, set()
        self._forget_recent(run)

    def _forget_recent(self, run: Run) -> None:
        self._recent_from = len(run.steps)
        self._clock = None

    def _run_with_total(self, total: int, step: int, loss: float) -> Run:
        """The run that a step of another total than the current run's belongs to: two runs write into one log."""
        current = self.current
        for other in reversed(self.runs[-4:]):
            if other.total_steps == total and other.steps and step >= other.steps.step[-1]:
                self.current = other
                self._recent_from, self._clock = max(0, len(other.steps) - 1), None
                return other
        if current is not None and step > (current.last_step or 0) and _same_loss(current, step, loss):
            return current  # the run was extended
        return self._new_run()

    def _interleaved(self, step: int) -> Run | None:
        """Another run of the last lines that was expected to print this step, if the current one was not."""
        run = self.current
        if run is None or len(self.runs) < 2 or step == self._expected(run):
            return None
        for other in self.runs[-4:]:
            near = self.line - self._fed_at.get(id(other), -1000) < INTERLEAVED_WITHIN_LINES
            if other is not run and near and step == self._expected(other):
                return other
        return None

    def _expected(self, run: Run) -> int | None:
        """The step that a run should print next: as far ahead as its last one, or as another run's."""
        steps = run.steps.step
        if len(steps) > 1:
            return steps[-1] + (steps[-1] - steps[-2])
        for other in reversed(self.runs):
            if len(other.steps) > 1:
                return (steps[-1] if steps else 0) + other.steps.step[-1] - other.steps.step[-2]
        return None

    def _join_excerpts(self) -> None:
        """Make one run of excerpts that were quoted out of order, where they fit together."""
        joined: list[Run] = []
        for run in self.runs:
            if joined and run in self._excerpts and _fits(joined[-1], run, self.abridged):
                _join(joined[-1], run)
                for error in self.errors:
                    error.run = joined[-1] if error.run is run else error.run
            else:
                joined.append(run)
        if len(joined) < len(self.runs):
            self.runs, self.current = joined, joined[-1]
        for run in joined if self.abridged else ():
            run.evals.sort(key=lambda evaluation: evaluation.step)
            run.checkpoints.sort(key=lambda saved: saved.step)

    def _unroll_epochs(self, step: int, epoch: float) -> int:
        """Turn steps that restart with every epoch into one count."""
        last = self.last_step
        if last is not None and epoch > self._epoch and step + self._epoch_offset <= last:
            expected = self._expected(self.current) if self.current else None
            self._epoch_offset = (expected if expected is not None else last + 1) - step
        elif epoch < self._epoch:
            self._epoch_offset = 0
        self._epoch = epoch
        return step + self._epoch_offset

    def _since_last_reading(self, run: Run, step: int, clock: Clock, at_start: bool) -> float:
        """Seconds per step since the clock was last read; missing after a reset."""
        run.time_source, run.time_spans_steps = clock.source, True
        if clock.resolution_s is not None:
            run.clock_resolution_s = clock.resolution_s
        before, self._clock = self._clock, (step, clock.seconds, clock.source)
        if at_start and clock.starts_with_run:
            before = (0, 0.0, clock.source)
        if before is None or clock.seconds < before[1] or step <= before[0] or before[2] != clock.source:
            return MISSING
        return (clock.seconds - before[1]) / (step - before[0])

    # --- evaluations and checkpoints ---

    def _place_eval(self, record: EvalRecord) -> None:
        if record.clock is not None and record.step is not None:
            self._clock = (record.step, record.clock.seconds, record.clock.source)
        val = record.val
        if val != val and record.step is None:
            return
        if not -HUGE < val < HUGE and val == val:
            val = NOT_FINITE
        last = self.last_step
        step = record.step
        owner = self._interleaved(step) if step is not None else None
        if owner is not None:
            self.current = owner
            self._recent_from = 0
            last = owner.last_step
        if step is None:
            step = last if last is not None else 0
        if step >= MOST_STEPS:
            return
        train_loss = None if record.train_loss != record.train_loss else record.train_loss
        evaluation = Evaluation(step, val, train_loss, record.metric, record.seconds, record.stderr)
        if record.clock is not None:
            self._eval_clocks[id(evaluation)] = record.clock.seconds
        if record.total:
            self._queued_totals[id(evaluation)] = record.total
        run = self.current
        if run is None or last is None or step < last or (self._boundary and run.steps):
            self._queued.append(evaluation)
        else:
            self._attach(run, evaluation)

    def _place_checkpoint(self, record: CheckpointRecord) -> None:
        run, step = self.current, record.step
        waiting = next((item.step for item in reversed(self._queued) if not isinstance(item, EndRecord)), None)
        if step is None and waiting is not None:
            step = waiting
        elif step is None:
            evaluated = [] if run is None else [*(e.step for e in run.evals[-1:]), *run.evaluated_at[-1:]]
            step = max([self.last_step or 0, *evaluated])
        saved = SavedCheckpoint(step, record.seconds)
        if run is None or self._queued:
            self._queued.append(saved)
        else:
            self._attach(run, saved)

    def _attach_queued(self, run: Run, step: int, begins: bool) -> None:
        """Attach what was waiting for this step; with interleaved runs, some of it may belong to the next one."""
        waiting: list[Evaluation | SavedCheckpoint | EndRecord] = []
        for item in self._queued:
            if begins or isinstance(item, EndRecord) or item.step == step or len(self._queued) > 8:
                self._attach(run, item)
            else:
                waiting.append(item)
        self._queued = waiting

    def _attach(self, run: Run, item: Evaluation | SavedCheckpoint | EndRecord) -> None:
        if isinstance(item, Evaluation):
            total = self._queued_totals.pop(id(item), None)
            if run.total_steps is None and total:
                run.total_steps = total
            if run.evals and run.evals[-1].step == item.step and run.evals[-1].metric == item.metric:
                self._eval_clocks.pop(id(item), None)
                return  # printed twice, or by another rank
            if item.val == item.val:
                run.evals.append(item)
            elif item.step not in run.evaluated_at[-1:]:
                run.evaluated_at.append(item.step)
        elif isinstance(item, EndRecord):
            run.said_finished = True
        elif not run.checkpoints or run.checkpoints[-1].step != item.step:
            run.checkpoints.append(item)


def _may_be_of(run: Run, step: int, loss: float, time_s: float) -> bool:
    """Whether a run may have printed this record: it has none of that step, or the same."""
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


def _join(run: Run, excerpt: Run) -> None:
    lines = len(run.steps) + len(excerpt.steps)
    run.steps.merge(excerpt.steps)
    run.duplicates_dropped += excerpt.duplicates_dropped + lines - len(run.steps)
    evaluated, saved = {e.step for e in run.evals}, {c.step for c in run.checkpoints}
    run.evals += [e for e in excerpt.evals if e.step not in evaluated]
    run.checkpoints += [c for c in excerpt.checkpoints if c.step not in saved]
    run.evaluated_at = sorted({*run.evaluated_at, *excerpt.evaluated_at})
    run.total_steps = run.total_steps or excerpt.total_steps
    run.said_finished = run.said_finished or excerpt.said_finished
    run.failed = run.failed or excerpt.failed


def _same_loss(run: Run, step: int, loss: float) -> bool:
    """Whether the run had about this loss at that step."""
    steps, losses = run.steps.step, run.steps.loss
    index = len(steps) - 1
    while index > 0 and steps[index] > step:
        index -= 1
    before = losses[index]
    if not (loss < NOT_FINITE and before < NOT_FINITE):
        return True
    return abs(loss - before) <= SAME_LOSS * max(abs(before), 0.5)
