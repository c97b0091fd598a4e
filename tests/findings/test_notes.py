from nanoscope.findings.declared import notes_of
from nanoscope.messages import ENGLISH
from nanoscope.runs import events as e


def said(*events: e.Event) -> list[str]:
    return [ENGLISH.render(message, event) for event, message in notes_of(events)]


def test_the_notes_of_a_run_are_said_in_their_order():
    assert said(
        e.Spike(step=5, loss=3.5, usual=2.0, score=9.0),
        e.Rollback(step=7, to=5, lr_factor=0.5, count=1),
        e.OutOfMemory(step=8, micro_batch_before=12, micro_batch=6),
        e.SlowStep(step=9, seconds=2.5, usual=0.05, cause="data"),
        e.CheckpointFailed(step=11, message="disk full"),
    ) == [
        "At step 5 the loss jumped to 3.5000, where 2.0000 is usual.",
        "At step 7 the loss was not a number: the run went back to step 5 and lowered its rates.",
        "At step 8 memory ran out: the run went on with micro-batches of 6 instead of 12.",
        "Step 9 took 2.50\u00a0s, where 50\u00a0ms is usual: it waited for data.",
        "The checkpoint of step 11 could not be saved: disk full",
    ]


def test_events_that_are_no_notes_are_passed_over():
    assert said(e.Iter(step=1, loss=2.0), e.End(reason="finished", step=1)) == []


def test_a_message_is_shortened_and_safe_to_print():
    (note,) = said(e.CheckpointFailed(step=1, message="\x1b[31m" + "x" * 1000))
    assert "␛[31mxxx" in note
    assert note.count("x") == 195
