"""events.jsonl and console.log of real runs tell the same story, however the run ended."""

import itertools
import json
import math
import random
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nanoscope.data.loader import Batch, BatchLoader
from nanoscope.findings.analyse import Options, analyse
from nanoscope.runs.reader import read_log
from nanoscope.training import engine, phases
from nanoscope.training.engine import Engine
from nanoscope.training.phases import PhaseClock
from nanoscope.words.language import Language
from nanoscope.words.sentences import verdict_title
from small_runs import TINY, Folder
from stories import SOURCES, assert_alike, story

WILD = ["--learning_rate=1e30", "--decay_lr=False", "--grad_clip=0", "--warmup_iters=0"]
STUCK = ["--max_iters=300", "--patience=2", "--learning_rate=1e-30", "--eval_interval=5", "--decay_lr=False"]


@pytest.fixture(autouse=True)
def coarse_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of whole tenths of a millisecond, which both files hold exactly: no step is slow in one of them only."""
    clock = time.perf_counter
    coarse = SimpleNamespace(**{**vars(time), "perf_counter": lambda: round(clock(), 4)})
    monkeypatch.setattr(phases, "time", coarse)
    monkeypatch.setattr(engine, "time", coarse)


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
    original = Engine.passes

    def break_at_13(self: Engine, batches: list[Batch], step: int, *rest: Any, **more: Any) -> torch.Tensor:
        return original(self, batches, step, *rest, **more) * (math.nan if step == 13 else 1)  # type: ignore

    monkeypatch.setattr(Engine, "passes", break_at_13)
    folder.train("--on_nan=rollback")
    check(folder, finished=True, errors=[])


def test_a_run_that_was_resumed(folder: Folder) -> None:
    folder.train("--max_iters=12")
    folder.run("train", "run", "--init_from=resume", "--max_iters=20")
    check(folder, finished=True, errors=[])


# --- the last lines of train are the verdict that explain gives ---


def verdicts_of(folder: Folder) -> list[str]:
    printed = " ".join(folder.run("explain", "run", "--lang", "en").split())
    log = read_log(str(folder.path / "run"))
    titles = [verdict_title(v, Language("en")) for v in analyse(log.runs[-1], Options(), log).verdicts]
    assert all(title in printed for title in titles)
    return titles


def test_a_run_that_may_learn_more_ends_with_the_command_that_trains_it_longer(folder: Folder) -> None:
    _, _, closing = folder.train().partition("see what it writes")
    _, *verdicts, last = closing.splitlines()
    assert [verdict.partition(". ")[0] for verdict in verdicts] == verdicts_of(folder)
    assert last == "train longer: nanoscope train run --init_from=resume --max_iters=40"


def test_a_run_whose_validation_turned_does_not_end_with_train_longer(folder: Folder) -> None:
    (folder.path / "tiny.txt").write_text("".join(random.Random(3).choices("abcdefgh", k=900)), "utf-8")
    folder.run("prepare", "tiny.txt", "--out=data/tiny", "--tokenizer=char", "--overwrite")
    out = folder.train("--max_iters=300", "--eval_interval=20", "--log_interval=10", "--always_save_checkpoint=False")
    (title,) = verdicts_of(folder)
    assert title.startswith("Severe overfitting")
    _, _, closing = out.partition("see what it writes")
    assert title in closing
    assert "Use the model from step" in closing
    assert "train longer" not in out
    again = folder.run("train", "run", "--init_from=resume")
    assert again.splitlines()[1:] == closing.splitlines()[1:]  # of a run that has nothing left to train


def test_the_last_lines_are_in_the_language_of_the_console(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOSCOPE_LANG", "hi")
    out = folder.train("--max_iters=4")
    verdict, last = out.splitlines()[-2:]
    assert not verdict.isascii()
    assert last.startswith("और ट्रेन करें: nanoscope train run")


def test_an_analysis_that_fails_does_not_fail_the_run(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("nanoscope.findings.analyse.analyse", broken)
    assert folder.train().splitlines()[-1].startswith("see what it writes: ")


def test_compare_and_eval_give_one_error_for_one_difference(folder: Folder) -> None:
    words = ("--eval_iters=1000", "--dtype=float32")  # `eval` measures the whole split in float32, wherever it runs
    folder.train(*words, "--always_save_checkpoint=True")
    folder.run("train", *TINY, *words, "--out_dir=other", "--weight_decay=0.2")
    compared = json.loads(folder.run("compare", "run", "other", "--json"))
    (effect,) = [finding for finding in compared["findings"] if finding["code"] == "effect"]
    printed = folder.run("eval", "run", "other", "--checkpoint=last", "--json")
    measured = json.loads(printed[printed.index("{") :])  # after the notes
    (difference,) = measured["differences"]
    assert effect["noise_from"] == "windows"
    assert effect["difference"] == pytest.approx(difference["difference"], rel=0.02)
    assert effect["noise"] == pytest.approx(difference["error"], rel=0.02)
