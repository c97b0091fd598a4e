"""Small real runs of other trainers, as they print them today. `make test` skips them: `make trainers`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Run

PACKAGES = os.environ.get("NANOSCOPE_TRAINERS", "")  # the folder they were installed into
pytestmark = pytest.mark.skipif(not PACKAGES, reason="run `make trainers`")


def trained(script: str, argument: str, folder: Path) -> Run:
    """Train, and read what the console showed."""
    console = folder / "console.log"
    with console.open("wb") as file:
        command = [sys.executable, str(Path(__file__).with_name(script)), argument]
        environment = {**os.environ, "PYTHONPATH": PACKAGES, "HF_HUB_OFFLINE": "1"}
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=environment, check=True)
    return only_run(console)


def only_run(path: Path) -> Run:
    (run,) = read_log(str(path)).runs
    return run


@pytest.mark.parametrize("verbose", ["1", "2"])
def test_keras(tmp_path, verbose) -> None:
    run = trained("keras_run.py", verbose, tmp_path)

    assert run.unit == "epoch"
    assert list(run.steps.step) == [1, 2, 3, 4]
    assert run.steps.loss[0] > run.steps.loss[-1] > 0
    assert len(run.evals) == 4
    assert run.total_steps == 4


def test_lightning(tmp_path) -> None:
    run = trained("lightning_run.py", str(tmp_path), tmp_path)
    metrics = only_run(next(tmp_path.rglob("metrics.csv")))

    assert run.said_finished
    assert run.last_step == 60
    assert run.evals[-1].val == pytest.approx(metrics.evals[-1].val, abs=0.001)
    assert list(metrics.steps.step) == list(range(4, 60, 5))
    assert [e.step for e in metrics.evals] == [19, 39, 59]


def test_hugging_face(tmp_path) -> None:
    run = trained("huggingface_run.py", str(tmp_path), tmp_path)
    state = only_run(tmp_path / "checkpoint-60" / "trainer_state.json")

    for each in (run, state):
        assert list(each.steps.step) == list(range(5, 65, 5))
        assert [e.step for e in each.evals] == [20, 40, 60]
    assert run.said_finished
    assert run.total_steps == 60
    assert run.steps.time_s[-1] > 0
