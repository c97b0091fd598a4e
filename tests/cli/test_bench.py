"""`nanoscope bench`: what is typed, and what is printed for people and for programs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nanoscope.bench.rows import ROWS


def test_one_row_is_measured_for_programs_and_written_for_people(nanoscope, tmp_path: Path) -> None:
    words = ("--only", "peak", "--repeats=1", "--json", "--markdown", "out/RESULTS.md")
    done = nanoscope("bench", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("peak: about ")
    result = json.loads(done.stdout)
    assert result["peak_gflops_float32"] > 0
    assert {"cpu", "threads", "torch", "python", "nanoscope", "platform"} <= result.keys()
    assert not any(isinstance(value, dict) for value in result.values())
    text = (tmp_path / "out/RESULTS.md").read_text("utf-8")
    assert "matmul, float32, GFLOPS" in text
    assert "`nanoscope bench --repeats 1 --only peak`" in text
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "step", "sampel"], "there is no row 'sampel'; did you mean sample?"),
        (["--nanogpt", "nowhere"], "nowhere is no checkout of nanoGPT: it has no model.py"),
        (["--repeats=0"], "repeats and seeds must be positive"),
        (["--bogus"], "--bogus"),
    ],
)
def test_what_cannot_be_meant_is_told_at_once(words: list[str], told: str, nanoscope, tmp_path: Path) -> None:
    done = nanoscope("bench", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nanoscope: ")
    assert told in done.stderr


def test_the_help_names_every_row_and_the_keys(nanoscope, tmp_path: Path) -> None:
    shown = nanoscope("bench", "--help", cwd=tmp_path).stdout
    assert all(name in shown for name in ROWS)
    for key in ("KEY_ratio_low", "peak_gflops_float32", "checkpoint_held_up_share", "neighbour_step_ratio"):
        assert key in shown


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_the_children_too(child_environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanoscope", "bench", "--only", "sample", "--repeats=1"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=child_environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    while "turn 1 of 1" not in process.stderr.readline():
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    while not children:
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert process.returncode == 130
    assert complaints.endswith("nanoscope: interrupted\n")
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
