"""A save that fails is reported once and tried again, while training continues."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from nanoscope.checkpoint_files import checkpoint_folders
from nanoscope.config_sources import resolve
from nanoscope.training.engine import Engine
from nanoscope.training.launch import start
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Terminal
from nanoscope.training.run import Run
from small_runs import TINY, Folder


class Started(NamedTuple):
    run: Run
    engine: Engine


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
    with ExitStack() as resources:
        run, engine, _ = start(resolve([*TINY, "--ngrams=1"]), terminal, PhaseClock(), resources)
        run.state.step = 10
        run.folder.checkpoints.rmdir()
        run.folder.checkpoints.touch()
        terminal.lines.clear()
        yield Started(run, engine)


def repair(started: Started) -> None:
    started.run.folder.checkpoints.unlink()


def saved_names(started: Started) -> list[str]:
    return [path.name for path in checkpoint_folders(started.run.folder.checkpoints)]


def test_a_failed_save_is_reported_once_with_the_reason(started: Started, terminal: Lines) -> None:
    assert not started.run.save(started.engine)
    started.run.retry_at = 0
    started.run.retry_save(started.engine)
    (line,) = terminal.lines
    assert line.startswith("warning: checkpoint of iteration 10 not saved: ")
    assert str(Path("run/checkpoints")) in line
    assert line.endswith("; trying again every 30 s")
    assert started.run.checkpoints.saved_step is None


def test_it_is_tried_again_when_its_time_has_come_with_what_is_reached_by_then(
    started: Started, terminal: Lines
) -> None:
    started.run.save(started.engine)
    repair(started)
    started.run.retry_save(started.engine)
    assert started.run.checkpoints.saved_step is None  # 30 s are not over
    started.run.retry_at = 0
    started.run.state.step = started.run.state.best_step = 12
    started.run.retry_save(started.engine)
    assert terminal.lines[1].startswith(f"saving checkpoint to {Path('run/checkpoints/step-000012')} ")
    assert started.run.checkpoints.saved_step == 12
    assert saved_names(started) == ["step-000012"]
    assert (started.run.folder.checkpoints / "best").read_text() == "step-000012\n"
    started.run.retry_save(started.engine)  # there is nothing to try again
    assert len(terminal.lines) == 2
