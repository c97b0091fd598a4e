"""Checkpoints that were damaged on disk: the damage is seen and named, and the checkpoint before is used."""

from pathlib import Path

import pytest

from nanoscope.training.restore import find_checkpoint
from small_runs import Folder

FILES = ("model.safetensors", "optimizer.safetensors", "tokenizer.json", "state.json")


def check(run: Path) -> str:
    """What is said about the newest checkpoint; the one before is loaded."""
    found, problems = find_checkpoint(run)
    assert found.progress.step == 10
    (problem,) = problems
    assert "step-000020" in problem
    return problem


def test_one_flipped_bit_anywhere_in_any_file_is_noticed(folder: Folder) -> None:
    folder.train()
    newest = folder.path / "run/checkpoints/step-000020"
    assert {path.name for path in newest.iterdir()} == set(FILES)
    for name in FILES:
        whole = (newest / name).read_bytes()
        places = {0, 7, len(whole) - 1, *range(0, len(whole), max(len(whole) // 25, 1))}
        # In the word itself it does no harm: then nothing is compared, and all the rest is as it was.
        word = whole.find(b"checksum")
        places -= {*range(word, word + 8)} if word >= 0 else set()
        for place in places:
            damaged = bytearray(whole)
            damaged[place] ^= 1  # also makes one digit of another: then the JSON is still good
            (newest / name).write_bytes(bytes(damaged))
            check(folder.path / "run")
        (newest / name).write_bytes(whole)
    assert find_checkpoint(folder.path / "run")[0].progress.step == 20


def test_a_file_that_is_cut_off_or_missing_is_noticed_and_named(folder: Folder) -> None:
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
def test_a_run_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before_to_the_same_end(
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
