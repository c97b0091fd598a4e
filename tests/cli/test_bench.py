"""`nanoscope bench`: what it accepts, and what it prints for people and for programs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_everything_is_measured(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("bench", "--device=cpu", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"cpu", "threads", "platform", "python", "torch", "nanoscope", "device_name"} <= result.keys()
    assert {"peak_float32_gflops", "step_4x128_ms", "step_12x768_mfu"} <= result.keys()
    assert "[1/6] matmul, float32" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_invalid_usage_is_rejected(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("bench", "--nanogpt", "nowhere", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--nanogpt" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows can't send SIGINT to one process")
def test_ctrl_c_prints_what_has_been_measured_so_far(child_environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanoscope", "bench", "--device=cpu"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=child_environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while "training step, 6×384" not in (line := process.stderr.readline()):
        assert line, "ended too early"
    process.send_signal(signal.SIGINT)
    printed, complaints = process.communicate(timeout=300)
    assert process.returncode == 130
    assert complaints.endswith("nanoscope: interrupted\n")
    _, *lines = printed.splitlines()
    assert [line.split(",")[0] for line in lines] == ["matmul"] * 3 + ["training step"]
    assert "tokens/s" in lines[-1]
