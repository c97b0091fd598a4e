"""Sweeps of tiny runs: real processes, real signals."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nanoscope.runs.events import End, Eval, Start
from nanoscope.training.sweep import environments
from small_runs import TINY, Folder
from written_runs import write_events

TRAINED = [*TINY, "--recipe=classic", "--out_dir=runs/rates", "--max_iters=40"]
SLOW = [*TRAINED, "--max_iters=100000", "--eval_interval=50"]
slow = pytest.mark.slow
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def wait_for(condition: Callable[[], object], process: "subprocess.Popen[str] | None" = None) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def steps_of(folder: Folder, run: str) -> int:
    path = folder.path / run / "events.jsonl"
    return path.read_text("utf-8").count('"event":"iter"') if path.exists() else 0


def sweep_json(folder: Folder, *words: str, status: int = 0) -> dict:
    process = folder.start("sweep", *words, "--json")
    out, err = process.communicate(timeout=240)
    assert process.returncode == status, err
    return json.loads(out)


@slow
@posix
def test_a_sweep_that_is_interrupted_is_continued_by_the_printed_command(folder: Folder) -> None:
    words = [*TRAINED, "--max_iters=400", "--eval_interval=100", "--learning_rate=1e-5,1e-3,1e-2", "--seed=1,2"]
    process = folder.start("sweep", *words, "--jobs=2")
    first = [f"runs/rates/lr=1e-05,seed={seed}" for seed in (1, 2)]
    wait_for(lambda: all(steps_of(folder, run) > 20 for run in first), process)  # one that had no step begins anew
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert "of 6 runs finished; what was trained is saved. Resume with:" in out
    ends = {path.parent.name: path.read_text("utf-8") for path in folder.path.glob("runs/rates/*/events.jsonl")}
    stopped = [run for run, events in ends.items() if '"reason":"interrupted"' in events]
    assert stopped

    command = shlex.split(next(line for line in out.splitlines() if line.startswith("  nanoscope sweep")))
    out = folder.process(*command[1:])
    for run in stopped:
        assert folder.events(f"runs/rates/{run}", "resume")
    table = [line for line in out.splitlines() if line.startswith("learning_rate=")]
    assert [line.split()[:2] for line in table] == [
        ["learning_rate=0.01", "2"], ["learning_rate=0.001", "2"], ["learning_rate=1e-05", "2"],
    ]  # fmt: skip
    assert all("±" in line for line in table)
    assert "6 of 6 runs finished" in out

    before = {path: path.stat().st_mtime_ns for path in folder.path.glob("runs/rates/*/events.jsonl")}
    assert len(before) == 6
    assert "6 finished" in folder.process(*command[1:])
    assert before == {path: path.stat().st_mtime_ns for path in before}


@slow
def test_a_run_that_fails_is_reported_and_the_others_are_trained(folder: Folder) -> None:
    words = [*TRAINED, "--learning_rate=1e18,1e-2", "--seed=1"]
    out = folder.process("sweep", *words, status=1)
    assert "lr=1e+18: failed: the loss is not finite at iteration" in out
    assert "1 of 2 runs finished" in out
    assert "the loss is not finite" in (folder.path / "runs/rates/sweep.toml").read_text("utf-8")
    events = (folder.path / "runs/rates/lr=1e+18/events.jsonl").read_text("utf-8")
    result = sweep_json(folder, *words, status=1)
    assert [run["status"] for run in result["runs"]] == ["failed", "finished"]
    assert result["ranking"] == ["lr=0.01"]
    assert (folder.path / "runs/rates/lr=1e+18/events.jsonl").read_text("utf-8") == events  # it would fail again


@slow
def test_a_process_that_dies_is_tried_again(folder: Folder) -> None:
    """A folder that cannot be made stands for all that has nothing to do with the numbers."""
    (folder.path / "runs/rates").mkdir(parents=True)
    (folder.path / "runs/rates/lr=0.01").write_text("in the way", "utf-8")
    words = [*TRAINED, "--learning_rate=1e-2,2e-2"]
    result = sweep_json(folder, *words, status=1)
    assert [run["status"] for run in result["runs"]] == ["failed", "finished"]
    assert "lr=0.01 cannot be written" in result["runs"][0]["reason"]
    (folder.path / "runs/rates/lr=0.01").unlink()
    assert [run["status"] for run in sweep_json(folder, *words)["runs"]] == ["finished", "finished"]


@slow
def test_a_hopeless_run_is_stopped_if_that_was_asked_for_and_can_be_resumed(folder: Folder) -> None:
    words = [*TRAINED, "--learning_rate=1e-2,2e-2,3e-2,4e-2,1e-6", "--max_iters=600", "--batch_size=32"]
    for rate in ("0.01", "0.02", "0.03", "0.04"):  # as if they had been trained before
        evals = [Eval(step=step, val_loss=1.0) for step in range(10, 601, 10)]
        end = End(reason="finished", step=600, best_val_loss=1.0)
        write_events(folder.path / f"runs/rates/lr={rate}", [Start(), *evals, end])
    bad = "runs/rates/lr=1e-06"
    result = sweep_json(folder, *words, "--stop_hopeless")
    assert [run["status"] for run in result["runs"]] == [*["finished"] * 4, "hopeless"]
    assert folder.events(bad, "end")[-1]["reason"] == "interrupted"
    said = "stopped by the sweep: at step"
    assert said in folder.events(bad, "note")[-1]["text"]
    assert said in (folder.path / bad / "console.log").read_text("utf-8")
    assert sweep_json(folder, *words, "--stop_hopeless")["runs"][4]["status"] == "hopeless"
    assert sweep_json(folder, *words)["runs"][4]["status"] == "finished"
    assert folder.events(bad, "resume")


@slow
@posix
def test_after_a_kill_the_sweep_waits_for_the_run_that_goes_on_without_it(folder: Folder) -> None:
    words = [*SLOW, "--learning_rate=1e-3,1e-2"]
    write_events(folder.path / "runs/rates/lr=0.01", [Start(), End(reason="finished", step=1)])
    process = folder.start("sweep", *words)
    run = "runs/rates/lr=0.001"
    wait_for(lambda: steps_of(folder, run) > 60, process)
    orphan = json.loads((folder.path / run / "lock.json").read_text("utf-8"))["pid"]
    process.kill()
    process.communicate()
    try:
        again = folder.start("sweep", *words)
        assert again.stdout is not None
        assert "waiting for lr=0.001, which another process trains\n" in iter(again.stdout.readline, "")
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=240)
        assert again.returncode == 128 + signal.SIGTERM
        assert len(folder.events(run, "start")) == 1
    finally:
        os.kill(orphan, signal.SIGKILL)


@slow
@posix
def test_two_sweeps_do_not_train_in_one_folder(folder: Folder) -> None:
    words = [*SLOW, "--learning_rate=1e-3,1e-2"]
    process = folder.start("sweep", *words)
    wait_for(lambda: steps_of(folder, "runs/rates/lr=0.001"), process)
    assert "is being trained by process" in folder.process("sweep", *words, status=2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGTERM


@slow
@posix
def test_output_that_nobody_reads_stops_the_sweep_with_everything_saved(folder: Folder) -> None:
    words = [*SLOW, "--learning_rate=1e18,1e-3", "--jobs=2"]
    process = folder.start("sweep", *words)
    assert process.stdout is not None
    for _ in range(2):
        process.stdout.readline()
    process.stdout.close()  # the next line is about the run that fails
    assert process.wait(timeout=240) == 0
    assert not (folder.path / "runs/rates/lr=0.001/lock.json").exists()


def test_jobs_share_the_threads_or_have_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environments(1, ["auto"]) == [dict(os.environ)]
    threads = [each["OMP_NUM_THREADS"] for each in environments(64, ["cpu"])]
    assert threads == ["1"] * 64
    gpus = [each["CUDA_VISIBLE_DEVICES"] for each in environments(3, ["auto"], gpus=["0", "1"])]
    assert gpus == ["0", "1", "0"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [each["OMP_NUM_THREADS"] for each in environments(2, ["cpu"])] == ["3", "3"]


def test_a_dry_run_lists_the_runs_and_writes_nothing(folder: Folder) -> None:
    out = folder.run("sweep", *TRAINED, "--learning_rate=1e-3,1e-2", "--seed=1,2", "--dry_run")
    assert [line.split()[0] for line in out.splitlines()[2:]] == [
        "lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2",
    ]  # fmt: skip
    assert not Path(folder.path / "runs").exists()
