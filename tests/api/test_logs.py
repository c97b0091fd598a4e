"""`nanoscope.read`: the runs of a log; `nanoscope.frame`: DataFrames."""

import math
import sys
from pathlib import Path

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


def test_a_log_has_runs_with_steps_and_evaluations(log: nanoscope.Log) -> None:
    (run,) = log.runs
    assert log.format == "nanogpt"
    assert list(run.steps.step) == [0, 10, 20]
    assert list(run.steps.loss) == [4.25, math.inf, 3.05]  # inf: printed, but not finite
    assert [(each.step, each.val, each.train_loss) for each in run.evals] == [(0, 4.3, 4.2), (20, 3.1, 3.0)]
    assert nanoscope.read(LOG).runs[0].evals[-1].val == 3.1  # a pasted log
    with pytest.raises(nanoscope.JobError, match="There is no file"):
        nanoscope.read("missing.log")


def test_steps_evaluations_and_runs_are_data_frames(log: nanoscope.Log, small_run: Path) -> None:
    pytest.importorskip("pandas")
    steps, evals = nanoscope.frame(log.runs[0].steps), nanoscope.frame(log.runs[0].evals)
    assert steps.loc[20, "loss"] == 3.05
    assert steps["lr"].isna().all()  # not printed
    assert evals.loc[20, "val"] == 3.1
    runs = nanoscope.frame(nanoscope.list_runs(small_run.parent))
    assert (runs.loc["run", "state"], runs.loc["run", "step"], runs.loc["run", "n_embd"]) == ("finished", 2, 16)


def test_without_pandas_frame_says_what_to_install(log: nanoscope.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nanoscope.UsageError, match="pip install pandas"):
        nanoscope.frame(log.runs[0].steps)


def test_a_run_of_nanoscope_is_read_with_its_settings(small_run: Path) -> None:
    (run,) = nanoscope.read(nanoscope.Run(small_run)).runs
    assert (run.config["max_iters"], run.config["n_embd"]) == (2, 16)
    assert run.said_finished
    assert (run.evals[-1].stderr or 0) > 0
