"""A run can be resumed from any folder: its dataset is found."""

import contextlib
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


def test_a_helper_variable_of_nanogpts_config_is_noted_when_training_starts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = 'dataset = "data/song"\nmy_note = "x"\nmax_iters = 1\n'
    settings += (
        "n_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 32\nbatch_size = 4\neval_iters = 1\nwarmup_iters = 0\n"
    )
    (project / "train_mine.py").write_text(settings + 'device = "cpu"\ngradient_accumulation_steps = 1\n', "utf-8")
    with contextlib.chdir(project):
        assert run(["train", "train_mine.py"]) == 0
    assert "train_mine.py, line 2: my_note is not a setting, and was ignored" in capsys.readouterr().out
