"""A full disk, a deleted folder, a kill in the middle of a save, with real training processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanoscope.model.checkpoint import find_checkpoint
from small_runs import TINY, Folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="limits, mounts and SIGKILL are those of Unix"),
]

RUN = [*TINY, "--eval_interval=10", "--lr_decay_iters=40", "--keep_checkpoints=0", "--ngrams=1"]

# Training that pauses where the test has something to do: before step 12 while there is a file 'wait', and before step
# 25 until a step from 20 on is saved. From step 21 to 24 it is slow while there is a file 'trouble', and after that as
# slow as it takes to try again to save.
PACED = """
import sys, time
from pathlib import Path
from nanoscope import cli
from nanoscope.data.loader import BatchLoader
from nanoscope.training.checkpoint import CheckpointWriter

def stand_still(condition, seconds):
    until = time.monotonic() + seconds
    while condition() and time.monotonic() < until:
        time.sleep(0.01)

def before(step):
    if step == 12:
        stand_still(Path("wait").exists, 60)
    if 20 < step < 25:
        stand_still(Path("trouble").exists, 3)
        time.sleep(2 * CheckpointWriter.RETRY_SECONDS)
    if step == 25:
        stand_still(lambda: not list(Path(OUT, "checkpoints").glob("step-00002?")), 60)

def paced(self, get=BatchLoader.next):
    before(self.sequences_read // self.config.sequences_per_step)
    return get(self)

BatchLoader.next = paced
CheckpointWriter.RETRY_SECONDS = 0.1
OUT = next(word.split("=")[1] for word in reversed(sys.argv) if word.startswith("--out_dir="))
"""
START = "\nsys.exit(cli.run(sys.argv[3:]))"  # behind -m nanoscope


@contextlib.contextmanager
def training(folder: Folder, *words: str, changed: str = "") -> Iterator[subprocess.Popen[str]]:
    """A run of thirty iterations that has saved step 10 and waits before step 12."""
    folder.extra["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    for name in ("wait", "trouble"):
        (folder.path / name).touch()
    process = folder.start("train", *RUN, "--max_iters=30", *words, module=("-c", PACED + changed + START))
    out = next(word.split("=")[1] for word in reversed([*RUN, *words]) if word.startswith("--out_dir="))
    try:
        pointers = [folder.path / out / "checkpoints" / name for name in ("best", "last")]
        wait_until(lambda: all(path.exists() for path in pointers) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "not within a minute"
        time.sleep(0.01)


def end(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "Traceback" not in out + err
    return out


def printed_before_the_end(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if text in line)


def check_that_nothing_was_lost(folder: Folder, run: str = "run") -> None:
    """The run resumes at step 30 and ends as it would have without trouble; no temporary files are left."""
    names = {path.name for path in (folder.path / run / "checkpoints").iterdir()}
    assert {name for name in names if name.startswith(".")} == set()
    assert find_checkpoint(folder.path / run)[0].progress.step == 30
    folder.train(*RUN, "--out_dir=whole", "--max_iters=40")
    folder.run("train", run, "--init_from=resume", "--max_iters=40")
    assert folder.losses(run) == folder.losses("whole")
    assert folder.weights(40, run) == folder.weights(40, "whole")


@pytest.fixture
def small_disk(folder: Folder) -> Iterator[Path]:
    """A file system of 4 MB, mounted at 'disk'."""
    path = folder.path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "nanoscope-test", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"can't mount a file system here: {error}")
    if done.returncode != 0:
        pytest.skip(f"can't mount a file system here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Use up the disk to the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def test_a_full_disk_does_not_end_training_and_the_checkpoint_is_saved_once_there_is_room(
    folder: Folder, small_disk: Path
) -> None:
    with training(folder, "--out_dir=disk/run") as process:
        ballast = fill(small_disk)
        (folder.path / "wait").unlink()
        line = printed_before_the_end(process, "not saved")
        assert "checkpoint of iteration 20 not saved: " in line
        assert "No space left on device" in line
        assert "trying again" in line
        assert sorted(path.name for path in (small_disk / "run/checkpoints").glob("*step*[0-9]")) == ["step-000010"]
        ballast.unlink()
        (folder.path / "trouble").unlink()
        out = end(process)
    assert out.count("not saved") == 0  # reported once
    assert "saving checkpoint to disk/run/checkpoints/step-00002" in out
    check_that_nothing_was_lost(folder, "disk/run")


def test_a_disk_that_stays_full_fails_the_run_and_keeps_the_older_checkpoints(folder: Folder, small_disk: Path) -> None:
    with training(folder, "--out_dir=disk/run", "--max_iters=22", "--keep_checkpoints=1") as process:
        fill(small_disk)
        for name in ("wait", "trouble"):
            (folder.path / name).unlink()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert "Traceback" not in out + err
    assert "The last good checkpoint, step-000010, is intact" in err
    assert {path.name for path in (small_disk / "run/checkpoints").iterdir()} == {"last", "best", "step-000010"}


def test_a_limit_on_the_size_of_files_does_not_end_training(folder: Folder) -> None:
    changed = """
import resource
def limit(step, unlimited=before):
    unlimited(step)
    if step == 12:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
    if step > 20 and not Path("trouble").exists():
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
before = limit
"""
    with training(folder, changed=changed) as process:
        (folder.path / "wait").unlink()
        line = printed_before_the_end(process, "not saved")
        assert "checkpoint of iteration 20 not saved: " in line
        assert "File too large" in line
        (folder.path / "trouble").unlink()
        assert "saving checkpoint to run/checkpoints/step-00002" in end(process)
    check_that_nothing_was_lost(folder)


def test_a_checkpoints_folder_deleted_during_training_is_created_again(folder: Folder) -> None:
    with training(folder) as process:
        shutil.rmtree(folder.path / "run/checkpoints")
        for name in ("wait", "trouble"):
            (folder.path / name).unlink()
        end(process)
    check_that_nothing_was_lost(folder)


def test_a_kill_in_the_middle_of_a_save_leaves_the_previous_checkpoint(folder: Folder) -> None:
    changed = """
from nanoscope.training import checkpoint
def endless(tensors, path, metadata, write=checkpoint.save_file):
    if path.name == "optimizer.safetensors" and "step-000020" in str(path):
        path.write_bytes(b"half of it")
        time.sleep(600)
    write(tensors, path, metadata)
checkpoint.save_file = endless
"""
    with training(folder, changed=changed) as process:
        (folder.path / "wait").unlink()
        half = folder.path / "run/checkpoints"
        wait_until(lambda: list(half.glob(".step-000020.*.tmp/optimizer.safetensors")))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert find_checkpoint(folder.path / "run")[0].progress.step == 10
    out = folder.run("train", "run", "--init_from=resume")
    assert "resuming at iteration 10" in out
    check_that_nothing_was_lost(folder)
