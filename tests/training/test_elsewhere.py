"""A run can be resumed from any folder: its dataset is found."""

import shutil
from pathlib import Path

import pytest

from conftest import make_dataset
from nanoscope.cli import run

pytestmark = pytest.mark.slow


@pytest.fixture
def project(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a small run and its dataset, seen from a folder beside it."""
    shutil.copytree(small_run.parent, tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def test_a_run_is_resumed_from_another_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "../project/run", "--init_from=resume", "--max_iters=3"]) == 0
    printed = capsys.readouterr().out
    assert f"data: {(project / 'data/song').resolve()}" in printed
    assert "is not what the run was trained on" not in printed


def test_a_run_named_by_its_whole_path_is_resumed_again_and_again(project: Path) -> None:
    whole = str((project / "run").resolve())
    for iterations in (3, 4):  # the first resume records the whole path as the run's folder
        assert run(["train", whole, "--init_from=resume", f"--max_iters={iterations}"]) == 0


def test_other_data_at_the_place_of_the_dataset_is_noticed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project / "run/config.toml"
    lines = [line for line in config.read_text("utf-8").splitlines() if not line.startswith("data_folder")]
    config.write_text("\n".join([*lines, 'data_folder = "gone"']), "utf-8")
    text = (project / "song.txt").read_text("utf-8")
    shutil.rmtree(project / "data")
    make_dataset(project, text[::-1])  # the same characters, so the same tokenizer
    assert run(["train", "../project/run", "--init_from=resume", "--max_iters=3"]) == 0
    assert "is not what the run was trained on until now" in capsys.readouterr().out


def test_a_dataset_chosen_on_resume_is_used(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (project / "song.txt").read_text("utf-8")
    make_dataset(Path(), text[::-1], name="other")
    assert run(["train", "../project/run", "--init_from=resume", "--max_iters=3", "--dataset=other"]) == 0
    assert "data: data/other" in capsys.readouterr().out.replace("\\", "/")
