"""Every way in which a run ends prints a command, and that command continues the run."""

import contextlib
import itertools
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nanoscope.data.loader import Batch, BatchLoader
from nanoscope.training import run as run_module
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.engine import Engine, Step
from nanoscope.training.phases import PhaseClock
from small_runs import Folder

pytestmark = pytest.mark.slow

RUN = "k renamed"  # its name has to be quoted
COMMAND = re.compile(r"nanoscope (train .*--init_from=resume.*|train 'k renamed'.*)$", re.MULTILINE)
HERE = f"--out_dir={RUN}"
Ending = Callable[[Folder, pytest.MonkeyPatch], str]


def finished(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    return folder.train(HERE)


def finished_with_its_schedule(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    """The learning rate is 0 from iteration 20 on: more iterations alone would change nothing."""
    return folder.train(HERE, "--lr_decay_iters=20")


def finished_already(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.train(HERE)
    return folder.run("train", RUN, "--init_from=resume")


def patience(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    stuck = ["--recipe=classic", "--learning_rate=1e-30", "--decay_lr=False", "--eval_interval=5"]
    return folder.train(HERE, *stuck, "--max_iters=300", "--patience=2")


def patience_typed_on_a_resume(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    stuck = ["--recipe=classic", "--learning_rate=1e-30", "--decay_lr=False", "--eval_interval=5"]
    folder.train(HERE, *stuck)
    return folder.run("train", RUN, "--init_from=resume", "--max_iters=300", "--patience=2")


def patience_as_a_scheduler_meets_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    patience(folder, monkeypatch)
    return folder.run("train", RUN, "--init_from=auto")


def max_minutes(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    """The clock strikes after 12 batches, and stays there: a limit that held for the resume would end it at once."""
    batches, read, minutes = itertools.count(), BatchLoader.next, 0

    def next_batch(self: BatchLoader) -> list[Batch]:
        nonlocal minutes
        minutes = int(next(batches) >= 12)
        return read(self)

    monkeypatch.setattr(BatchLoader, "next", next_batch)
    monkeypatch.setattr(PhaseClock, "wall_seconds", property(lambda self: 60.0 * minutes))
    return folder.train(HERE, "--max_minutes=1")


def interrupted(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    if sys.platform == "win32":
        pytest.skip("Windows has no such signals")
    return folder.interrupt_after("iter 30:", HERE, "--max_iters=1000")[1]


def non_finite(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.train(HERE)
    with _loss_is_not_finite_at(22, monkeypatch):
        return folder.run("train", RUN, "--init_from=resume", "--max_iters=40", status=1)


def non_finite_before_anything_was_saved(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    with _loss_is_not_finite_at(5, monkeypatch):
        return folder.train(HERE, "--eval_interval=100", status=1)


@contextlib.contextmanager
def _loss_is_not_finite_at(bad: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    step = Engine.step

    def one_is_bad(self: Engine, batches: list[Batch], number: int, *rest: Any, **more: Any) -> Step:
        return replace(step(self, batches, number, *rest, **more), finite=number != bad)  # type: ignore[type-var]

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", one_is_bad)
        yield


def failed_save(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    return _without_room_from(11, folder, monkeypatch)


def failed_first_save(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    return _without_room_from(0, folder, monkeypatch)


def _without_room_from(step: int, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> str:
    save = CheckpointWriter.save

    def full_disk(self: CheckpointWriter, *snapshot: Any) -> object:
        if snapshot[2].step >= step:
            return "No space left on device"
        return save(self, *snapshot)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "save", full_disk)
        patch.setattr(run_module, "LAST_TRIES", 1)
        patch.setattr(CheckpointWriter, "RETRY_SECONDS", 0.01)
        return folder.train(HERE, status=1)


ENDINGS: list[Ending] = [
    finished, finished_with_its_schedule, finished_already, patience, patience_typed_on_a_resume,
    patience_as_a_scheduler_meets_it, max_minutes, interrupted, non_finite,
    non_finite_before_anything_was_saved, failed_save, failed_first_save,
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_the_printed_command_continues_the_run(ending: Ending, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ending(folder, monkeypatch)
    (command,) = COMMAND.findall(out)
    trained = len(folder.events(RUN, "iter"))
    words = shlex.split(command)
    assert words[1] == RUN
    if ending is interrupted:
        words.append("--max_iters=200")  # what is left of it takes long
    folder.run(*words)
    iterations = folder.events(RUN, "iter")[trained:]
    assert iterations
    assert iterations[0]["lr"] > 0  # type: ignore[operator]
    assert folder.weights(iterations[-1]["step"] + 1, RUN)  # type: ignore[operator]


def test_a_finished_run_prints_how_to_sample_from_it(folder: Folder) -> None:
    out = folder.train(HERE)
    (command,) = re.findall(r"nanoscope (sample .*)", out)
    assert folder.run(*shlex.split(command), "--max_new_tokens=20")


def test_an_evaluation_ends_without_advice(folder: Folder) -> None:
    folder.train(HERE)
    out = folder.run("train", RUN, "--init_from=resume", "--eval_only=True")
    assert COMMAND.findall(out) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_run_that_was_resumed_on_another_device_prints_that_device(folder: Folder) -> None:
    """Its own device may not exist here."""
    folder.train(HERE)
    config = folder.path / RUN / "config.toml"
    config.write_text(config.read_text("utf-8").replace('device = "cpu"', 'device = "cuda"'), encoding="utf-8")
    process = folder.start("train", RUN, "--init_from=resume", "--device=cpu", "--max_iters=100000")
    assert process.stdout is not None
    with contextlib.closing(process.stdout):
        next(line for line in process.stdout if line.startswith("iter 40:"))
        process.send_signal(signal.SIGINT)
        (command,) = COMMAND.findall(process.stdout.read())
    process.wait(timeout=120)
    assert shlex.split(command)[2:] == ["--init_from=resume", "--device=cpu"]
