"""A run of nanoGPT goes on from its ckpt.pt, with its optimizer and its settings."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

import nanogpt_files
from nanoscope.model.checkpoint import find_checkpoint
from nanoscope.training.initial_model import nanogpt_run
from small_runs import Folder

CPU = ("--device=cpu", "--compile=False")


@pytest.fixture
def theirs(tmp_path: Path) -> Folder:
    """A checkout of nanoGPT after 20 of 30 iterations."""
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    nanogpt_files.write_checkpoint(tmp_path / "out")
    return Folder(tmp_path)


def resume(folder: Folder, *words: str, status: int = 0) -> str:
    return folder.run("train", "out", "--init_from=resume", *CPU, *words, status=status)


def test_it_is_resumed_where_it_was_and_the_file_stays_as_it_is(theirs: Folder) -> None:
    file = theirs.path / "out/ckpt.pt"
    before = file.read_bytes()
    out = resume(theirs)
    assert "resuming at iteration 20" in out
    assert "finished 30 iterations" in out
    assert list(theirs.losses("out")) == list(range(20, 30))
    assert file.read_bytes() == before


def test_its_loss_goes_on_without_a_jump(theirs: Folder) -> None:
    resume(theirs, "--max_iters=40", "--lr_decay_iters=40")
    losses = list(theirs.losses("out").values())
    model, _ = nanogpt_files.trained()
    assert nanogpt_files.loss_of(model) == pytest.approx(theirs.evaluations("out")[20][1], abs=0.05)
    assert max(losses) < nanogpt_files.loss_of(model) + 0.3  # far below ln(17) = 2.8, where a new model begins
    assert losses[-1] < losses[0]


def test_its_settings_are_kept_except_those_of_its_machine(theirs: Folder) -> None:
    resume(theirs)
    config = tomllib.loads((theirs.path / "out/config.toml").read_text("utf-8"))
    kept = {key: config[key] for key in ("recipe", "learning_rate", "beta2", "min_lr", "max_iters", "batch_size")}
    assert kept == {
        "recipe": "classic", "learning_rate": 3e-3, "beta2": 0.99, "min_lr": 3e-4, "max_iters": 30, "batch_size": 4,
    }  # fmt: skip
    assert config["dtype"] == "auto"  # it has bfloat16 on a GPU


def test_the_moments_of_adamw_are_taken_over(theirs: Folder) -> None:
    checkpoint, _ = nanogpt_run(theirs.path / "out/ckpt.pt")
    resume(theirs, "--max_iters=21")
    after, _ = find_checkpoint(theirs.path / "out")
    assert after.optimizer.keys() == checkpoint.optimizer.keys()
    assert all(value.item() == 21 for key, value in after.optimizer.items() if key.endswith(".step"))
    name = "transformer.wte.weight.exp_avg_sq"  # beta2 is 0.99: after one step it has hardly moved
    assert after.optimizer[name].sum().item() == pytest.approx(checkpoint.optimizer[name].sum().item(), rel=0.05)


def test_its_own_command_line_resumes_it(theirs: Folder) -> None:
    (theirs.path / "train_hamlet.py").write_text("out_dir = 'out'\ndataset = 'hamlet'\nbatch_size = 64\n", "utf-8")
    out = theirs.run("train", "train_hamlet.py", "--init_from=resume", *CPU)
    assert re.search("note: not used, because the run has its own settings: .*batch_size=64", out)
    assert "finished 30 iterations" in out


def test_the_run_goes_on_from_its_own_checkpoints_later(theirs: Folder) -> None:
    resume(theirs)
    assert "resuming at iteration 30" in resume(theirs, "--max_iters=32")


def test_init_from_auto_finds_it(theirs: Folder) -> None:
    assert "resuming at iteration 20" in theirs.run("train", "out", "--init_from=auto", *CPU)


def test_its_best_loss_was_measured_on_other_windows(theirs: Folder) -> None:
    assert "the best val loss so far, 2.5000 at step 20, no longer counts" in resume(theirs)


def test_another_shape_is_refused(theirs: Folder) -> None:
    assert "n_layer=3 was typed, but out has n_layer=2" in resume(theirs, "--n_layer=3", status=2)
    assert not (theirs.path / "out/checkpoints").exists()


def test_a_damaged_file_is_one_message(theirs: Folder) -> None:
    (theirs.path / "out/ckpt.pt").write_bytes(b"damaged")
    assert "is not a nanoGPT checkpoint" in resume(theirs, status=1)


def test_whoever_names_its_folder_is_told_how_to_use_it(theirs: Folder) -> None:
    out = theirs.run("train", "out", status=2)
    assert "out holds a checkpoint of nanoGPT" in out
    assert "nanoscope train out --init_from=resume" in out


WORDS = ["--dataset=hamlet", "--max_iters=2", "--block_size=8", "--n_embd=8", "--n_head=2", *CPU]


@pytest.mark.parametrize("words", [[], ["--overwrite=True"]])
def test_a_new_run_beside_it_is_refused(theirs: Folder, words: list[str]) -> None:
    before = contents(theirs)
    out = theirs.run("train", "laptop-classic", *WORDS, "--out_dir=out", *words, status=2)
    assert "out holds a checkpoint of nanoGPT" in out
    assert "nanoscope train out --init_from=resume" in out
    assert contents(theirs) == before


def contents(folder: Folder) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in (folder.path / "out").rglob("*") if file.is_file()}


@pytest.fixture
def both(theirs: Folder) -> Folder:
    """Another run in the same folder, as earlier versions allowed."""
    theirs.run("train", "laptop-classic", *WORDS, "--out_dir=ours")
    (theirs.path / "ours/checkpoints").rename(theirs.path / "out/checkpoints")
    for name in ("events.jsonl", "config.toml", "console.log"):
        (theirs.path / "ours" / name).rename(theirs.path / "out" / name)
    return theirs


def test_of_two_runs_in_one_folder_ours_is_resumed_unless_the_other_is_named(both: Folder) -> None:
    out = both.run("train", "out", "--init_from=resume", "--max_iters=3", *CPU)
    assert "resuming at iteration 2" in out
    before = contents(both)
    assert "out already holds a run" in both.run("train", "out/ckpt.pt", "--init_from=auto", *CPU, status=2)
    out = both.run("train", "out/ckpt.pt", "--init_from=resume", "--out_dir=further", *CPU)
    assert "resuming at iteration 20" in out
    assert "finished 30 iterations" in out
    assert contents(both) == before
    config = tomllib.loads((both.path / "further/config.toml").read_text("utf-8"))
    assert (config["batch_size"], config["learning_rate"], config["n_embd"]) == (4, 3e-3, 16)
    assert "resuming at iteration 30" in both.run("train", "further", "--init_from=resume", "--max_iters=31", *CPU)


def test_settings_of_a_run_that_saved_nothing_are_not_mixed_with_its_weights(both: Folder) -> None:
    shutil.rmtree(both.path / "out/checkpoints")
    before = contents(both)
    out = resume(both, status=2)
    assert "out already holds a run" in out
    assert contents(both) == before


def test_a_resume_that_was_killed_before_its_first_checkpoint_goes_on_with_its_own_settings(theirs: Folder) -> None:
    resume(theirs, "--learning_rate=1e-3", "--max_iters=24")
    shutil.rmtree(theirs.path / "out/checkpoints")
    out = resume(theirs)
    assert "resuming at iteration 20" in out
    assert theirs.events("out", "start")[-1]["config"]["learning_rate"] == 1e-3  # type: ignore[index]
    (theirs.path / "out/config.toml").unlink()
    shutil.rmtree(theirs.path / "out/checkpoints")
    resume(theirs)
    assert theirs.events("out", "start")[-1]["config"]["learning_rate"] == 3e-3  # type: ignore[index]
