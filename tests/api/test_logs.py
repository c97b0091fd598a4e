"""`nanoscope.read`: a log as arrays and DataFrames."""

import sys
from pathlib import Path

import numpy as np
import pytest

import nanoscope

LOG = """\
step 0: train loss 4.2000, val loss 4.3000
iter 0: loss 4.2500, time 900.00ms, mfu -100.00%
iter 10: loss nan, time 50.00ms, mfu 2.00%
step 20: train loss 3.0000, val loss 3.1000
iter 20: loss 3.0500, time 60.00ms, mfu 2.50%
"""


@pytest.fixture
def log(tmp_path: Path) -> nanoscope.Log:
    (tmp_path / "train.log").write_text(LOG, "utf-8")
    return nanoscope.read(tmp_path / "train.log")


def test_the_steps_of_a_log_are_arrays(log: nanoscope.Log) -> None:
    (run,) = log.runs
    assert log.format == "nanogpt"
    assert run.steps.step.tolist() == [0, 10, 20]
    assert run.steps.loss.tolist() == [4.25, np.inf, 3.05]  # inf: printed, but not finite
    assert run.steps.seconds.tolist() == [0.9, 0.05, 0.06]
    assert run.steps.mfu[-1] == pytest.approx(0.025)
    assert np.isnan(run.steps.lr).all()  # not printed


def test_the_evaluations_of_a_log_are_arrays(log: nanoscope.Log) -> None:
    evals = log[0].evals
    assert (evals.step.tolist(), evals.val_loss.tolist(), evals.train_loss.tolist()) == (
        [0, 20],
        [4.3, 3.1],
        [4.2, 3.0],
    )
    assert np.isnan(evals.val_stderr).all()
    assert len(evals) == 2


def test_steps_and_evaluations_are_data_frames_by_step(log: nanoscope.Log) -> None:
    pandas = pytest.importorskip("pandas")
    steps, evals = log[0].steps.frame(), log[0].evals.frame()
    assert isinstance(steps, pandas.DataFrame)
    assert steps.loc[20, "loss"] == 3.05
    assert list(evals.columns) == ["val_loss", "val_stderr", "train_loss", "seconds"]


def test_without_pandas_frame_says_what_to_install(log: nanoscope.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nanoscope.UsageError, match="pip install pandas"):
        log[0].steps.frame()


def test_a_pasted_log_is_read_as_it_is() -> None:
    assert nanoscope.read(LOG)[0].evals.val_loss[-1] == 3.1


def test_a_run_of_nanoscope_is_read_with_its_settings(small_run: Path) -> None:
    (run,) = nanoscope.read(nanoscope.Run(small_run))
    assert (run.config["max_iters"], run.config["n_embd"]) == (2, 16)
    assert run.finished
    assert run.evals.val_stderr[-1] > 0
    assert repr(run.evals) == "Evals(1: step, val_loss, val_stderr, train_loss, seconds)"


def test_a_file_that_is_missing_is_a_job_error(tmp_path: Path) -> None:
    with pytest.raises(nanoscope.JobError, match="There is no file"):
        nanoscope.read(tmp_path / "missing.log")
