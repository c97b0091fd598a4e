"""Signals, and terminals and pipes that go away during a run."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_runs import TINY, TORCHRUN, Folder

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
        "from nanoscope.training.engine import Engine\n"
        "step = Engine.step\n"
        "def stuck(self, batches, number, *rest, **more):\n"
        "    if number == 25:\n"
        "        print('stuck', file=sys.stderr, flush=True)\n"
        "        time.sleep(600)\n"
        "    return step(self, batches, number, *rest, **more)\n"
        "Engine.step = stuck\n"
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


def run_code(folder: Folder, code: str, *words: str) -> tuple[int, str, str]:
    """Run the program after `code`, in a process of its own: its exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", f"import signal, sys\n{code}\nfrom nanoscope.__main__ import main\nmain()", *words],
        cwd=folder.path, env=folder.environment, text=True, capture_output=True, timeout=240,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def signal_during(number: signal.Signals, iteration: int, micro_batch: int, *, times: int = 1) -> str:
    """Code that makes a signal arrive as a micro-batch begins (the first is 0)."""
    return (
        "import time\n"
        "from nanoscope.training.run import Run\n"
        "progress = Run.progress\n"
        "def interrupting(self, stop, phase):\n"
        "    asked = progress(self, stop, phase)\n"
        "    def interrupted(*where):\n"
        "        stops = asked(*where)\n"
        f"        if (phase, self.state.step, where[0]) == ('step', {iteration}, {micro_batch}):\n"
        f"            for _ in range({times}):\n"
        f"                signal.raise_signal({int(number)})\n"
        "                time.sleep(0.01)\n"
        "        return stops\n"
        "    return interrupted\n"
        "Run.progress = interrupting"
    )


ACCUMULATING = [*TINY, "--batch_size=2", "--gradient_accumulation_steps=4", "--dropout=0.2", "--max_iters=30"]


@pytest.mark.parametrize(
    ("number", "settings"),
    [(signal.SIGINT, ["--order=epochs"]), (signal.SIGTERM, ["--recipe=classic"])],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_signal_between_micro_batches_discards_the_iteration_which_a_resume_repeats_exactly(
    folder: Folder, number: signal.Signals, settings: list[str]
) -> None:
    code = signal_during(number, 12, 1)
    status, out, err = run_code(folder, code, "train", *ACCUMULATING, *settings)
    assert status == 128 + number
    if number == signal.SIGINT:
        assert "stopping; what was trained will be saved" in err
    assert "saved; resume with: nanoscope train run --init_from=resume" in out
    end = folder.events(kind="end")[-1]
    assert (end["step"], end["saved_step"]) == (12, 12)
    assert max(folder.losses()) == 11
    folder.run("train", "run", "--init_from=resume")
    folder.run("train", *ACCUMULATING, *settings, "--out_dir=whole")
    assert folder.losses() == folder.losses("whole")
    assert folder.evaluations() == folder.evaluations("whole")
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (folder.path / run / "checkpoints/step-000030" / file for run in ("run", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_signal_during_the_last_micro_batch_lets_the_iteration_finish(folder: Folder) -> None:
    status, _, err = run_code(folder, signal_during(signal.SIGINT, 12, 3), "train", *ACCUMULATING)
    assert status == 130
    assert "stopping; what was trained will be saved" in err
    assert folder.events(kind="end")[-1]["saved_step"] == 13


def test_a_signal_in_the_first_iteration_says_that_nothing_was_saved(folder: Folder) -> None:
    status, out, err = run_code(folder, signal_during(signal.SIGINT, 0, 1), "train", *ACCUMULATING)
    assert status == 130
    assert "saving" not in err
    assert "nothing was trained, so nothing was saved" in out
    assert list((folder.path / "run/checkpoints").iterdir()) == []


def test_two_ctrl_c_in_quick_succession_are_one(folder: Folder) -> None:
    code = signal_during(signal.SIGINT, 12, 1, times=2)
    code += "\nimport atexit\natexit.register(signal.raise_signal, signal.SIGINT)"  # and one that comes late
    status, out, err = run_code(folder, code, "train", *ACCUMULATING)
    assert status == 130
    assert "saved; resume with" in out
    assert err.count("\n") == 2  # an empty line after ^C, and the message


def test_a_ctrl_c_while_the_process_exits_changes_nothing(folder: Folder) -> None:
    code = "import atexit\natexit.register(signal.raise_signal, signal.SIGINT)"
    status, out, err = run_code(folder, code, "train", *TINY)
    assert (status, err) == (0, "")
    assert "finished 20 iterations" in out


@pytest.mark.parametrize("module", ["cyclopts", "torch", "nanoscope.training.trainer"])
def test_a_ctrl_c_inside_an_import_ends_the_process_quietly(folder: Folder, module: str) -> None:
    code = (
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())"
    )
    assert run_code(folder, code, "train", *TINY) == (130, "", "nanoscope: interrupted\n")
    assert not (folder.path / "run").exists()


def test_several_processes_finish_the_iteration_that_a_signal_finds_them_in(folder: Folder) -> None:
    words = [*ACCUMULATING, "--max_iters=100000", "--lr_decay_iters=30"]
    process = folder.start("train", *words, module=TORCHRUN, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("iter 12:"):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            break
    process.communicate(timeout=240)
    end = folder.events(kind="end")[-1]
    assert end["reason"] == "interrupted"
    assert end["saved_step"] == end["step"] == max(folder.losses()) + 1
    assert not any("discarded" in str(event["text"]) for event in folder.events(kind="note"))


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
