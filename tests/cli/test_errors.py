"""What a stranger types wrong: one clear message, the right exit status, and no run left behind."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import TINY_MODEL, DatasetFactory
from mistakes import FAILED_JOB, FILES, WRONG_USAGE
from nanoscope import cli


def test_a_mistake_gets_one_message_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for status, cases in ((2, WRONG_USAGE), (1, FAILED_JOB)):
        for words, part in cases.values():
            assert cli.run(words) == status, words
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("nanoscope: ")
            assert part in err
            assert "Traceback" not in err
            assert "nanoscope: unexpected" not in err
            assert {path.name for path in tmp_path.iterdir()} - {"data"} == set(FILES)
            assert list(tmp_path.glob("data/*/meta.json")) == []


def test_a_mistake_is_found_before_torch_is_loaded(child_environment: dict[str, str], tmp_path: Path) -> None:
    cases = [words for words, _ in (*WRONG_USAGE.values(), *FAILED_JOB.values()) if words[0] != "sample"]
    code = (
        f"import sys; from nanoscope.cli import run; [run(words) for words in {cases!r}]; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


class Person:
    """Someone at a prompt in a folder; in this process, so that torch is loaded once."""

    def __init__(self, folder: Path, output: pytest.CaptureFixture[str]) -> None:
        self.folder, self.output = folder, output

    def fails(self, status: int, *words: str) -> str:
        """What the failing command says, checked to be one message that leaves nothing like a run behind.

        What only shows when training reads its data leaves a folder, which the next run takes over: no checkpoint.
        """
        self.output.readouterr()
        assert cli.run(list(words)) == status
        out, err = self.output.readouterr()
        assert "Traceback" not in out + err
        assert "nanoscope: unexpected" not in err
        message = err[err.index("nanoscope: ") :]
        assert 1 <= len(message.splitlines()) <= 4
        assert not list(self.folder.glob("**/checkpoints/*"))
        assert not list(self.folder.glob("**/config.toml"))
        return message


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    monkeypatch.chdir(tmp_path)
    return Person(tmp_path, capsys)


TRAIN = ("train", "--dataset=data/song", *TINY_MODEL, "--max_iters=1", "--device=cpu")


def test_cuda_on_a_machine_without_it(person: Person, small_dataset: DatasetFactory) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    small_dataset()
    message = person.fails(2, *TRAIN, "--device=cuda")
    assert "device=cuda: this machine has no usable CUDA GPU" in message
    assert "--device=cpu" in message


def test_a_context_longer_than_the_data(person: Person, small_dataset: DatasetFactory) -> None:
    small_dataset()
    message = person.fails(1, *TRAIN, "--block_size=5000")
    assert "block_size=5000 is longer than the val split" in message
    assert "--block_size=" in message


def test_a_dataset_that_is_not_there_gets_a_suggestion(person: Person, small_dataset: DatasetFactory) -> None:
    small_dataset()
    assert "Did you mean song?" in person.fails(2, *TRAIN, "--dataset=sonk")


def test_a_text_file_given_as_a_dataset_is_explained(person: Person, small_dataset: DatasetFactory) -> None:
    small_dataset()
    assert "nanoscope prepare song.txt" in person.fails(2, *TRAIN, "--dataset=song.txt")


def test_ids_beyond_the_vocabulary_are_named_with_their_file(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "data/broken"
    folder.mkdir(parents=True)
    letters = dict(enumerate("abcdefgh"))
    meta = {"vocab_size": 8, "itos": letters, "stoi": {letter: number for number, letter in letters.items()}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))
    for name in ("train", "val"):
        (np.arange(4000, dtype="<u2") % 9).tofile(folder / f"{name}.bin")
    message = person.fails(1, *TRAIN, "--dataset=data/broken")
    assert "contains the token id 8, but the vocabulary ends at 7" in message
    assert ".bin" in message


def test_an_output_folder_that_cannot_be_made(person: Person, small_dataset: DatasetFactory, tmp_path: Path) -> None:
    small_dataset()
    (tmp_path / "file").write_text("in the way", "utf-8")
    for place in ("file", "file/run", "file/deep/run"):
        message = person.fails(1, *TRAIN, f"--out_dir={place}")
        assert "file cannot be written: File exists" in message
        assert "--out_dir=DIR" in message
        assert (tmp_path / "file").read_text("utf-8") == "in the way"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere; Windows has other rights")
def test_an_output_folder_that_is_read_only(person: Person, small_dataset: DatasetFactory, tmp_path: Path) -> None:
    small_dataset()
    (tmp_path / "locked").mkdir(mode=0o555)
    assert "cannot be written" in person.fails(1, *TRAIN, "--out_dir=locked/run")


def test_nothing_to_resume(person: Person, small_dataset: DatasetFactory) -> None:
    small_dataset()
    assert "nothing to resume" in person.fails(2, *TRAIN, "--out_dir=run", "--init_from=resume")


def test_weights_that_are_not_there(person: Person, small_dataset: DatasetFactory) -> None:
    small_dataset()
    for source in ("gpt3", "data/song", "missing/folder"):
        assert f"init_from={source}" in person.fails(2, *TRAIN, f"--init_from={source}")


def test_a_run_that_is_there_is_not_overwritten_unasked(
    small_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_run.parent)
    before = {path: path.stat().st_mtime_ns for path in small_run.rglob("*")}
    assert cli.run([*TRAIN, "--out_dir=run"]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in small_run.rglob("*")} == before
