"""Puts records into runs: finds where a run begins, is taken up again, is printed twice or mixed with another.

A format only says what a line is; the order of the steps tells the rest. The rules, in the order of trial:
- a step that another run of the last lines was about to print continues that run (two runs write to one log);
- a larger step continues the current run;
- one of the last steps again is the same record, printed twice or by another rank;
- a step back, to where the run began or before it, is a new run; to somewhere inside it, the run was resumed.
"""

from collections import deque
from typing import Literal

from nanoscope.runs.run import (
    MISSING,
    NOT_FINITE,
    Checkpoint,
    ConfigValue,
    Evaluation,
    Run,
    TimeSource,
    Traits,
)

INTERLEAVED_WITHIN_LINES = 60
TINY, HUGE = 1e-9, 1e9  # seconds and nats beyond these are damage to the log, not measurements
SAME_LOSS = 0.25  # a resumed run prints about the loss it had there; another run may print any


class RunBuilder:
    """Collects the records of one log into runs."""

    def __init__(self, format_name: str, traits: Traits) -> None:
        self.format_name = format_name
        self.traits = traits
        self.runs: list[Run] = []
        self.facts: dict[str, ConfigValue] = {}
        self.typed: set[str] = set()  # settings that a command line gave, which win over a printed file
        self.line = 0
        self._current: Run | None = None
        self._boundary = False  # a header, an error or a 'resuming' stood between the last record and here
        self._resuming = False
        self._rollback = False
        self._went_on_at: int | None = None  # step at which the current run was last taken up again
        self._fed_at: dict[int, int] = {}  # id of a run → line of its last record
        self._recent: deque[int] = deque(maxlen=3)  # last steps of the current run
        self._clock: tuple[int, float] | None = None  # step and reading of a cumulative clock
        self._queued: list[Evaluation | Checkpoint] = []
        self._epoch_offset = 0
        self._epoch = MISSING
        self._clock_zero: float | None = None

    @property
    def current(self) -> Run | None:
        return self._current

    @property
    def last_step(self) -> int | None:
        return self._current.last_step if self._current else None

    # --- what formats call ---

    def step(
        self,
        step: int,
        loss: float = MISSING,
        time_s: float = MISSING,
        *,
        clock_s: float | None = None,
        clock: TimeSource = "cumulative",
        lr: float = MISSING,
        grad_norm: float = MISSING,
        tok_s: float = MISSING,
        mfu_pct: float = MISSING,
        total: int | None = None,
        epoch: float = MISSING,
    ) -> None:
        """A training step was printed. `clock_s`: a clock that runs on, instead of the step's own time."""
        if clock_s is None and total is None and epoch != epoch and TINY < time_s < HUGE and -HUGE < loss < HUGE:
            only = self._current
            if only is not None and len(self.runs) == 1 and not self._boundary and not self._queued:
                steps = only.steps
                if steps.step and step > steps.step[-1]:
                    # Nearly every line of a long log: the next step of the only run, and nothing in between.
                    steps.append(step, loss, time_s, lr, grad_norm, tok_s, mfu_pct)
                    self._recent.append(step)
                    return
        if not -HUGE < loss < HUGE and loss == loss:
            loss = NOT_FINITE
        if epoch == epoch:
            step = self._unroll(step, epoch)
        run = self._place(step, loss)
        if run is None:
            return
        begins = not run.steps or step == self._went_on_at
        if clock_s is not None:
            time_s = self._difference(run, step, clock_s, clock)
        if not TINY < time_s < HUGE:
            time_s = MISSING  # 0.00 ms: not measured
        run.steps.append(step, loss, time_s, lr, grad_norm, tok_s, mfu_pct)
        if total is not None and total > 0:
            run.total_steps = total
        self._recent.append(step)
        self._fed_at[id(run)] = self.line
        if self._queued:
            self._flush(run, step, begins)

    def step_zero(self, clock_s: float) -> None:
        """The cumulative clock of the run that begins read `clock_s` before its first step."""
        if self._current is None or self._boundary:
            self._clock_zero = clock_s

    def clock_at(self, step: int, clock_s: float) -> None:
        """A cumulative clock was printed without a step record."""
        self._clock = (step, clock_s)

    def evaluation(
        self,
        step: int | None,
        val: float,
        train_loss: float | None = None,
        metric: Literal["loss", "bpb"] = "loss",
        seconds: float | None = None,
        stderr: float | None = None,
    ) -> None:
        """A validation result was printed; without a step it belongs to the last one."""
        if val != val:
            return
        if not -HUGE < val < HUGE:
            val = NOT_FINITE
        last = self.last_step
        at = step if step is not None else (last if last is not None else 0)
        owner = self._interleaved(at) if step is not None else None
        if owner is not None:
            self._current = owner
            last = owner.last_step
        self._put(Evaluation(at, val, train_loss, metric, seconds, stderr), before=last is None or at < last)

    def checkpoint(self, step: int | None = None, seconds: float | None = None) -> None:
        """A checkpoint was written; without a step it belongs to the evaluation or step just printed."""
        if step is None:
            if self._queued:
                step = self._queued[-1].step
            else:
                run = self._current
                steps = [] if run is None else [e.step for e in run.evals[-1:]] + [run.last_step or 0]
                step = max(steps, default=0)
        self._put(Checkpoint(step, seconds), before=bool(self._queued) or self._current is None)

    def finished(self) -> None:
        """A line says that training is over."""
        if self._current is not None:
            self._current.said_finished = True

    def total(self, total: int) -> None:
        """The number of steps the run aims at, said outside a step record."""
        if self._current is not None and not self._boundary and total > 0:
            self._current.total_steps = total
        else:
            self.facts["max_iters"] = total

    def boundary(self, resuming: bool = False, rollback: bool = False) -> None:
        """Something that a run prints before its first step; a rollback is a resume by the run itself."""
        self._boundary = True
        self._rollback = rollback
        self._resuming = self._resuming or resuming
        if resuming:
            self._clock = None

    def error(self) -> Run | None:
        """An error was printed: it ended the current run."""
        self._boundary = True
        if self._current is not None:
            self._current.failed = True
        return self._current

    def finish(self) -> list[Run]:
        """All the runs, in order."""
        for item in self._queued:  # no step record came after them
            run = self._current
            if run is None or (
                not run.steps and isinstance(item, Evaluation) and run.evals and item.step < run.evals[-1].step
            ):
                run = self._new_run()
            self._attach(run, item)
        self._queued = []
        return self.runs

    # --- where a record belongs ---

    def _place(self, step: int, loss: float) -> Run | None:
        """The run that a step record belongs to; None if it is a copy of one that is there."""
        run = self._current
        boundary, resuming = self._boundary, self._resuming
        self._boundary = self._resuming = False
        if run is None or not run.steps:
            run = run or self._new_run()
            run.begins_with_resume = resuming and step > 1
            return run
        last = run.steps.step[-1]
        other = self._interleaved(step) if not boundary else None
        if other is not None:
            self._current = other
            self._recent.clear()
            self._clock = None
            return other
        if step > last:
            if resuming:
                self._resume(run, step)
            return run
        if not boundary and step in self._recent:
            run.duplicates_dropped += 1
            return None
        if step > 1 and (resuming or (step > run.steps.step[0] and self._same_loss(run, step, loss))):
            self._resume(run, step)
            return run
        return self._new_run()

    def _resume(self, run: Run, step: int) -> None:
        """The run goes on from `step`, with the settings printed since it was left."""
        run.steps.cut_from(step)
        run.evals = [e for e in run.evals if e.step <= step]
        run.resumed_at = [s for s in run.resumed_at if s < step] + ([] if self._rollback else [step])
        self._went_on_at = step
        run.failed = run.said_finished = False
        run.config |= self.facts
        self.facts, self.typed = {}, set()
        self._recent.clear()
        self._clock = None

    def _interleaved(self, step: int) -> Run | None:
        """Another run of the last lines that was about to print this step, if the current one was not."""
        run = self._current
        if run is None or len(self.runs) < 2 or step == self._expected(run):
            return None
        for other in self.runs[-4:]:
            near = self.line - self._fed_at.get(id(other), -1000) < INTERLEAVED_WITHIN_LINES
            if other is not run and near and step == self._expected(other):
                return other
        return None

    def _expected(self, run: Run) -> int | None:
        steps = run.steps.step
        if len(steps) > 1:
            return steps[-1] + (steps[-1] - steps[-2])
        for other in reversed(self.runs):
            if len(other.steps) > 1:
                return (steps[-1] if steps else 0) + other.steps.step[-1] - other.steps.step[-2]
        return None

    @staticmethod
    def _same_loss(run: Run, step: int, loss: float) -> bool:
        steps, losses = run.steps.step, run.steps.loss
        index = len(steps) - 1
        while index > 0 and steps[index] > step:
            index -= 1
        before = losses[index]
        if not (loss < NOT_FINITE and before < NOT_FINITE):
            return True
        return abs(loss - before) <= SAME_LOSS * max(abs(before), 0.5)

    def _new_run(self) -> Run:
        if self._current is not None:
            self._fed_at[id(self._current)] = self.line
        run = Run(self.format_name, self.traits, config=self.facts)
        self.facts, self.typed = {}, set()
        self.runs.append(run)
        self._current = run
        self._recent.clear()
        self._epoch_offset, self._epoch = 0, MISSING
        return run

    def _unroll(self, step: int, epoch: float) -> int:
        """Steps that start again with every epoch become one count."""
        last = self.last_step
        if last is not None and epoch > self._epoch and step + self._epoch_offset <= last:
            expected = self._expected(self._current) if self._current else None
            self._epoch_offset = (expected if expected is not None else last + 1) - step
        elif epoch < self._epoch:
            self._epoch_offset = 0
        self._epoch = epoch
        return step + self._epoch_offset

    def _difference(self, run: Run, step: int, clock_s: float, source: TimeSource) -> float:
        """Seconds a step since the clock was last read; missing after a reset."""
        run.time_source, run.time_spans_steps = source, True
        before, self._clock = self._clock, (step, clock_s)
        if self._clock_zero is not None:
            before, self._clock_zero = (0, self._clock_zero), None
        if before is None or clock_s < before[1] or step <= before[0]:
            return MISSING
        return (clock_s - before[1]) / (step - before[0])

    # --- evaluations and checkpoints ---

    def _put(self, item: Evaluation | Checkpoint, before: bool) -> None:
        """Attach to the current run, or wait for the step record that says which run it is (`before`)."""
        if (
            before
            or self._current is None
            or (self._boundary and self._current.steps and not isinstance(item, Checkpoint))
        ):
            self._queued.append(item)
        else:
            self._attach(self._current, item)

    def _flush(self, run: Run, step: int, begins: bool) -> None:
        """Hand out what waited for this step; with interleaved runs it may belong to the next one."""
        waiting = []
        for item in self._queued:
            if begins or item.step == step or len(self._queued) > 8:
                self._attach(run, item)
            else:
                waiting.append(item)
        self._queued = waiting

    @staticmethod
    def _attach(run: Run, item: Evaluation | Checkpoint) -> None:
        if isinstance(item, Evaluation):
            if run.evals and run.evals[-1].step == item.step and run.evals[-1].metric == item.metric:
                return  # printed twice, or by another rank
            run.evals.append(item)
        elif not run.checkpoints or run.checkpoints[-1].step != item.step:
            run.checkpoints.append(item)
