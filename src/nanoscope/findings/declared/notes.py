"""What a run noted about itself while it trained, in words."""

from collections.abc import Iterable
from typing import Any

from nanoscope.messages import Message

MESSAGE_CHARACTERS = 200

# By the type of the event, whose fields fill them.
NOTES = {
    "Rollback": Message(
        "At step {step:plain} the loss was not a number: the run went back to step {to:plain} and lowered its rates."
    ),
    "OutOfMemory": Message(
        "At step {step:plain} memory ran out: the run went on with micro-batches of {micro_batch:number} "
        "instead of {micro_batch_before:number}."
    ),
    "Spike": Message("At step {step:plain} the loss jumped to {loss:loss}, where {usual:loss} is usual."),
    "SlowStep": Message(
        "Step {step:plain} took {seconds:duration}, where {usual:duration} is usual: {reason}.", reason=None
    ),
    "Asleep": Message("Near step {step:plain} the machine was asleep ({seconds:duration}); that time is not counted."),
    "CheckpointFailed": Message("The checkpoint of step {step:plain} could not be saved: {message}", message=None),
}
REASONS = {
    "asleep": Message("the machine was asleep"),
    "data": Message("it waited for data"),
    "checkpoint": Message("a checkpoint was being written"),
    "busy": Message("other programs kept the machine busy, or memory was short"),
    "unknown": Message("no reason could be seen"),
}

Note = tuple[Any, Message]  # an event, and what it says


def notes_of(events: Iterable[Any]) -> list[Note]:
    """The events that are notes of a run about itself."""
    return [(event, _said(event)) for event in events if type(event).__name__ in NOTES]


def _said(event: Any) -> Message:
    said = NOTES[type(event).__name__]
    values: dict[str, object] = {}
    if "reason" in said.values:
        values["reason"] = REASONS[event.cause]
    if "message" in said.values:
        values["message"] = str(event.message)[:MESSAGE_CHARACTERS]
    return Message(said.template, **values)
