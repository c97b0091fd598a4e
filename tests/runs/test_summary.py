"""What a list shows of a run is found wherever it is in its events, and while they grow."""

import json
import os
import time
from pathlib import Path

import pytest

from nanoscope.runs.events import End, Eval, Iter, NonFinite, Resume, Rollback, Start
from nanoscope.runs.summary import FIRST_LINES_SECONDS, SPARK_POINTS, STALL_SECONDS, RunSummary, summary_of
from written_runs import EventFile


def iterations(*steps: int, apart: float = 1.0) -> list[Iter]:
    return [Iter(t=apart * step, step=step, loss=3.0 - step / 100, tokens_per_second=100.0 + step) for step in steps]


def test_the_best_evaluation_is_found_wherever_it_is(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), Eval(step=0, val_loss=4.0), *iterations(*range(30_000)), Eval(step=30_000, val_loss=1.25))
    file.write(*iterations(*range(30_000, 60_000)), Eval(step=60_000, val_loss=1.5), *iterations(60_000))
    summary = summary_of(tmp_path)
    assert summary.best_evaluation == (1.25, 30_000)
    assert summary.spark == [4.0, 1.25, 1.5]
    assert summary.tok_s == 60_100.0


def test_a_file_that_grows_is_read_on_and_the_same_is_found(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    growing = RunSummary("run", tmp_path)
    for step in range(100):
        file.write(Eval(step=step, val_loss=2.0 - step / 100))
        assert growing.look().complete
    assert growing.best_evaluation == summary_of(tmp_path).best_evaluation == (pytest.approx(1.01), 99)
    assert growing.spark == summary_of(tmp_path).spark
    assert len(growing.spark) == SPARK_POINTS + 1


def test_a_long_file_is_read_in_pieces_as_there_is_time(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *iterations(*range(40_000)), Eval(step=40_000, val_loss=1.25))
    summary = RunSummary("run", tmp_path)
    pieces = 1
    while not summary.look(time.monotonic()).complete:
        pieces += 1
    assert pieces > 2
    assert summary.best_evaluation == (1.25, 40_000)


def test_what_a_resume_or_rollback_repeats_is_forgotten(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *(Eval(step=step, val_loss=2.0 - step / 100) for step in (0, 10, 20, 30)))
    file.write(Start(first_step=10), Resume(step=10), Eval(step=20, val_loss=1.9))
    assert summary_of(tmp_path).spark == [2.0, 1.9, 1.9]
    file.write(NonFinite(step=25), Rollback(step=25, to=10))
    assert summary_of(tmp_path).best_evaluation == (1.9, 10)
    assert summary_of(tmp_path).nan_step is None


def test_a_run_that_begins_anew_in_its_file_forgets_the_old_one(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(config={"seed": 1}), Eval(step=50, val_loss=1.0), *iterations(0, 1), Start(config={"seed": 2}))
    summary = summary_of(tmp_path)
    assert (summary.best_evaluation, summary.settings, summary.state) == ((None, None), {"seed": 2}, "starting")
    file.write(*iterations(0))
    assert summary.look().complete
    assert summary.state == "live"
    assert summary.reader.sessions == 2


def test_a_replaced_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Eval(step=1, val_loss=1.0))
    summary = summary_of(tmp_path)
    (tmp_path / "events.jsonl").unlink()
    EventFile(tmp_path).write(Eval(step=1, val_loss=3.0), Eval(step=2, val_loss=2.0))
    assert summary.look().complete
    assert summary.best_evaluation == (2.0, 2)


def test_a_run_without_evaluations_has_a_sparkline_of_its_training_loss(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Start(), *iterations(*range(300)))
    spark = summary_of(tmp_path).spark
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
    assert summary_of(tmp_path).nan_step == 7


def test_patience_follows_the_usual_and_the_longest_time_between_lines(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *iterations(0, 1))
    assert summary_of(tmp_path).patience_seconds == FIRST_LINES_SECONDS
    file.write(*iterations(*range(2, 20)))
    assert summary_of(tmp_path).patience_seconds == STALL_SECONDS
    slow = EventFile(tmp_path / "slow")
    slow.write(Start(), *iterations(*range(20), apart=30.0))
    assert summary_of(tmp_path / "slow").patience_seconds == 300.0
    slow.write(Iter(t=1000.0, step=20, loss=1.0))
    assert summary_of(tmp_path / "slow").patience_seconds == 860.0


def test_lines_of_other_trainers_with_other_spaces_are_found(tmp_path: Path) -> None:
    record = {"val_loss": 1.5, "step": 3, "event": "eval"}
    (tmp_path / "events.jsonl").write_text(json.dumps(record, indent=None, separators=(" , ", " : ")) + "\n", "utf-8")
    assert summary_of(tmp_path).best_evaluation == (1.5, 3)


def test_a_torn_or_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    lines = [
        b'{"event":"eval","step":1,"val_loss":',
        b'{"event":"eval","step":2,"val_loss":1.5}',
        b'\xff{"event":"eval"}',
    ]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join([*lines, b'{"event":"eval","st']))
    assert summary_of(tmp_path).best_evaluation == (1.5, 2)


def test_the_last_evaluation_is_found_whatever_the_order_of_its_keys(tmp_path: Path) -> None:
    filler = "".join(f'{{"step": {step}, "loss": 1.5, "event": "iter"}}\n' for step in range(201, 5000))
    evaluation = '{"val_loss": 1.25, "step": 200, "event": "eval"}\n'
    (tmp_path / "events.jsonl").write_text(evaluation + filler, "utf-8")
    found = summary_of(tmp_path)
    assert (found.val, found.best, found.step) == (1.25, 1.25, 4999)


def test_without_evaluations_the_best_loss_is_the_one_that_the_end_states(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Start(), *iterations(1, 2), End(reason="finished", step=3, best_val_loss=1.5))
    found = summary_of(tmp_path)
    assert (found.state, found.best, found.step) == ("finished", 1.5, 3)


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ([Start(first_step=2), *iterations(2, 3)], "live"),
        ([Start(first_step=2)], "starting"),
        ([Eval(step=3, val_loss=1.0)], "live"),
        ([], "stopped"),
    ],
)
def test_a_run_that_goes_on_after_its_end_has_the_state_of_what_followed(
    after: list[Start], state: str, tmp_path: Path
) -> None:
    EventFile(tmp_path).write(Start(), *iterations(1, 2), End(reason="interrupted", step=2), *after)
    assert summary_of(tmp_path).state == state


def test_a_hang_in_the_first_lines_counts_as_stalled(tmp_path: Path) -> None:
    EventFile(tmp_path).write(Start(), Iter(t=1.0, step=0, loss=4.0, seconds=0.1))
    silent = time.time() - FIRST_LINES_SECONDS - 10
    os.utime(tmp_path / "events.jsonl", (silent, silent))
    assert summary_of(tmp_path).state == "stalled"


def test_slow_first_steps_and_rare_lines_are_waited_for(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(config={"log_interval": 100}), Iter(t=9.0, step=0, loss=4.0, seconds=9.0))
    assert summary_of(tmp_path).patience_seconds == 9000.0
