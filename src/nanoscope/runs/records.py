"""What events of a run say, as the builder places it."""

from dataclasses import dataclass

from nanoscope.runs.run import MISSING


@dataclass(eq=False, repr=False, slots=True)
class StepRecord:
    """A training step. NaN: not written; a loss that is not finite is +inf."""

    step: int
    loss: float = MISSING
    time_s: float = MISSING
    lr: float = MISSING
    grad_norm: float = MISSING
    tok_s: float = MISSING
    mfu_pct: float = MISSING


@dataclass(eq=False, repr=False, slots=True)
class EvalRecord:
    """A validation result."""

    step: int
    val: float = MISSING
    train_loss: float | None = None
    seconds: float | None = None
    stderr: float | None = None


@dataclass(eq=False, repr=False, slots=True)
class CheckpointRecord:
    """A checkpoint was written."""

    step: int
    seconds: float | None = None
