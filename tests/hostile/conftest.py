"""What every hostile file must meet: one clear message, in a bounded time and memory, and nothing run."""

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from nanoscope import cli

LIMIT_SECONDS = 20  # generous: the machine may be busy; what has no bound would take hours

Refuses = Callable[..., str]


@contextlib.contextmanager
def bounded(seconds: int = LIMIT_SECONDS) -> Iterator[None]:
    """What takes longer fails, where the system has an alarm for it."""

    def ring(*_: object) -> None:
        raise AssertionError(f"took more than {seconds} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def refuses(tmp_path: Path) -> Refuses:
    """Run a command in tmp_path that must fail with one clear message, which is returned."""

    def run(*words: str | Path, status: int = 1) -> str:
        output = io.StringIO()
        with bounded(), contextlib.chdir(tmp_path), redirect_stdout(output), redirect_stderr(output):
            found = cli.run([str(word) for word in words])
        text = output.getvalue()
        assert found == status, text
        assert len([line for line in text.splitlines() if line.startswith("nanoscope: ")]) == 1
        assert "nanoscope: unexpected" not in text
        assert "Traceback" not in text
        assert not (tmp_path / "MARKER").exists()
        return text

    return run


PEAK = """
def peak():  # not ru_maxrss, which a process has from the one that started it
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
"""


@pytest.fixture
def extra_megabytes(child_environment: dict[str, str], tmp_path: Path) -> Callable[[str, str], float]:
    """The memory that `call` takes for a hostile file, in a process of its own, beyond what `imports` took."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells a process's own peak")

    def measure(imports: str, call: str) -> float:
        program = (
            f"{PEAK}\nfrom nanoscope.errors import JobError, UsageError\n{imports}\nbefore = peak()\n"
            f"try:\n    {call}\nexcept (JobError, UsageError):\n    print(peak() - before)\n"
            "else:\n    raise SystemExit('it was not refused')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path, env=child_environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    return measure
