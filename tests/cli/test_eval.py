"""`nanoscope eval`, on real runs of a few iterations."""

import contextlib
import json
import math
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import nanogpt_files
from conftest import SONG, TINY_MODEL, make_dataset
from nanoscope import cli
from nanoscope.data.dataset import open_dataset
from nanoscope.interop.models import open_model


@pytest.fixture(scope="module")
def runs(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/song, data/words (the same text in BPE) and runs of 2 and 12 iterations; not to be changed."""
    folder = tmp_path_factory.mktemp("eval")
    shutil.copytree(small_run.parent, folder, dirs_exist_ok=True)
    make_dataset(folder, tokenizer="bpe", name="words")
    words = ["--max_iters=12", "--eval_interval=12", "--device=cpu"]
    with contextlib.chdir(folder):
        assert cli.run(["train", "--dataset=data/song", *TINY_MODEL, *words, "--out_dir=longer"]) == 0
        assert cli.run(["train", "--dataset=data/words", *TINY_MODEL, *words, "--out_dir=bpe"]) == 0
    return folder


@pytest.fixture
def evaluated(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`eval ARGUMENTS` in that folder: exit status, standard output and error."""
    monkeypatch.chdir(runs)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.run(["eval", *words, "--device=cpu"])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def document(evaluated):
    def run(*words: str) -> dict[str, Any]:
        status, out, err = evaluated(*words, "--json")
        assert status == 0, err
        return json.loads(out)

    return run


def test_the_loss_is_the_mean_over_the_whole_split(document, runs: Path) -> None:
    (score,) = document("run")["scores"]
    opened, split = open_model("run"), open_dataset("data/song").splits["val"]
    count = (len(split) - 1) // 32
    ids = torch.from_numpy(split.read(0, count * 32 + 1).astype("int64"))
    with torch.no_grad():
        loss = float(opened.build().eval()(ids[:-1].view(count, 32), ids[1:].view(count, 32)))
    assert score["loss"] == pytest.approx(loss, abs=1e-5)
    assert (score["windows"], score["tokens"], score["step"]) == (count, count * 32, 2)
    assert score["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert score["bits_per_byte"] == score["bits_per_character"] == pytest.approx(loss / math.log(2), rel=1e-4)


def test_a_part_is_said_to_be_one(evaluated) -> None:
    _, out, _ = evaluated("run", "--windows=8")
    assert "data/song, validation split: 8 windows of 32 tokens out of" in " ".join(out.split())


def test_the_training_split_may_be_measured(document) -> None:
    assert document("run", "--split=train")["split"] == "train"
    assert document("run", "--split=train")["windows"] > document("run")["windows"]


def test_several_runs_are_ranked_and_compared_window_by_window(document, evaluated) -> None:
    found = document("run", "longer")
    assert [score["name"] for score in found["scores"]] == ["longer", "run"]
    (difference,) = found["differences"]
    better, worse = (score["loss"] for score in found["scores"])
    assert difference["difference"] == pytest.approx(worse - better, abs=1e-6)
    assert (difference["model"], difference["better"], difference["paired"]) == ("run", "longer", True)
    assert difference["error"] < found["scores"][0]["error"]  # what is hard in the text cancels out
    assert difference["verdict"] == "differs"
    _, out, _ = evaluated("run", "longer")
    assert "More than noise: the loss of run is" in out


def test_a_run_differs_from_itself_by_nothing(document, runs: Path) -> None:
    (difference,) = document("run", "run/checkpoints/step-000002")["differences"]
    assert (difference["difference"], difference["verdict"]) == (0, "within_noise")


def test_other_tokens_are_compared_by_bits_per_byte(document, evaluated, tmp_path: Path) -> None:
    (tmp_path / "song.txt").write_text(SONG[-4000:], "utf-8")
    words = ("run", "bpe", f"--dataset={tmp_path / 'song.txt'}")
    found = document(*words)
    assert (found["split"], found["same_tokens"], found["ranked"]) == ("", False, True)
    bits = [score["bits_per_byte"] for score in found["scores"]]
    assert bits == sorted(bits)
    assert found["differences"][0]["unit"] == "bits_per_byte"
    _, out, _ = evaluated(*words)
    assert "only bits per byte of the same text" in " ".join(out.split())


def test_a_dataset_in_other_tokens_than_the_models_is_refused(evaluated) -> None:
    status, out, err = evaluated("run", "bpe", "--dataset=data/song")
    assert (status, out) == (1, "")
    assert "bpe and data/song have different tokenizers" in err


def test_bits_are_those_of_the_real_bytes_and_characters(
    small_dataset, runs: Path, capsys, monkeypatch, tmp_path
) -> None:
    small_dataset("नमस्ते दुनिया। " * 400, "char", "hindi")
    monkeypatch.chdir(tmp_path)
    words = ["train", "--dataset=data/hindi", *TINY_MODEL, "--max_iters=1", "--device=cpu", "--out_dir=run"]
    assert cli.run(words) == 0
    capsys.readouterr()
    assert cli.run(["eval", "run", "--json", "--device=cpu"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert score["bits_per_character"] == pytest.approx(score["loss"] / math.log(2), rel=1e-6)
    per_character = len("नमस्ते दुनिया। ".encode()) / len("नमस्ते दुनिया। ")
    assert score["bits_per_byte"] == pytest.approx(score["bits_per_character"] / per_character, rel=0.01)


def test_characters_that_a_model_does_not_know_are_named(evaluated, tmp_path: Path) -> None:
    (tmp_path / "snow.txt").write_text("row ☃ " * 500, "utf-8")
    status, out, err = evaluated("bpe", "run", f"--dataset={tmp_path / 'snow.txt'}")
    assert (status, out) == (1, "")
    assert "run can't be evaluated on" in err
    assert "its vocabulary lacks '☃'" in err


def test_models_of_different_data_need_a_text(evaluated) -> None:
    status, _, err = evaluated("run", "bpe")
    assert status == 2
    assert "run on data/song, bpe on data/words" in err
    assert "--dataset" in err


def test_different_contexts_are_cut_to_the_shortest(document, runs: Path, tmp_path: Path) -> None:
    words = ["--dataset=data/song", *TINY_MODEL, "--max_iters=1", "--device=cpu", "--block_size=16"]
    assert cli.run(["train", *words, f"--out_dir={tmp_path / 'short'}"]) == 0
    found = document("run", str(tmp_path / "short"))
    assert (found["block_size"], found["own_contexts"]) == (16, False)


def test_nothing_is_written(document, runs: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    document("run", "longer")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_nanogpts_checkpoint_is_measured_on_its_own_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    model = nanogpt_files.write_checkpoint(tmp_path / "out-hamlet")
    assert cli.run(["eval", str(tmp_path / "out-hamlet"), "--json", "--device=cpu"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert score["loss"] == pytest.approx(nanogpt_files.loss_of(model), abs=1e-5)
    assert score["bits_per_byte"] is not None


def test_a_mistake_gets_one_message(evaluated) -> None:
    for words, part in {
        "missing": "missing is not a model",
        "data": "data is not a model",
        "run --windows=0": "windows must be positive",
        "run --split=test": "test",
        "run --dataset=data/sogn": "data/sogn",
        "run --lang=xx": "There is no language",
    }.items():
        status, out, err = evaluated(*words.split())
        assert (status, out) == (2, "")
        assert part in err
        assert "nanoscope: unexpected" not in err


@pytest.mark.slow
def test_ctrl_c_says_how_far_it_got(runs: Path, tmp_path: Path, child_environment: dict[str, str]) -> None:
    (tmp_path / "long.txt").write_text(SONG * 600, "utf-8")
    command = [sys.executable, "-m", "nanoscope", "eval", "run", f"--dataset={tmp_path / 'long.txt'}", "--device=cpu"]
    process = subprocess.Popen(
        command, cwd=runs, env=child_environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:  # progress, after two seconds
        if line.startswith("run: "):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted: run was measured in the first" in out
    assert "Traceback" not in err
