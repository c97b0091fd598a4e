"""Which runs a sweep consists of, and sweeps of tiny runs: real processes, real signals."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from nanoscope.errors import UsageError
from nanoscope.runs.events import End, NonFinite, Start
from nanoscope.training.sweep import Sweep, plan_sweep
from small_runs import TINY, Folder
from written_runs import write_events

TRAINED = [*TINY, "--recipe=classic", "--out_dir=runs/rates", "--max_iters=40"]
SLOW = [*TRAINED, "--max_iters=100000", "--eval_interval=50"]
slow = pytest.mark.slow
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(sweep: Sweep) -> list[str]:
    return [run.name for run in sweep.runs]


def test_settings_with_several_values_are_combined() -> None:
    sweep = plan_sweep(["laptop", "--learning_rate=1e-3,1e-2", "--max_iters=50", "--seed=1,2"])
    assert names(sweep) == ["lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2"]
    assert {run.config.max_iters for run in sweep.runs} == {50}
    assert sweep.folder == Path("runs/laptop-sweep")
    assert sweep.runs[2].arguments == ("laptop", "--learning_rate=1e-2", "--max_iters=50", "--seed=1")


def test_a_value_spelled_in_two_ways_is_one_run() -> None:
    assert names(plan_sweep(["--learning_rate=1e-3,0.001,2e-3"])) == ["lr=0.001", "lr=0.002"]


def test_a_flag_that_is_given_twice_counts_as_it_was_given_last() -> None:
    assert names(plan_sweep(["--seed=1", "--seed=3,4"])) == ["seed=3", "seed=4"]


def test_words_and_switches_can_be_varied() -> None:
    sweep = plan_sweep(["--order=random,epochs", "--decay_lr=True,False"])
    assert names(sweep)[:2] == ["order=random,decay_lr=True", "order=random,decay_lr=False"]


def test_a_text_is_split_only_in_brackets() -> None:
    assert names(plan_sweep(["--dataset=[data/a,data/b]"])) == ["dataset=a", "dataset=b"]
    assert {run.config.dataset for run in plan_sweep(["--dataset=a,b", "--seed=1,2"]).runs} == {"a,b"}


def test_names_are_safe_whatever_the_values_are() -> None:
    assert names(plan_sweep(["--dataset=[a b/c*?d,../../x;y]"])) == ["dataset=c-d", "dataset=x-y"]


def test_values_whose_names_would_be_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match="two runs would be called dataset=a"):
        plan_sweep(["--dataset=[one/a,two/a]"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["laptop"], "no setting has several values"),
        (["--learning_rate=1e-4..1e-2"], "expected a number"),
        (["--seed=1,2", "--random", "3"], "unknown flag --random"),
        (["--seed=1,2", "--overwrite=True"], "a sweep deletes nothing"),
        (["--seed=1,2", "--init_from=resume"], "the same command again resumes it"),
    ],
)
def test_a_mistake_is_answered_with_the_way_out(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        plan_sweep(words)


def test_all_mistakes_of_a_combination_are_reported_together() -> None:
    with pytest.raises(UsageError) as caught:
        plan_sweep(["--learning_rate=-1,1e-3", "--n_head=3", "--lerning_rate=1"])
    for part in ("got -1.0", "Did you mean --learning_rate?"):
        assert str(caught.value).count(part) == 1, part


# --- the runs in the folder ---


def statuses(sweep: Sweep) -> list[str]:
    return [run.look() for run in sweep.runs]


def test_the_same_sweep_is_continued_and_a_loss_that_was_not_finite_stays_failed(here: Path) -> None:
    sweep = plan_sweep(["--seed=1,2"])
    began = Start(nanoscope="0.1.0", config=asdict(sweep.runs[0].config))
    write_events(sweep.runs[0].folder, [began, NonFinite(step=3), End(reason="non_finite", step=3)])
    sweep.runs[1].reason = "out of memory"
    assert statuses(sweep) == ["failed", "failed"]
    again = plan_sweep(["--seed=1,2,3", "--log_interval=7"])
    assert statuses(again) == ["failed", "missing", "missing"]
    assert str(again.runs[0].reason) == "the loss is not finite"


def test_a_run_with_other_settings_is_not_taken_for_one_of_the_sweep(here: Path) -> None:
    sweep = plan_sweep(["--seed=1,2"])
    write_events(sweep.runs[0].folder, [Start(nanoscope="0.1.0", config=asdict(sweep.runs[0].config))])
    with pytest.raises(UsageError, match=r"seed=1 was trained with other settings: max_iters=500\nUse another"):
        plan_sweep(["--seed=1,2", "--max_iters=7"])


# --- training the runs ---


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
    assert "What was trained is saved. Train the rest: nanoscope sweep" in out
    ends = {path.parent.name: path.read_text("utf-8") for path in folder.path.glob("runs/rates/*/events.jsonl")}
    stopped = [run for run, events in ends.items() if '"reason":"interrupted"' in events]
    assert stopped

    command = shlex.split(next(line for line in out.splitlines() if "Train the rest: " in line).partition(": ")[2])
    out = folder.process(*command[1:])
    for run in stopped:
        assert folder.events(f"runs/rates/{run}", "resume")
        assert f"{run}: resuming at step " in out
    table = [line for line in out.splitlines() if line.startswith("lr=") and " ± " in line]
    assert [line.split(",")[0] for line in table] == ["lr=0.01", "lr=0.001", "lr=1e-05"]  # repeats in one row
    assert "With learning_rate=0.01: 2 repeats with other seeds" in " ".join(out.split())
    assert "6 of 6 runs finished" in out

    before = {path: path.stat().st_mtime_ns for path in folder.path.glob("runs/rates/*/events.jsonl")}
    assert len(before) == 6
    assert "6 of 6 runs finished" in folder.process(*command[1:])
    assert before == {path: path.stat().st_mtime_ns for path in before}


@slow
def test_a_run_that_fails_is_reported_and_the_others_are_trained(folder: Folder) -> None:
    words = [*TRAINED, "--learning_rate=1e18,1e-2", "--seed=1"]
    out = folder.process("sweep", *words, status=1)
    assert "[1/2] lr=1e+18: training\n[1/2] lr=1e+18: failed (" in out
    assert "[2/2] lr=0.01: training\n[2/2] lr=0.01: finished, best validation loss " in out
    assert "\nlr=1e+18: failed: the loss is not finite at iteration" in out
    assert "1 of 2 runs finished" in out
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
@posix
def test_after_a_kill_the_run_that_goes_on_without_its_sweep_is_left_alone(folder: Folder) -> None:
    words = [*SLOW, "--learning_rate=1e-3,1e-2"]
    write_events(folder.path / "runs/rates/lr=0.01", [Start(), End(reason="finished", step=1)])
    process = folder.start("sweep", *words)
    run = "runs/rates/lr=0.001"
    wait_for(lambda: steps_of(folder, run) > 60, process)
    orphan = json.loads((folder.path / run / "lock.json").read_text("utf-8"))["pid"]
    process.kill()
    process.communicate()
    try:
        out = folder.process("sweep", *words, status=1)
        assert "lr=0.001: failed: " in out
        assert f"is being trained by process {orphan}" in out
        assert "1 of 2 runs finished" in out
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


def test_a_dry_run_lists_the_runs_and_writes_nothing(folder: Folder) -> None:
    out = folder.run("sweep", *TRAINED, "--learning_rate=1e-3,1e-2", "--seed=1,2", "--dry_run")
    names = ["lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2"]
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("lr=")] == names
    assert not Path(folder.path / "runs").exists()
