"""A run whose config.toml was lost goes on with the settings in its checkpoints, never with default ones."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nanoscope.checkpoint_files import read_state, state_checksum
from small_runs import TINY, Folder

pytestmark = pytest.mark.slow

LOSSES = {
    "missing": None, "empty": b"", "zeros": bytes(900), "no TOML": b"seed = [",
    "its first half": 0.5, "its notes cut off": 0.8,
}  # fmt: skip
RESUME = ("train", "run", "--init_from=resume")


def lose(run: Path, how: bytes | float | None) -> None:
    """Cut at the end of a line: what is left is valid TOML."""
    file = run / "config.toml"
    whole = file.read_bytes()
    file.unlink()
    if isinstance(how, float):
        lines = whole.splitlines(keepends=True)
        how = b"".join(lines[: int(how * len(lines))])
    if how is not None:
        file.write_bytes(how)


def config(run: Path) -> dict[str, object]:
    """The settings, and those notes that a resume needs."""
    return needed(tomllib.loads((run / "config.toml").read_text("utf-8")))


def needed(settings: dict[str, Any]) -> dict[str, object]:
    kept = ("cpu_dtype", "data_folder", "dataset_fingerprint")
    return {**settings, "environment": {key: settings["environment"][key] for key in kept}}


def without_settings(run: Path) -> None:
    """The checkpoints as 0.1.0 wrote them before it kept the settings in them."""
    for state in run.glob("checkpoints/step-*/state.json"):
        content = json.loads(state.read_text("utf-8"))
        del content["settings"]
        content["checksum"] = state_checksum(content)
        state.write_text(json.dumps(content), "utf-8")


def files(folder: Folder) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", LOSSES.values(), ids=LOSSES)
def test_a_resume_uses_the_settings_of_the_checkpoint_and_says_so(folder: Folder, how: bytes | float | None) -> None:
    folder.train("--out_dir=whole", "--lr_decay_iters=20", "--dropout=0.1")
    folder.train("--max_iters=10", "--lr_decay_iters=20", "--dropout=0.1")
    before = config(folder.path / "run")
    lose(folder.path / "run", how)
    out = folder.run(*RESUME, "--max_iters=20")
    said = "note: run/config.toml is missing or damaged: the settings are those of checkpoint step-000010"
    assert out.count(said) == 1
    assert folder.weights(20) == folder.weights(20, "whole")
    assert config(folder.path / "run") == {**before, "max_iters": 20}


def test_a_restarted_job_uses_them_too(folder: Folder) -> None:
    folder.train("--max_iters=10")
    lose(folder.path / "run", b"")
    out = folder.train("--init_from=auto", "--max_iters=10", "--learning_rate=5e-3")
    assert "has finished its 10 iterations" in out
    out = folder.train("--init_from=auto", "--max_iters=12")
    assert "the settings are those of checkpoint step-000010" in out
    assert "is not used" not in out


def test_sample_eval_and_runs_find_the_data_and_the_settings(folder: Folder) -> None:
    folder.train("--max_iters=4")
    (folder.path / "data").rename(folder.path / "elsewhere")  # known only by the note in the settings
    folder.train("--max_iters=6", "--init_from=resume", "--dataset=elsewhere/tiny")
    lose(folder.path / "run", None)
    folder.run("sample", "run", "--max_new_tokens=5")
    assert "elsewhere/tiny" in folder.run("eval", "run")
    (row,) = json.loads(folder.run("runs", ".", "--columns=dataset", "--json"))["runs"]
    assert row["settings"]["dataset"] == "elsewhere/tiny"


def test_what_was_typed_for_one_session_is_not_in_the_checkpoint(folder: Folder) -> None:
    folder.train("--max_iters=4", "--max_minutes=9")
    folder.run(*RESUME, "--max_iters=6", "--log_interval=3", "--dtype=float32", "--patience=7")
    settings = read_state(folder.path / "run/checkpoints/step-000006")["settings"]
    assert (settings["log_interval"], settings["dtype"], settings["patience"]) == (1, "auto", 0)
    assert "max_minutes" not in settings
    assert settings["max_iters"] == 6
    assert needed(settings) == config(folder.path / "run")


def test_a_flipped_bit_in_the_settings_of_a_checkpoint_is_noticed(folder: Folder) -> None:
    folder.train()
    state = folder.path / "run/checkpoints/step-000020/state.json"
    state.write_text(state.read_text("utf-8").replace('"batch_size": 4', '"batch_size": 5'), "utf-8")
    lose(folder.path / "run", b"")
    out = folder.run(*RESUME)
    assert "the settings are those of checkpoint step-000010" in out
    assert config(folder.path / "run")["batch_size"] == 4


@pytest.mark.parametrize("how", list(LOSSES.values())[:-1], ids=list(LOSSES)[:-1])
def test_settings_that_are_lost_everywhere_are_one_refusal(folder: Folder, how: bytes | float | None) -> None:
    folder.train("--max_iters=4")
    without_settings(folder.path / "run")
    lose(folder.path / "run", how)
    before = files(folder)
    for words in (RESUME, ("train", *TINY, "--init_from=auto"), ("train", "run", "--out_dir=new")):
        out = folder.run(*words, "--max_iters=6", status=2)
        assert "the settings of run are lost" in out
        assert "--init_from=run begins it with this run's weights" in out
        assert files(folder) == before
    folder.run("sample", "run", "--max_new_tokens=5")


def test_a_run_without_settings_in_its_checkpoints_goes_on_by_its_config(folder: Folder) -> None:
    folder.train("--out_dir=whole", "--lr_decay_iters=20")
    folder.train("--max_iters=10", "--lr_decay_iters=20")
    without_settings(folder.path / "run")
    folder.run(*RESUME, "--max_iters=20")
    assert folder.weights(20) == folder.weights(20, "whole")
