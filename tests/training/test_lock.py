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

from nanoscope.training.lock import LockedError, RunLock
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
        out = folder.train(*words, status=1)
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
    note = {"pid": 7, "host": "elsewhere", "boot": "0-0", "started": "2025-01-02 03:04", **changes}
    (run / "lock.json").write_text(json.dumps(note), encoding="utf-8")


def test_a_lock_held_on_another_machine_is_refused_and_the_file_to_delete_is_named(folder: Folder) -> None:
    folder.train()
    other_machine(folder.path / "run")
    out = folder.train("--init_from=resume", "--max_iters=25", status=1)
    assert "process 7 on elsewhere (since 2025-01-02 03:04), which is another machine" in out
    assert f"delete {Path('run/lock.json')} and try again" in out
    (folder.path / "run/lock.json").unlink()
    folder.train("--init_from=resume", "--max_iters=25")


@pytest.mark.parametrize("changes", [{"host": platform.node()}, {"pid": "x"}, {"more": 1}], ids=str)
def test_a_note_from_before_a_restart_or_an_invalid_one_is_ignored(tmp_path: Path, changes: dict[str, object]) -> None:
    other_machine(tmp_path, **changes)
    RunLock(tmp_path).acquire().release()


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="the system has no boot id")
def test_a_container_with_another_host_name_counts_as_the_same_machine(tmp_path: Path) -> None:
    other_machine(tmp_path, boot=Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    RunLock(tmp_path).acquire().release()


def test_an_unreadable_note_does_not_hide_that_the_folder_is_locked(folder: Folder) -> None:
    (folder.path / "run").mkdir()
    with held(folder, "run"):
        (folder.path / "run/lock.json").write_bytes(b"\xff{")
        with pytest.raises(LockedError, match="is being trained by another process"):
            RunLock(folder.path / "run").acquire()


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), NotImplementedError()], ids=repr)
def test_a_file_system_without_locks_can_be_trained_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    folder.train("--max_iters=2")
    assert len(folder.losses()) == 2


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
