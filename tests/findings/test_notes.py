from nanoscope.findings import declared as f
from nanoscope.findings.declared import note_findings
from nanoscope.runs import events as e


def test_the_notes_of_a_run_become_findings_in_their_order():
    noted = [
        e.Spike(step=5, loss=3.5, usual=2.0, score=9.0),
        e.Rollback(step=7, to=5, lr_factor=0.5, count=1),
        e.OutOfMemory(step=8, micro_batch_before=12, micro_batch=6),
        e.SlowStep(step=9, seconds=2.5, usual=0.05, cause="data"),
        e.Asleep(step=10, seconds=200.0),
        e.CheckpointFailed(step=11, message="disk full"),
    ]
    assert note_findings(noted) == (
        f.SpikeNote(5, 3.5, 2.0),
        f.RollbackNote(7, 5),
        f.OutOfMemoryNote(8, 12, 6),
        f.SlowStepNote(9, 2.5, 0.05, "data"),
        f.AsleepNote(10, 200.0),
        f.CheckpointFailedNote(11, "disk full"),
    )


def test_events_that_are_no_notes_are_passed_over():
    assert note_findings([e.Iter(step=1, loss=2.0), e.End(reason="finished", step=1)]) == ()


def test_a_message_is_shortened_and_safe_to_print():
    (note,) = note_findings([e.CheckpointFailed(step=1, message="\x1b[31m" + "x" * 1000)])
    assert isinstance(note, f.CheckpointFailedNote)
    assert note.message.startswith("␛[31mxxx")
    assert len(note.message) == 200
