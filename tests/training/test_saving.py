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
from nanoscope.training.saving import retry_save, save
from nanoscope.training.session import Session
from nanoscope.training.startup import start_session
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
def session(folder: Folder, terminal: Lines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A run at step 10 that can't save: the folder for checkpoints is a file."""
    monkeypatch.chdir(folder.path)
    session = start_session(resolve([*TINY, "--ngrams=1"]), terminal, PhaseClock())
    session.state.step = 10
    session.folder.checkpoints.rmdir()
    session.folder.checkpoints.touch()
    terminal.lines.clear()
    yield session
    session.resources.close()


def repair(session: Session) -> None:
    session.folder.checkpoints.unlink()


def change_weights(session: Session) -> None:
    with torch.no_grad():
        for parameter in session.engine.plain_model.parameters():
            parameter += 1


def saved_names(session: Session) -> list[str]:
    return [path.name for path in checkpoint_folders(session.folder.checkpoints)]


def test_a_failed_save_is_reported_once_with_the_reason(session: Session, terminal: Lines) -> None:
    save(session)
    session.checkpoints.retry_at = 0
    retry_save(session)
    (line,) = terminal.lines
    assert line.startswith("warning: checkpoint of iteration 10 not saved: ")
    assert str(Path("run/checkpoints")) in line
    assert line.endswith("; trying again every 30 s")
    assert session.checkpoints.saved_step is None


def test_it_is_tried_again_when_its_time_has_come_with_the_weights_of_its_step(
    session: Session, terminal: Lines
) -> None:
    weights = {name: parameter.detach().clone() for name, parameter in session.engine.plain_model.named_parameters()}
    save(session, best=True)
    change_weights(session)
    repair(session)
    retry_save(session)
    assert session.checkpoints.saved_step is None  # 30 s are not over
    session.checkpoints.retry_at = 0
    session.state.step = 12
    retry_save(session)
    assert terminal.lines[1:] == ["note: checkpoint of iteration 10 is saved now"]
    assert session.checkpoints.saved_step == 10
    found = load_checkpoint(session.folder.checkpoints / "step-000010")
    assert all(torch.equal(found.model[name], weight) for name, weight in weights.items())
    assert (session.folder.checkpoints / "best").read_text() == "step-000010\n"
    retry_save(session, last_try=True)
    assert len(terminal.lines) == 2


def test_a_newer_checkpoint_takes_the_place_of_one_that_could_not_be_saved(session: Session) -> None:
    save(session)
    repair(session)
    session.state.step = 20
    save(session)
    retry_save(session, last_try=True)
    assert saved_names(session) == ["step-000020"]
    assert session.checkpoints.saved_step == 20


def test_after_its_last_try_it_is_forgotten(session: Session) -> None:
    save(session)
    retry_save(session, last_try=True)
    repair(session)
    session.checkpoints.retry_at = 0
    retry_save(session)
    assert saved_names(session) == []
    assert session.checkpoints.saved_step is None


def test_a_save_without_memory_for_a_copy_is_reported_and_not_tried_again(
    session: Session, terminal: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(self: torch.Tensor, device: str, *, copy: bool) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "to", no_memory)
        save(session)
    repair(session)
    retry_save(session, last_try=True)
    assert saved_names(session) == []
    assert len(terminal.lines) == 1
    assert "trying again" not in terminal.lines[0]
