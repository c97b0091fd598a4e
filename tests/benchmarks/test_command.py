"""`python -m benchmarks.nanogpt`: what it accepts, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.nanogpt.__main__ import main
from benchmarks.nanogpt.rows import ROWS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_one_row_is_printed_for_programs_and_written_for_people(
    fake_nanogpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ROWS, "peak", lambda bench: {"peak_gflops_float32": 123.0})
    file = tmp_path / "out/RESULTS.md"
    words = ["--nanogpt", str(fake_nanogpt), "--only", "peak", "--repeats=1", "--json", "--markdown", str(file)]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["peak_gflops_float32"] == 123.0
    assert {"cpu", "threads", "torch", "python", "nanoscope", "platform"} <= result.keys()
    text = file.read_text("utf-8")
    assert "| matmul, float32, GFLOPS |  |  |  |  | 123 |" in text
    assert "`python -m benchmarks.nanogpt --nanogpt PATH --repeats 1 --only peak`" in text


def test_a_folder_that_is_not_a_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nanogpt", str(tmp_path)]) == 2
    assert "is not a checkout of nanoGPT: it has no model.py" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--only", "sampel"], ["--repeats=0"], ["--seeds=x"]])
def test_invalid_usage_is_rejected(words: list[str], fake_nanogpt: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--nanogpt", str(fake_nanogpt), *words])
    assert ended.value.code == 2


@pytest.mark.skipif(os.name == "nt", reason="Windows can't send SIGINT to one process")
def test_ctrl_c_ends_the_children_too(child_environment: dict[str, str], fake_nanogpt: Path) -> None:
    words = ["--nanogpt", str(fake_nanogpt), "--only", "sample", "--repeats=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.nanogpt", *words],
        cwd=ROOT, env=child_environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "turn 1 of 1, nanoscope" not in (line := process.stderr.readline()):
        assert line, "ended too early"
    while not (children := psutil.Process(process.pid).children(recursive=True)):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=300)
    assert process.returncode == 130
    assert complaints.endswith("interrupted\n")
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
