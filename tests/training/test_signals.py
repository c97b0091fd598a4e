"""Signals, and terminals and pipes that go away during a run."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_runs import TINY, Folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals and terminals"),
]

LONG = [*TINY, "--max_iters=100000", "--eval_interval=1000"]


def start_in_terminal(folder: Folder) -> tuple[subprocess.Popen[bytes], int]:
    """A run that leads a session on a terminal of its own, and our end of that terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
         "os.execv(sys.executable, [sys.executable, '-m', 'nanoscope', *sys.argv[1:]])", "train", *LONG],
        cwd=folder.path, env={**folder.environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def drain(terminal: int) -> bytes:
    """What is on the terminal by now: a program that nobody reads from would have to wait."""
    os.set_blocking(terminal, False)
    try:
        return os.read(terminal, 1 << 20)
    except (BlockingIOError, OSError):
        return b""


def test_a_closed_terminal_ends_the_run_with_everything_saved(folder: Folder) -> None:
    process, terminal = start_in_terminal(folder)
    deadline = time.monotonic() + 120
    while not (folder.path / "run/console.log").is_file() or "iter 30:" not in (
        folder.path / "run/console.log"
    ).read_text("utf-8"):
        drain(terminal)
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.close(terminal)
    assert process.wait(timeout=60) == 128 + signal.SIGHUP
    end = folder.events(kind="end")[-1]
    assert end["reason"] == "interrupted"
    assert folder.weights(end["step"])


def test_hanging_up_twice_is_hanging_up_once(folder: Folder) -> None:
    """The second time comes when everything is saved and the process is about to exit."""
    code = (
        "import atexit, sys\n"
        "from nanoscope import cli\n"
        "def last_words():\n"
        "    print('exiting', flush=True)\n"
        "    sys.stdin.readline()\n"
        "atexit.register(last_words)\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", *LONG], cwd=folder.path, env=folder.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("iter 30:"):
            process.send_signal(signal.SIGHUP)
        elif line == "exiting\n":
            process.send_signal(signal.SIGHUP)
            break
    process.communicate("\n", timeout=60)
    assert process.returncode == 128 + signal.SIGHUP
    assert folder.weights(folder.events(kind="end")[-1]["step"])


def test_a_second_ctrl_c_quits_at_once_and_leaves_whole_what_is_on_disk(folder: Folder) -> None:
    """The first finds training in a step that never ends, so that only the second can end it."""
    code = (
        "import sys, time\n"
        "from nanoscope import cli\n"
        "from nanoscope.training import trainer\n"
        "step = trainer.optimizer_step\n"
        "def stuck(session, batches, lr, stop):\n"
        "    if session.state.step == 25:\n"
        "        print('stuck', file=sys.stderr, flush=True)\n"
        "        time.sleep(600)\n"
        "    return step(session, batches, lr, stop)\n"
        "trainer.optimizer_step = stuck\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", *TINY, "--max_iters=60"], cwd=folder.path, env=folder.environment,
        text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    while "stuck" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    while "Ctrl-C again" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    folder.train("--out_dir=whole", "--max_iters=60")
    assert "resuming at iteration 20" in folder.train("--init_from=resume", "--max_iters=60")
    assert folder.losses() == folder.losses("whole")
    assert folder.weights(60) == folder.weights(60, "whole")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_under_the_redirected_output_does_not_end_the_run(folder: Folder) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope", "train", *TINY], cwd=folder.path, env=folder.environment,
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert err.count("can't write to standard output: No space left on device") == 1
    assert "finished 20 iterations" in (folder.path / "run/console.log").read_text("utf-8")
