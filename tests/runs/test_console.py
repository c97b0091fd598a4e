"""The console lines of a run are read like any other log."""

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nanoscope.runs import events as e
from nanoscope.runs.console import ENDINGS, console_lines
from nanoscope.runs.reader import read_lines

iterations = st.lists(
    st.builds(
        e.Iter, step=st.just(0), loss=st.floats(0.1, 20), seconds=st.floats(0.01, 100), mfu=st.floats(0.01, 0.9),
        tokens_per_second=st.floats(10, 1e9), eta_seconds=st.none() | st.floats(1, 1e6),
    ),
    min_size=3, max_size=12,
)  # fmt: skip


def read(events: list[e.AnyEvent]):
    lines = [str(line) for event in events for line in console_lines(event, "runs/one")]
    return read_lines(enumerate(lines, start=1), "console.log")


@given(iterations)
def test_iterations_are_read_as_far_as_their_digits_go(found: list[e.Iter]) -> None:
    found = [msgspec.structs.replace(event, step=10 * number) for number, event in enumerate(found)]
    (run,) = read(list(found)).runs
    assert list(run.steps.step) == [event.step for event in found]
    for event, loss, seconds, mfu in zip(found, run.steps.loss, run.steps.time_s, run.steps.mfu_pct, strict=True):
        assert math.isclose(loss, event.loss, abs_tol=6e-5)
        assert math.isclose(seconds, event.seconds, abs_tol=6e-6)
        assert math.isclose(mfu, 100 * event.mfu, abs_tol=6e-3)


def test_evaluations_saves_and_the_end_are_read() -> None:
    events = [
        e.Eval(step=0, train_loss=4.2, val_loss=4.3, val_stderr=0.01, seconds=1.5),
        *(e.Iter(step=s, loss=4 - s / 100, seconds=0.1, tokens_per_second=1000.0) for s in range(0, 50, 10)),
        e.Eval(step=50, train_loss=3.4, val_loss=3.5, val_stderr=0.02, seconds=1.5),
        e.Checkpoint(step=50, path="checkpoint", seconds=0.2),
        e.End(step=50, reason="finished"),
    ]
    log = read(events)
    (run,) = log.runs
    assert log.format == "nanoscope"
    assert [(v.step, v.val, v.train_loss, v.stderr, v.seconds) for v in run.evals] == [
        (0, 4.3, 4.2, 0.01, 1.5),
        (50, 3.5, 3.4, 0.02, 1.5),
    ]
    assert [saved.step for saved in run.checkpoints] == [50]
    assert run.said_finished


def test_every_ending_has_a_line() -> None:
    for reason in ENDINGS:
        assert console_lines(e.End(step=5, reason=reason), "runs/one")
