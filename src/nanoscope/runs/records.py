"""The records that formats find in a log and the builder places in runs: one class for each kind of line."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from nanoscope.runs.run import MISSING, TimeSource


@dataclass(eq=False, repr=False, slots=True)
class Clock:
    """The reading of a clock that keeps running, printed instead of a step's own time."""

    seconds: float
    source: TimeSource = "cumulative"
    resolution_s: float | None = None
    starts_with_run: bool = False  # it showed 0 at step 0, so the first reading is already a duration


@dataclass(eq=False, repr=False, slots=True)
class StepRecord:
    """A training step. NaN: not printed; a loss that is printed but not finite is +inf."""

    kind: ClassVar[str] = "step"
    step: int
    loss: float = MISSING
    time_s: float = MISSING
    lr: float = MISSING
    grad_norm: float = MISSING
    tok_s: float = MISSING
    mfu_pct: float = MISSING
    clock: Clock | None = None
    total: int | None = None  # the number of steps the run is set to take
    epoch: float = MISSING  # only where step numbers may restart with every epoch
    extra: dict[str, float] | None = None  # what `Run.series` keeps, by name


@dataclass(eq=False, repr=False, slots=True)
class EvalRecord:
    """A validation result; without a step it belongs to the last one."""

    kind: ClassVar[str] = "eval"
    step: int | None = None
    val: float = MISSING
    train_loss: float | None = None
    metric: Literal["loss", "bpb"] = "loss"
    seconds: float | None = None
    stderr: float | None = None
    clock: Clock | None = None  # a cumulative clock that the line also shows
    total: int | None = None  # the number of steps the run is set to take


@dataclass(eq=False, repr=False, slots=True)
class CheckpointRecord:
    """A checkpoint was written; without a step it belongs to the evaluation or step printed last."""

    kind: ClassVar[str] = "checkpoint"
    step: int | None = None
    seconds: float | None = None


@dataclass(eq=False, repr=False, slots=True)
class HeaderRecord:
    """A line that a run prints before its first step, with the number of steps it is set to take."""

    kind: ClassVar[str] = "header"
    total: int


@dataclass(eq=False, repr=False, slots=True)
class EndRecord:
    """Training is over."""

    kind: ClassVar[str] = "end"


@dataclass(eq=False, repr=False, slots=True)
class OtherRecord:
    """A line of this trainer that says nothing to place, or whose record has to wait for a later line."""

    kind: str = "other"


Record = StepRecord | EvalRecord | CheckpointRecord | HeaderRecord | EndRecord | OtherRecord
