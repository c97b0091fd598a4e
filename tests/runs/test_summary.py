"""What the table of runs knows beyond a glance."""

import json
import math
import time
from pathlib import Path

import pytest

from nanoscope.runs.events import End, Eval, Iter, NonFinite, Resume, Rollback, Start
from nanoscope.runs.outline import SPARK_POINTS, STALL_SECONDS, Outline
from written_runs import EventFile

FOREVER = math.inf


def outlined(folder: Path) -> Outline:
    outline = Outline(folder)
    assert outline.advance(FOREVER)
    return outline


def iterations(*steps: int, apart: float = 1.0) -> list[Iter]:
    return [Iter(t=apart * step, step=step, loss=3.0 - step / 100, tokens_per_second=100.0 + step) for step in steps]


def test_the_best_evaluation_is_found_wherever_it_is(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), Eval(step=0, val_loss=4.0), *iterations(*range(30_000)), Eval(step=30_000, val_loss=1.25))
    file.write(*iterations(*range(30_000, 60_000)), Eval(step=60_000, val_loss=1.5), *iterations(60_000))
    outline = outlined(tmp_path)
    assert outline.best == (1.25, 30_000)
    assert outline.spark == [4.0, 1.25, 1.5]
    assert outline.tok_s == 60_100.0


def test_a_file_that_grows_is_read_on_and_the_same_is_found(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    growing = Outline(tmp_path)
    for step in range(100):
        file.write(Eval(step=step, val_loss=2.0 - step / 100))
        assert growing.advance(FOREVER)
    assert growing.best == outlined(tmp_path).best == (pytest.approx(1.01), 99)
    assert growing.spark == outlined(tmp_path).spark
    assert len(growing.spark) == SPARK_POINTS + 1


def test_a_long_file_is_read_in_pieces_as_there_is_time(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *iterations(*range(40_000)), Eval(step=40_000, val_loss=1.25))
    outline = Outline(tmp_path)
    pieces = 1
    while not outline.advance(time.monotonic()):
        pieces += 1
    assert pieces > 2
    assert outline.best == (1.25, 40_000)


def test_what_a_resume_or_rollback_repeats_is_forgotten(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *(Eval(step=step, val_loss=2.0 - step / 100) for step in (0, 10, 20, 30)))
    file.write(Start(first_step=10), Resume(step=10), Eval(step=20, val_loss=1.9))
    assert outlined(tmp_path).spark == [2.0, 1.9, 1.9]
    file.write(NonFinite(step=25), Rollback(step=25, to=10))
    assert outlined(tmp_path).best == (1.9, 10)
    assert outlined(tmp_path).nan_step is None


def test_a_run_that_begins_anew_in_its_file_forgets_the_old_one(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(config={"seed": 1}), Eval(step=50, val_loss=1.0), *iterations(0, 1), Start(config={"seed": 2}))
    outline = outlined(tmp_path)
    assert (outline.best, outline.settings, outline.trained) == ((None, None), {"seed": 2}, False)
    file.write(*iterations(0))
    assert outline.advance(FOREVER)
    assert outline.trained
    assert outline.sessions == 2


def test_a_replaced_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Eval(step=1, val_loss=1.0))
    outline = outlined(tmp_path)
    (tmp_path / "events.jsonl").unlink()
    EventFile(tmp_path).write(Eval(step=1, val_loss=3.0), Eval(step=2, val_loss=2.0))
    assert outline.advance(FOREVER)
    assert outline.best == (2.0, 2)


def test_a_run_without_evaluations_has_a_sparkline_of_its_training_loss(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Start(), *iterations(*range(300)))
    spark = outlined(tmp_path).spark
    assert len(spark) > 10
    assert spark == sorted(spark, key=lambda loss: -(loss or 0))


@pytest.mark.parametrize(
    "ending",
    [
        [NonFinite(step=7), End(reason="non_finite", step=7)],
        [End(reason="non_finite", step=7)],
        [Iter(step=7, loss=None)],
        [Eval(step=7, val_loss=None)],
    ],
)
def test_a_loss_that_is_not_finite_is_noticed(tmp_path: Path, ending: list[End]) -> None:
    EventFile(tmp_path).write(Start(), *iterations(1, 2), *ending)
    assert outlined(tmp_path).nan_step == 7


def test_patience_follows_the_usual_and_the_longest_time_between_lines(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *iterations(0, 1))
    assert outlined(tmp_path).patience_seconds is None
    file.write(*iterations(*range(2, 20)))
    assert outlined(tmp_path).patience_seconds == STALL_SECONDS
    slow = EventFile(tmp_path / "slow")
    slow.write(Start(), *iterations(*range(20), apart=30.0))
    assert outlined(tmp_path / "slow").patience_seconds == 300.0
    slow.write(Iter(t=1000.0, step=20, loss=1.0))
    assert outlined(tmp_path / "slow").patience_seconds == 860.0


def test_lines_of_other_trainers_with_other_spaces_are_found(tmp_path: Path) -> None:
    record = {"val_loss": 1.5, "step": 3, "event": "eval"}
    (tmp_path / "events.jsonl").write_text(json.dumps(record, indent=None, separators=(" , ", " : ")) + "\n", "utf-8")
    assert outlined(tmp_path).best == (1.5, 3)


def test_a_torn_or_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    lines = [
        b'{"event":"eval","step":1,"val_loss":',
        b'{"event":"eval","step":2,"val_loss":1.5}',
        b'\xff{"event":"eval"}',
    ]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join([*lines, b'{"event":"eval","st']))
    assert outlined(tmp_path).best == (1.5, 2)
