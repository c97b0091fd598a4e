"""What a run noted about itself while it trained, as findings."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from nanoscope.findings.declared.base import Finding
from nanoscope.messages import Message, Said, printable

if TYPE_CHECKING:
    from nanoscope.runs.events import Event

MESSAGE_CHARACTERS = 200


class RollbackNote(Finding):
    """The loss was not finite, and the run went back to step `to`."""

    step: int
    to: int

    TEXT = Message(
        "At step {step:plain} the loss was not a number: the run went back to step {to:plain} and lowered its rates."
    )


class OutOfMemoryNote(Finding):
    step: int
    micro_batch_before: int
    micro_batch: int

    TEXT = Message(
        "At step {step:plain} memory ran out: the run went on with micro-batches of {micro_batch:number} "
        "instead of {micro_batch_before:number}."
    )


class SpikeNote(Finding):
    step: int
    loss: float
    usual: float

    TEXT = Message("At step {step:plain} the loss jumped to {loss:loss}, where {usual:loss} is usual.")


class SlowStepNote(Finding):
    step: int
    seconds: float
    usual: float
    cause: Literal["asleep", "data", "checkpoint", "busy", "unknown"]

    def text(self) -> Said:
        return Message(
            "Step {step:plain} took {seconds:duration}, where {usual:duration} is usual: {reason}.",
            reason=REASONS[self.cause],
        )


class AsleepNote(Finding):
    """The machine was suspended."""

    step: int
    seconds: float

    TEXT = Message("Near step {step:plain} the machine was asleep ({seconds:duration}); that time is not counted.")


class CheckpointFailedNote(Finding):
    step: int
    message: str

    TEXT = Message("The checkpoint of step {step:plain} could not be saved: {message}")


REASONS = {
    "asleep": Message("the machine was asleep"),
    "data": Message("it waited for data"),
    "checkpoint": Message("a checkpoint was being written"),
    "busy": Message("other programs kept the machine busy, or memory was short"),
    "unknown": Message("no reason could be seen"),
}
NoteFinding = RollbackNote | OutOfMemoryNote | SpikeNote | SlowStepNote | AsleepNote | CheckpointFailedNote


def note_findings(noted: "Iterable[Event]") -> tuple[NoteFinding, ...]:
    """Return the events that are notes of the run about itself, as findings in the same order."""
    return tuple(finding for event in noted if (finding := _finding(event)) is not None)


def _finding(event: "Event") -> NoteFinding | None:
    from nanoscope.runs import events as e  # late: only our own runs have events

    match event:
        case e.Rollback():
            return RollbackNote(event.step, event.to)
        case e.OutOfMemory():
            return OutOfMemoryNote(event.step, event.micro_batch_before, event.micro_batch)
        case e.Spike():
            return SpikeNote(event.step, event.loss, event.usual)
        case e.SlowStep():
            return SlowStepNote(event.step, event.seconds, event.usual, event.cause)
        case e.Asleep():
            return AsleepNote(event.step, event.seconds)
        case e.CheckpointFailed():
            return CheckpointFailedNote(event.step, printable(str(event.message)[:MESSAGE_CHARACTERS]))
    return None
