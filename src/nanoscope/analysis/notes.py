"""What a run noted about itself while it trained, as findings."""

from collections.abc import Iterable

from nanoscope.analysis import findings as f
from nanoscope.messages import printable
from nanoscope.runs import events as e

MESSAGE_CHARACTERS = 200


def note_findings(noted: Iterable[e.Event]) -> tuple[f.NoteFinding, ...]:
    """Return the events that are notes of the run about itself, as findings in the same order."""
    return tuple(finding for event in noted if (finding := _finding(event)) is not None)


def _finding(event: e.Event) -> f.NoteFinding | None:
    match event:
        case e.Rollback():
            return f.RollbackNote(event.step, event.to)
        case e.OutOfMemory():
            return f.OutOfMemoryNote(event.step, event.micro_batch_before, event.micro_batch)
        case e.Spike():
            return f.SpikeNote(event.step, event.loss, event.usual)
        case e.SlowStep():
            return f.SlowStepNote(event.step, event.seconds, event.usual, event.cause)
        case e.Asleep():
            return f.AsleepNote(event.step, event.seconds)
        case e.CheckpointFailed():
            return f.CheckpointFailedNote(event.step, printable(event.message[:MESSAGE_CHARACTERS]))
    return None
