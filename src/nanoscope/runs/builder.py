"""Places the records of nanoscope's own runs, whose events say where a run begins and resumes."""

from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import Any

from nanoscope.runs.records import CheckpointRecord, EvalRecord, StepRecord
from nanoscope.runs.run import (
    MISSING,
    NOT_FINITE,
    ConfigValue,
    ErrorKind,
    Evaluation,
    LoggedError,
    Run,
    SavedCheckpoint,
    Traits,
)

RECENT_STEPS = 3  # a step written again within this many is a copy
TINY, HUGE = 1e-9, 1e9  # seconds beyond these are damage to the file, not measurements
MOST_LOSS = 1e38  # what float32 holds: a run that diverged is not one without a number


@dataclass(eq=False, repr=False)
class RunBuilder:
    """Collects the records of one file into runs."""

    format_name: str
    traits: Traits
    runs: list[Run] = field(default_factory=list)
    errors: list[LoggedError] = field(default_factory=list)
    line: int = 0  # number of the line being read
    facts: dict[str, ConfigValue] = field(default_factory=dict)  # settings of the session that begins next
    _boundary: bool = False  # a session begins, or the run goes back, after the last step
    _resuming: bool = False
    _rollback: bool = False
    _waiting: list[Evaluation | SavedCheckpoint] = field(default_factory=list)  # for the first step of a session

    @property
    def current(self) -> Run | None:
        """The last run."""
        return self.runs[-1] if self.runs else None

    @property
    def last_step(self) -> int | None:
        """The current run's last step."""
        return self.current.last_step if self.current else None

    def boundary(self, resuming: bool = False, rollback: bool = False) -> None:
        """Note that a run begins or resumes here; a rollback is a resume by the run itself."""
        self._boundary, self._rollback = True, rollback
        self._resuming = self._resuming or resuming

    def error(self, kind: ErrorKind, message: str) -> None:
        """Note an error; it ended the current run."""
        self._boundary, run = True, self.current
        self.errors.append(LoggedError(self.line, kind, message, run))
        if run is not None:
            run.failed = not run.said_finished and (not run.total_steps or (run.last_step or 0) < run.total_steps)
            run.last_error = run.last_error or self.errors[-1]

    def place(self, record: StepRecord | EvalRecord | CheckpointRecord) -> None:
        """Put one record where it belongs."""
        run = self.current
        if isinstance(record, StepRecord):
            self._place_step(record)
            return
        item: Evaluation | SavedCheckpoint
        if isinstance(record, EvalRecord):
            val = record.val if -MOST_LOSS < record.val < MOST_LOSS else NOT_FINITE
            item = Evaluation(record.step, val, record.train_loss, "loss", record.seconds, record.stderr)
            begins = run is None or record.step < (run.last_step or 0) or (self._boundary and bool(run.steps))
        else:
            item = SavedCheckpoint(record.step, record.seconds)
            begins = bool(self._waiting)
        if begins or run is None:
            self._waiting.append(item)
        else:
            _attach(run, item)

    def place_next_steps(self, steps: list[int], losses: list[Any], times: list[Any], *rest: list[float]) -> bool:
        """Add many steps at once, column by column; False if one of them is not the next step."""
        run = self.current
        if run is None or not run.steps or self._boundary or self._waiting or None in losses or None in times:
            return False
        is_next = steps[0] > run.steps.step[-1] and all(map(lt, steps, islice(steps, 1, None)))
        if not (is_next and min(times) > TINY and max(times) < HUGE and min(losses) > -HUGE and max(losses) < HUGE):
            return False
        run.steps.extend(steps, losses, times, *rest)
        return True

    def finish(self) -> list[Run]:
        """All runs, in order of appearance."""
        for item in self._waiting:  # no step followed them
            _attach(self.current or self._new_run(), item)
        self._waiting = []
        return self.runs

    def _new_run(self) -> Run:
        run = Run(self.format_name, self.traits, config=self.facts, is_language_model=True)
        self.facts = {}
        self.runs.append(run)
        return run

    def _place_step(self, record: StepRecord) -> None:
        run, step = self.current, record.step
        boundary, resuming, self._boundary, self._resuming = self._boundary, self._resuming, False, False
        last = run.last_step if run else None
        if run is None or last is None:
            run = run or self._new_run()
            run.begins_with_resume = resuming and step > 1
        elif not boundary and step in run.steps.step[-RECENT_STEPS:]:
            run.duplicates_dropped += 1
            return
        elif resuming or (step <= last and not boundary and step > run.steps.step[0]):
            run.cut_from(step)
            run.resumed_at = [s for s in run.resumed_at if s < step] + ([] if self._rollback else [step])
            run.config |= self.facts
            self.facts = {}
        elif step <= last:
            run = self._new_run()
        else:
            run.last_error = None  # it goes on
        loss = record.loss if -MOST_LOSS < record.loss < MOST_LOSS or record.loss != record.loss else NOT_FINITE
        seconds = record.time_s if TINY < record.time_s < HUGE else MISSING
        tok_s = record.tok_s if record.tok_s > 0 else MISSING
        run.steps.append(step, loss, seconds, record.lr, record.grad_norm, tok_s, record.mfu_pct)
        for item in self._waiting:
            _attach(run, item)
        self._waiting = []


def _attach(run: Run, item: Evaluation | SavedCheckpoint) -> None:
    """Add what is not there yet."""
    known: list[Any] = run.evals if isinstance(item, Evaluation) else run.checkpoints
    if not known or known[-1].step != item.step:
        known.append(item)
