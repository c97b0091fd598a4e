"""What a run noted about itself while it trained; made in analysis/notes.py."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding


class RollbackNote(Finding):
    """The loss was not finite, and the run went back to step `to`."""

    step: int
    to: int


class OutOfMemoryNote(Finding):
    step: int
    micro_batch_before: int
    micro_batch: int


class SpikeNote(Finding):
    step: int
    loss: float
    usual: float


class SlowStepNote(Finding):
    step: int
    seconds: float
    usual: float
    cause: Literal["asleep", "data", "checkpoint", "busy", "unknown"]


class AsleepNote(Finding):
    """The machine was suspended."""

    step: int
    seconds: float


class CheckpointFailedNote(Finding):
    step: int
    message: str


NoteFinding = RollbackNote | OutOfMemoryNote | SpikeNote | SlowStepNote | AsleepNote | CheckpointFailedNote
