"""`nanoscope tune` and `train --tune` with real processes, on a tiny model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nanoscope.child import ChildError
from nanoscope.config_sources import resolve
from nanoscope.planning.rig import Rig
from small_runs import TINY, Folder

TEXT = "the quick brown fox jumps over the lazy dog\n" * 200
NO_TIME = "0.01"  # minutes: enough to measure the settings as they are, and nothing else


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "tiny.txt").write_text(TEXT, "utf-8")
    folder = Folder(tmp_path)
    folder.run("prepare", "tiny.txt", "--out", "data/tiny", "--tokenizer=char")
    return folder


@pytest.mark.slow
def test_a_rig_measures_iterations_and_evaluations_and_says_why_it_ended(folder: Folder) -> None:
    words = ["laptop", *TINY, "--eval_batch_size=3", f"--dataset={folder.path / 'data/tiny'}"]
    rig = Rig(resolve(words).config)
    assert rig.facts.used["eval_batch_size"] == 3
    figures = rig.measure(0.01)
    assert 0 < figures.step < 10
    assert 0 < figures.window < figures.run
    rig.process.kill()
    with pytest.raises(ChildError, match="it does not fit into memory: the system ended the process"):
        rig.measure(0.01)
    rig.close()
    assert not rig.process.is_running()


@pytest.mark.slow
def test_tune_prints_one_document_and_writes_a_file_that_train_takes(folder: Folder) -> None:
    process = folder.start("tune", "laptop", *TINY, f"--minutes={NO_TIME}", "--json")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert (found["schema"], found["settings"]) == ("nanoscope.tune/3", {})
    assert "nothing could be compared" in found["summary"]
    assert "measuring the settings as they are" in err
    assert not (folder.path / "run").exists()
    folder.run("train", found["file"], "--max_iters=1", "--out_dir=again")


@pytest.mark.slow
def test_train_tunes_first_says_what_was_chosen_and_records_no_flag(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanoscope.planning.tuning.MINUTES", float(NO_TIME))
    out = folder.run("train", "laptop", *TINY, "--tune", "--max_iters=2")
    assert "tuned: nothing could be compared" in out
    assert "iter 1:" in out
    assert "\ntune" not in (folder.path / "run/config.toml").read_text("utf-8")
    resume = ["train", "run", "--init_from=resume", "--max_iters=3"]
    assert "a resumed run keeps its settings" in folder.run(*resume, "--tune", status=2)
    again = ["train", "laptop", *TINY, "--init_from=auto", "--max_iters=3"]
    assert "--tune is ignored: a resumed run keeps its settings" in folder.run(*again, "--tune")


def test_wrong_minutes_are_refused_before_anything_is_measured(folder: Folder) -> None:
    assert "--minutes=-1: must be above 0" in folder.run("tune", "--minutes=-1", status=2)
    assert "invalid value 'soon' for --tune: expected True or False" in folder.run("train", "--tune=soon", status=2)


def test_a_file_that_exists_is_refused_before_anything_is_measured(folder: Folder) -> None:
    (folder.path / "mine.toml").write_text("seed = 1\n", "utf-8")
    out = folder.run("tune", "quick", "--out=mine.toml", status=2)
    assert "mine.toml exists" in out


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_it_without_a_file_and_without_processes(folder: Folder) -> None:
    command = [sys.executable, "-m", "nanoscope", "tune", "laptop", *TINY, "--minutes=30"]
    process = subprocess.Popen(command, cwd=folder.path, env=folder.environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (children := psutil.Process(process.pid).children(recursive=True)) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert children
    assert not psutil.wait_procs(children, timeout=60)[1]
    assert not list(folder.path.glob("*.toml"))


def test_the_search_does_not_import_torch_so_that_training_can_still_choose_its_environment() -> None:
    code = "import sys, nanoscope.cli.tune, nanoscope.planning.tuning; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
