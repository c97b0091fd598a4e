"""A save that fails is reported once and tried again from a copy, while training continues."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nanoscope.checkpoint_files import checkpoint_folders
from nanoscope.config_sources import resolve
from nanoscope.model.checkpoint import load_checkpoint
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Terminal
from nanoscope.training.startup import Started, start
from small_runs import TINY, Folder


class Lines(Terminal):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def terminal() -> Lines:
    return Lines()


@pytest.fixture
def started(folder: Folder, terminal: Lines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """A run at step 10 that can't save: the folder for checkpoints is a file."""
    monkeypatch.chdir(folder.path)
    started = start(resolve([*TINY, "--ngrams=1"]), terminal, PhaseClock())
    started.run.state.step = 10
    started.run.folder.checkpoints.rmdir()
    started.run.folder.checkpoints.touch()
    terminal.lines.clear()
    yield started
    started.resources.close()


def repair(started: Started) -> None:
    started.run.folder.checkpoints.unlink()


def change_weights(started: Started) -> None:
    with torch.no_grad():
        for parameter in started.engine.plain_model.parameters():
            parameter += 1


def saved_names(started: Started) -> list[str]:
    return [path.name for path in checkpoint_folders(started.run.folder.checkpoints)]


def test_a_failed_save_is_reported_once_with_the_reason(started: Started, terminal: Lines) -> None:
    started.run.save(started.engine)
    started.run.checkpoints.retry_at = 0
    started.run.retry_save()
    (line,) = terminal.lines
    assert line.startswith("warning: checkpoint of iteration 10 not saved: ")
    assert str(Path("run/checkpoints")) in line
    assert line.endswith("; trying again every 30 s")
    assert started.run.checkpoints.saved_step is None


def test_it_is_tried_again_when_its_time_has_come_with_the_weights_of_its_step(
    started: Started, terminal: Lines
) -> None:
    weights = {name: parameter.detach().clone() for name, parameter in started.engine.plain_model.named_parameters()}
    started.run.save(started.engine, best=True)
    change_weights(started)
    repair(started)
    started.run.retry_save()
    assert started.run.checkpoints.saved_step is None  # 30 s are not over
    started.run.checkpoints.retry_at = 0
    started.run.state.step = 12
    started.run.retry_save()
    assert terminal.lines[1:] == ["note: checkpoint of iteration 10 is saved now"]
    assert started.run.checkpoints.saved_step == 10
    found = load_checkpoint(started.run.folder.checkpoints / "step-000010")
    assert all(torch.equal(found.model[name], weight) for name, weight in weights.items())
    assert (started.run.folder.checkpoints / "best").read_text() == "step-000010\n"
    started.run.retry_save(last_try=True)
    assert len(terminal.lines) == 2


def test_a_newer_checkpoint_takes_the_place_of_one_that_could_not_be_saved(started: Started) -> None:
    started.run.save(started.engine)
    repair(started)
    started.run.state.step = 20
    started.run.save(started.engine)
    started.run.retry_save(last_try=True)
    assert saved_names(started) == ["step-000020"]
    assert started.run.checkpoints.saved_step == 20


def test_after_its_last_try_it_is_forgotten(started: Started) -> None:
    started.run.save(started.engine)
    started.run.retry_save(last_try=True)
    repair(started)
    started.run.checkpoints.retry_at = 0
    started.run.retry_save()
    assert saved_names(started) == []
    assert started.run.checkpoints.saved_step is None


def test_a_save_without_memory_for_a_copy_is_reported_and_not_tried_again(
    started: Started, terminal: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(self: torch.Tensor, device: str, *, copy: bool) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "to", no_memory)
        started.run.save(started.engine)
    repair(started)
    started.run.retry_save(last_try=True)
    assert saved_names(started) == []
    assert len(terminal.lines) == 1
    assert "trying again" not in terminal.lines[0]
