"""Checkpoints damaged on disk: the damage is detected and reported, and the previous checkpoint is used."""

import contextlib
from pathlib import Path

import pytest

from nanoscope.checkpoint_files import read_pointer
from nanoscope.config_sources import resolve
from nanoscope.model.checkpoint import find_checkpoint
from nanoscope.training.console import PlainTerminal
from nanoscope.training.launch import start
from nanoscope.training.phases import PhaseClock
from nanoscope.training.stopping import StopRequest
from small_runs import Folder

pytestmark = pytest.mark.slow

FILES = ("model.safetensors", "optimizer.safetensors", "tokenizer.json", "state.json")


def check(run: Path) -> str:
    """The problem reported about the newest checkpoint; the one before it is loaded."""
    found, problems = find_checkpoint(run)
    assert found.progress.step == 10
    (problem,) = problems
    assert "step-000020" in str(problem)
    return str(problem)


def test_a_flipped_bit_anywhere_in_any_file_is_detected(folder: Folder) -> None:
    folder.train()
    newest = folder.path / "run/checkpoints/step-000020"
    assert {path.name for path in newest.iterdir()} == set(FILES)
    for name in FILES:
        whole = (newest / name).read_bytes()
        places = {0, 7, len(whole) - 1, *range(0, len(whole), max(len(whole) // 25, 1))}
        for place in places:
            damaged = bytearray(whole)
            damaged[place] ^= 1  # also turns one digit into another, which leaves the JSON valid
            (newest / name).write_bytes(bytes(damaged))
            check(folder.path / "run")
        (newest / name).write_bytes(whole)
    assert find_checkpoint(folder.path / "run")[0].progress.step == 20


def test_a_truncated_or_missing_file_is_detected_and_named(folder: Folder) -> None:
    folder.train()
    newest = folder.path / "run/checkpoints/step-000020"
    for name in FILES:
        whole = (newest / name).read_bytes()
        for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
            (newest / name).write_bytes(whole[:length])
            check(folder.path / "run")
        (newest / name).unlink()
        assert name in check(folder.path / "run")
        (newest / name).write_bytes(whole)


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
def test_a_run_whose_newest_checkpoint_is_damaged_resumes_from_the_previous_one_to_the_same_end(
    folder: Folder, name: str
) -> None:
    folder.train()
    whole = folder.weights(20)
    damaged = folder.path / "run/checkpoints/step-000020" / name
    damaged.write_bytes(damaged.read_bytes()[:-100])
    out = folder.run("train", "run", "--init_from=resume")
    assert "resuming at iteration 10" in out
    assert any(line.startswith("note: ") and "step-000020" in line for line in out.splitlines())
    assert folder.weights(20) == whole
    assert find_checkpoint(folder.path / "run")[1] == []


def damage(checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def test_a_best_checkpoint_that_is_damaged_hands_over_to_the_best_one_before_it(folder: Folder) -> None:
    folder.train()
    checkpoints = folder.path / "run/checkpoints"
    assert read_pointer(checkpoints, "best") == "step-000020"
    damage(checkpoints / "step-000020")
    folder.run("train", "run", "--init_from=resume", "--max_iters=12", "--eval_interval=100")
    assert read_pointer(checkpoints, "last") == "step-000012"
    assert find_checkpoint(folder.path / "run", "best")[0].progress.step in (10, 12)


def test_a_run_that_is_killed_after_a_fall_back_falls_back_to_the_same_checkpoint(folder: Folder) -> None:
    """`last` must not lead to what an earlier attempt left at later steps."""
    folder.train("--keep_checkpoints=0", "--max_iters=30")
    checkpoints = folder.path / "run/checkpoints"
    (checkpoints / "last").write_text("step-000020\n", "utf-8")
    damage(checkpoints / "step-000020")
    # As far as a process came that was killed before its first save.
    with contextlib.chdir(folder.path), contextlib.ExitStack() as resources:
        start(resolve(["run", "--init_from=resume"]), PlainTerminal(StopRequest()), PhaseClock(), resources)
    assert find_checkpoint(folder.path / "run")[0].progress.step == 10


def test_a_checkpoint_of_a_newer_nanoscope_is_passed_over_but_not_called_damaged(folder: Folder) -> None:
    folder.train()
    state = folder.path / "run/checkpoints/step-000020/state.json"
    state.write_text(state.read_text("utf-8").replace('"version": 1', '"version": 99'), "utf-8")
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=15")
    assert "another version of nanoscope" in out
    assert state.is_file()
