"""`nanoscope bench`: what it accepts, and what it prints for people and for programs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_only_what_is_asked_for_is_measured(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("bench", "--only", "peak", "--device=cpu", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"cpu", "threads", "platform", "python", "torch", "nanoscope", "device_name"} <= result.keys()
    assert "peak_float32_gflops" in result
    assert not [key for key in result if key.startswith(("step", "evaluation", "sample"))]
    assert "[1/3] matmul, float32" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "step", "sampel"], "invalid value for --only: 'sampel'. Did you mean sample?"),
        (["--nanogpt", "nowhere"], "--nanogpt"),
    ],
)
def test_invalid_usage_is_rejected(words: list[str], message: str, nanoscope, tmp_path: Path) -> None:
    done = nanoscope("bench", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows can't send SIGINT to one process")
def test_ctrl_c_prints_what_has_been_measured_so_far(child_environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanoscope", "bench", "--only", "peak", "step", "--device=cpu"]
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
