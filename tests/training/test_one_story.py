"""events.jsonl and console.log of real runs tell the same story, however the run ended."""

import itertools
import math
import time
from types import SimpleNamespace

import pytest
import torch

from nanoscope.analysis.analyse import Options, analyse
from nanoscope.data.loader import Batch, BatchLoader
from nanoscope.runs.reader import read_log
from nanoscope.training import phases, trainer
from nanoscope.training.phases import PhaseClock
from small_runs import Folder
from stories import SOURCES, assert_alike, story

WILD = ["--learning_rate=1e30", "--decay_lr=False", "--grad_clip=0", "--warmup_iters=0"]
STUCK = ["--max_iters=300", "--patience=2", "--learning_rate=1e-30", "--eval_interval=5", "--decay_lr=False"]


@pytest.fixture(autouse=True)
def coarse_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of whole tenths of a millisecond, which both files hold exactly: no step is slow in one of them only."""
    clock = time.perf_counter
    coarse = SimpleNamespace(**{**vars(time), "perf_counter": lambda: round(clock(), 4)})
    monkeypatch.setattr(phases, "time", coarse)


def check(folder: Folder, finished: bool, errors: list[str], *, exact_times: bool = True) -> None:
    """Both files give the same findings, and say how the run ended."""
    found = [story(folder.path / "run" / source) for source in SOURCES]
    for each in found:
        if not exact_times:  # rounded ones may be on the other side of a threshold
            del each["timing"], each["slow_steps"], each["slow_groups"]
            each["advice"] = []
        # The console rounds a run's time to seconds, which these runs hardly take.
        del each["phase_costs"], each["eta"], each["estimates"]
        # It rounds an evaluation to 10 ms: what a shorter one would save may be worth a word in one of the two only.
        kept = [advice for advice in each["advice"] if advice["action"] != "lower_eval_iters"]
        each["advice"] = [(advice["action"], advice["step"]) for advice in kept]
    assert_alike(*found)
    for source in SOURCES:
        log = read_log(str(folder.path / "run" / source))
        assert analyse(log.runs[-1], Options(), log).progress.finished is finished, source
        assert [error.kind for error in log.errors] == errors, source


def test_a_run_that_finished(folder: Folder) -> None:
    folder.train()
    check(folder, finished=True, errors=[])


def test_a_run_with_one_evaluation_window(folder: Folder) -> None:
    folder.train("--eval_iters=1", "--batch_size=1")
    check(folder, finished=True, errors=[])


@pytest.mark.slow
def test_a_run_that_was_interrupted(folder: Folder) -> None:
    folder.interrupt_after("iter 12", "--max_iters=100000")
    check(folder, finished=False, errors=["interrupted"], exact_times=False)


def test_a_run_out_of_minutes(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock strikes after 12 batches: a real minute would be over before a busy machine has started."""
    batches = itertools.count()
    read, minutes = BatchLoader.next, 0

    def next_batch(self: BatchLoader) -> list[Batch]:
        nonlocal minutes
        minutes = int(next(batches) >= 12)
        return read(self)

    monkeypatch.setattr(BatchLoader, "next", next_batch)
    monkeypatch.setattr(PhaseClock, "wall_seconds", property(lambda self: 60.0 * minutes))
    folder.train("--max_minutes=1")
    check(folder, finished=True, errors=[])


def test_a_run_out_of_patience(folder: Folder) -> None:
    folder.train(*STUCK)
    check(folder, finished=True, errors=[])


def test_a_run_whose_loss_was_not_finite(folder: Folder) -> None:
    folder.train(*WILD, status=1)
    check(folder, finished=False, errors=[])


def test_a_run_that_rolled_back(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    original = trainer.forward_backward

    def break_at_13(session: object, batches: list[object], step: int, stop: object) -> torch.Tensor:
        return original(session, batches, step, stop) * (math.nan if step == 13 else 1)  # type: ignore

    monkeypatch.setattr(trainer, "forward_backward", break_at_13)
    folder.train("--on_nan=rollback")
    check(folder, finished=True, errors=[])


def test_a_run_that_was_resumed(folder: Folder) -> None:
    folder.train("--max_iters=12")
    folder.run("train", "run", "--init_from=resume", "--max_iters=20")
    check(folder, finished=True, errors=[])
