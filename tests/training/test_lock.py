"""Only one process at a time trains in a folder. The holders here are real processes."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import pytest

from nanoscope.errors import UsageError
from nanoscope.files import write_atomically
from nanoscope.training.lock import LockLostError, RunLock
from small_runs import TINY, Folder

pytestmark = pytest.mark.slow

HOLDER = """
import os, subprocess, sys
from pathlib import Path
from nanoscope.training.lock import RunLock
lock = RunLock(Path(sys.argv[1])).acquire()
if "with children" in sys.argv:
    outlives = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(outlives, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(child.pid)
    if not os.fork():
        os.execv(sys.executable, outlives) if sys.stdin.read() else os._exit(0)
print("held", flush=True)
sys.stdin.read()
"""
needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")


@contextmanager
def held(folder: Folder, run: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of a run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, run, *words], cwd=folder.path, env=folder.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.lines = list(iter(lambda: process.stdout.readline().strip(), "held"))  # type: ignore[attr-defined, union-attr]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [[], ["--overwrite=True"], ["--init_from=resume", "--max_iters=30"]])
def test_a_second_process_is_refused_with_the_pid_of_the_first_and_changes_nothing(
    folder: Folder, words: list[str]
) -> None:
    folder.train()
    with held(folder, "run") as first:
        before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
        out = folder.train(*words, status=2)
        assert f"run is being trained by process {first.pid} on {platform.node()} (since " in out
        assert "--out_dir=ANOTHER" in out
        assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


@needs_kill
def test_after_a_kill_the_next_process_starts_at_once(folder: Folder) -> None:
    folder.train()
    with held(folder, "run") as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert (folder.path / "run/lock.json").exists()
        folder.train("--init_from=resume", "--max_iters=25")
    assert max(folder.losses()) == 24


@needs_kill
def test_processes_that_a_run_started_do_not_hold_its_lock_after_it(folder: Folder) -> None:
    (folder.path / "run").mkdir()
    with held(folder, "run", "with children") as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        RunLock(folder.path / "run").acquire().release()
        os.kill(int(first.lines[0]), signal.SIGKILL)  # type: ignore[attr-defined]  # it was there all the time


def test_a_run_that_has_ended_leaves_nothing_of_the_lock(folder: Folder) -> None:
    folder.train()
    assert {path.name for path in (folder.path / "run").iterdir()} == {
        "config.toml", "console.log", "events.jsonl", "checkpoints", "windows",
    }  # fmt: skip


def test_two_runs_of_one_name_started_together_get_folders_of_their_own(folder: Folder) -> None:
    words = [word for word in TINY if not word.startswith("--out_dir")]
    both = [folder.start("train", "laptop", *words) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    for run in ("runs/laptop-tiny", "runs/laptop-tiny-2"):
        assert len(folder.events(run, "start")) == 1
        assert len(folder.losses(run)) == 20


def test_of_three_processes_that_want_one_folder_one_trains_and_the_others_are_refused_alike(folder: Folder) -> None:
    racing = [folder.start("train", *TINY) for _ in range(3)]
    for process in racing:
        process.communicate(timeout=120)
    assert sorted(process.returncode for process in racing) == [0, 2, 2]
    assert len(folder.events("run", "start")) == 1
    assert len(folder.losses()) == 20


def test_a_folder_without_checkpoints_is_used_again_unless_a_process_trains_there(folder: Folder) -> None:
    words = [word for word in TINY if not word.startswith("--out_dir")]
    (folder.path / "runs/laptop-tiny").mkdir(parents=True)
    with held(folder, "runs/laptop-tiny"):
        folder.run("train", "laptop", *words, "--max_iters=2")
        assert folder.losses("runs/laptop-tiny-2")
    assert not (folder.path / "runs/laptop-tiny/events.jsonl").exists()
    (folder.path / "runs/laptop-tiny-2").rename(folder.path / "elsewhere")
    folder.run("train", "laptop", *words, "--max_iters=2")
    assert folder.losses("runs/laptop-tiny")


def test_a_run_in_training_can_be_read(folder: Folder) -> None:
    folder.train()
    with held(folder, "run"):
        assert "20" in folder.run("explain", "run")
        folder.run("sample", "run", "--prompt=the", "--max_new_tokens=5")


def other_machine(run: Path, **changes: object) -> None:
    note = {"pid": 7, "host": "elsewhere", "started": "2025-01-02 03:04", **changes}
    write_atomically(run / "lock.json", json.dumps(note))


def test_what_another_machine_left_does_not_keep_a_run_from_going_on(folder: Folder) -> None:
    folder.train()
    other_machine(folder.path / "run")
    folder.train("--init_from=auto", "--max_iters=25")
    assert max(folder.losses()) == 24


def contents(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture
def training(folder: Folder) -> Iterator[subprocess.Popen[str]]:
    """A real run that goes on for minutes, and has saved a checkpoint."""
    process = folder.start("train", *TINY, "--max_iters=1000000", "--eval_interval=50", "--keep_checkpoints=1")
    assert process.stdout is not None
    read_until(process, "saving checkpoint")
    yield process
    process.kill()
    process.communicate()


def read_until(process: subprocess.Popen[str], beginning: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith(beginning))


@needs_kill
def test_a_process_that_wakes_up_after_its_lock_was_taken_over_ends_and_changes_nothing(
    folder: Folder, training: subprocess.Popen[str]
) -> None:
    run = folder.path / "run"
    training.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, training.pid, os.WSTOPPED | os.WNOWAIT)
    other_machine(run)
    before = contents(run)
    training.send_signal(signal.SIGCONT)
    _, err = training.communicate(timeout=60)
    assert training.returncode == 1
    assert "process 7 on elsewhere (since 2025-01-02 03:04) trains there now" in err
    after = contents(run)
    half_written = {path for path in after.keys() - before.keys() if ".tmp" in path}  # if it was stopped in a save
    assert {path: after[path] for path in after.keys() - half_written} == before


def test_a_run_whose_folder_is_renamed_ends_and_leaves_a_new_run_of_the_old_name_alone(
    folder: Folder, training: subprocess.Popen[str]
) -> None:
    training.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, training.pid, os.WSTOPPED | os.WNOWAIT)
    (folder.path / "run").rename(folder.path / "renamed")
    folder.train("--seed=99", "--keep_checkpoints=1")
    alone = contents(folder.path / "run")
    training.send_signal(signal.SIGCONT)
    _, err = training.communicate(timeout=60)
    assert training.returncode == 1
    assert "run is no longer this run's: it was moved or deleted" in err
    assert contents(folder.path / "run") == alone
    assert "resuming at iteration" in folder.run("train", "renamed", "--init_from=resume", "--max_minutes=0.001")


def test_a_folder_that_is_gone_is_not_written_into_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    held = RunLock(run).acquire()
    held.check()
    run.rename(tmp_path / "kept")  # so that no new folder gets its number
    with pytest.raises(LockLostError, match="was moved or deleted"):
        held.check()
    run.mkdir()
    other_machine(run)
    with pytest.raises(LockLostError, match="process 7 on elsewhere"):
        held.check()
    held.release()
    assert [path.name for path in run.iterdir()] == ["lock.json"]


def test_a_deleted_lock_json_is_written_again(tmp_path: Path) -> None:
    held = RunLock(tmp_path).acquire()
    (tmp_path / "lock.json").unlink()
    held.check()
    assert (tmp_path / "lock.json").exists()
    held.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changes", [{"host": platform.node()}, {"pid": "x"}], ids=str)
def test_a_note_from_before_a_restart_or_an_invalid_one_is_ignored(tmp_path: Path, changes: dict[str, object]) -> None:
    other_machine(tmp_path, **changes)
    RunLock(tmp_path).acquire().release()


def test_an_unreadable_note_does_not_hide_that_the_folder_is_locked(folder: Folder) -> None:
    (folder.path / "run").mkdir()
    with held(folder, "run"):
        (folder.path / "run/lock.json").write_bytes(b"\xff{")
        with pytest.raises(UsageError, match="is being trained by another process"):
            RunLock(folder.path / "run").acquire()


@pytest.fixture(params=[OSError(errno.ENOLCK, "No locks"), OSError(errno.ENOSYS, "No flock"), NotImplementedError()])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks, for this process."""

    def refuse(*_: object) -> None:
        raise request.param

    monkeypatch.setattr(filelock._unix if os.name != "nt" else filelock._windows, "_lock_fd_nonblocking", refuse)


@pytest.mark.usefixtures("no_locks")
def test_a_file_system_without_locks_can_be_trained_on(folder: Folder) -> None:
    folder.train("--max_iters=2")
    assert len(folder.losses()) == 2


@needs_kill
@pytest.mark.usefixtures("no_locks")
def test_a_living_process_is_noticed_without_locks_and_a_dead_one_is_taken_over(folder: Folder) -> None:
    folder.train("--max_iters=2")
    with held(folder, "run") as first:
        out = folder.train("--init_from=resume", "--max_iters=25", status=2)
        assert f"run is being trained by process {first.pid} on {platform.node()} (since " in out
        first.send_signal(signal.SIGKILL)
        first.wait()
        folder.train("--init_from=resume", "--max_iters=25")
    assert max(folder.losses()) == 24


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_process_of_another_machine_is_refused_and_the_file_to_delete_is_named(folder: Folder) -> None:
    folder.train("--max_iters=2")
    other_machine(folder.path / "run")
    out = folder.train("--init_from=resume", "--max_iters=4", status=2)
    assert "run is being trained by process 7 on elsewhere (since 2025-01-02 03:04)\n" in out
    assert f"delete {Path('run/lock.json')} and try again" in out
    (folder.path / "run/lock.json").unlink()
    folder.train("--init_from=resume", "--max_iters=4")


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_restarted_container_is_not_refused_because_of_its_own_pid(tmp_path: Path) -> None:
    other_machine(tmp_path, host=platform.node(), pid=os.getpid())
    RunLock(tmp_path).acquire().release()


def test_a_process_does_not_lock_itself_out(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path).acquire(), RunLock(tmp_path).acquire()
    second.release()
    first.release()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_start_leaves_no_lock_behind(folder: Folder) -> None:
    folder.train()
    folder.train("--init_from=resume", "--n_embd=64", status=2)
    folder.train("--init_from=resume", "--device=cuda", "--max_iters=30", status=2)
    assert not {".lock", "lock.json"} & {path.name for path in (folder.path / "run").iterdir()}
