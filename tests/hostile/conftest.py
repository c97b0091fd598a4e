"""What every hostile file must get: one clear message, in bounded time and memory, and none of its code run."""

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

LIMIT_CPU_SECONDS = 20  # what has no bound would take hours
LIMIT_SECONDS = 300  # for what waits instead of working

Refuses = Callable[..., str]


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fails if the block takes too long, by its own CPU time: the machine may be busy with other work."""

    def ring(number: int, frame: object) -> None:
        raise AssertionError(f"took too long: {signal.Signals(number).name}")

    if not hasattr(signal, "setitimer"):
        yield
        return
    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, LIMIT_CPU_SECONDS),
        (signal.SIGALRM, signal.ITIMER_REAL, LIMIT_SECONDS),
    )
    before = {number: signal.signal(number, ring) for number, _, _ in timers}
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, timer, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


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
