"""`nanoscope.train`, `nanoscope.Run` and `nanoscope.list_runs`."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import nanoscope
from conftest import DatasetFactory

TINY: dict[str, Any] = {
    "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 32, "batch_size": 4, "eval_iters": 1, "eval_interval": 10,
    "max_iters": 20, "device": "cpu", "compile": False,
}  # fmt: skip
# Prints each line at once, and trains until it is stopped.
ENDLESS = f"""
import signal, nanoscope
before = signal.getsignal(signal.SIGINT)
run = nanoscope.train("laptop", dataset="data/song", out_dir="run", **{TINY | {"max_iters": 10**6}})
print("returned", run.state, run.step > 0, signal.getsignal(signal.SIGINT) is before, flush=True)
run = run.resume(max_iters=run.step + 5)
print("then", run.state, flush=True)
"""


@pytest.fixture
def data(small_dataset: DatasetFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return small_dataset()


@pytest.mark.slow
def test_training_returns_a_run_that_knows_how_it_went(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = nanoscope.train("laptop", dataset=data, **TINY)
    assert (run.folder, run.state, run.step, run.summary.total) == (Path("runs/laptop-song"), "finished", 20, 20)
    assert run.best_val_loss == pytest.approx(min(each.val for each in nanoscope.read(run).runs[0].evals))
    assert (run.config.n_embd, run.config.max_iters) == (16, 20)
    assert "finished 20 iterations" in capsys.readouterr().out
    assert run.explain(lang="en").analysis.progress.finished
    assert repr(run).startswith("<Run runs/laptop-song: finished, step 20 of 20, best val loss ")


@pytest.mark.slow
def test_a_run_is_resumed_with_other_settings(data: Path) -> None:
    run = nanoscope.train("laptop", dataset=data, **TINY).resume(max_iters=30)
    assert (run.step, run.config.max_iters, nanoscope.read(run).runs[0].resumed_at) == (30, 30, [20])
    assert run.resume().step == 30  # nothing is left to train
    assert nanoscope.list_runs()[0].folder == run.folder


def test_a_wrong_setting_raises_before_anything_is_created(data: Path) -> None:
    with pytest.raises(nanoscope.UsageError, match="Did you mean --max_iters"):
        nanoscope.train("laptop", dataset=data, max_iter=5)
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_run_that_fails_raises_a_job_error(data: Path) -> None:
    with pytest.raises(nanoscope.JobError, match="loss is not finite"):
        nanoscope.train("laptop", dataset=data, **TINY, learning_rate=1e30, grad_clip=0)


@pytest.mark.slow
def test_training_works_in_a_thread(data: Path) -> None:
    runs: list[nanoscope.Run] = []
    thread = threading.Thread(target=lambda: runs.append(nanoscope.train("laptop", dataset=data, **TINY)))
    thread.start()
    thread.join()
    assert [run.state for run in runs] == ["finished"]


def stopped_by(number: int, cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit status and output of a script whose training got a signal."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 10"):
            process.send_signal(number)
            break
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't send Ctrl-C to one process")
def test_ctrl_c_saves_and_returns_the_run_and_the_process_goes_on(
    data: Path, tmp_path: Path, child_environment: dict[str, str]
) -> None:
    status, out = stopped_by(signal.SIGINT, tmp_path, child_environment)
    assert "returned stopped True True" in out
    assert "then finished" in out
    assert status == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_request_to_terminate_saves_and_ends_the_process(
    data: Path, tmp_path: Path, child_environment: dict[str, str]
) -> None:
    status, out = stopped_by(signal.SIGTERM, tmp_path, child_environment)
    assert status == -signal.SIGTERM
    assert "returned" not in out
    assert nanoscope.Run("run").state == "stopped"
    assert (tmp_path / "run/checkpoints/last").is_file()


@pytest.mark.slow
def test_a_sweep_returns_its_runs_the_best_first_and_a_report_shows_them(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = TINY | {"max_iters": 3, "eval_interval": 3}
    runs = nanoscope.sweep("laptop", dataset=data, learning_rate=[1e-3, 1e-5], out_dir="both", **settings)
    assert {run.config.learning_rate for run in runs} == {1e-3, 1e-5}
    losses = [run.best_val_loss or 0 for run in runs]
    assert losses == sorted(losses)
    page = nanoscope.report(*runs, out="page.html", lang="ar")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert nanoscope.report("both") == Path("both/report.html")
    assert capsys.readouterr().err.count("\n") < 20


def test_only_a_run_of_ours_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("iter 0: loss 4.0, time 1.00ms\n", "utf-8")
    for run in (tmp_path / "train.log", "missing"):
        with pytest.raises(nanoscope.JobError, match="is not a run of nanoscope"):
            nanoscope.try_(run)
    with pytest.raises(nanoscope.UsageError, match="must be above 0"):
        nanoscope.try_(tmp_path, minutes=0)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nanoscope.JobError, match="is not a run"):
        nanoscope.Run(tmp_path)
    with pytest.raises(nanoscope.JobError, match="There is no folder"):
        nanoscope.list_runs(tmp_path / "missing")
    assert nanoscope.list_runs(tmp_path) == []


@pytest.mark.slow
def test_text_is_prepared_and_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("verse.txt").write_text("row, row, row your boat\n" * 200, "utf-8")
    data = nanoscope.prepare("verse.txt", tokenizer="char")
    assert data == Path("data/verse-char")
    assert nanoscope.train("laptop", dataset=data, **TINY).state == "finished"
    with pytest.raises(nanoscope.UsageError, match="Nothing to prepare"):
        nanoscope.prepare()
