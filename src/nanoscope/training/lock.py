"""Only one process at a time trains in a run's folder, and it notices when the folder is no longer its own.

The operating system locks `.lock`, and releases it however the process ends; on file systems that can, also between
machines. `lock.json` says who trains: for messages, for `watch`, and to decide where a file system has no locks.

A folder may be moved while it is trained in, and a process that was suspended may wake up after another machine got its
lock. So whoever writes asks first: `RunLock.check()`. A folder that changes hands between that question and the write
goes unnoticed until the next one. Imports no torch.
"""

import os
import platform
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import psutil
from filelock import FileLock, Timeout

from nanoscope.errors import JobError, UsageError
from nanoscope.files import read_small, write_atomically
from nanoscope.messages import Message

PATIENCE_SECONDS = 0.3  # the holder may be just ending, or about to write lock.json


class LockLostError(JobError):
    """The folder now belongs to another process, or can't be found: nothing may be written any more."""


class Holder(msgspec.Struct, frozen=True):
    """The process that trains, as lock.json describes it."""

    pid: Annotated[int, msgspec.Meta(gt=0, lt=2**31)]
    host: str
    started: str

    def text(self) -> Message:
        return Message("process {pid} on {host} (since {started})", pid=self.pid, host=self.host, started=self.started)

    @property
    def may_be_running(self) -> bool:
        """Whether it is another process that runs, as far as this machine can tell."""
        here = self.host == platform.node()
        return not here or (self.pid != os.getpid() and psutil.pid_exists(self.pid))


@cache
def _this_process() -> Holder:
    return Holder(os.getpid(), platform.node(), datetime.now().strftime("%Y-%m-%d %H:%M:%S"))


class RunLock:
    """The right to train in a folder, from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.note, self._held = folder, folder / "lock.json", False
        self._note_seen: Identity | None = None
        self._folder_seen: Identity | None = None

    def acquire(self) -> "RunLock":
        """UsageError names the process that holds the lock, or may hold it."""
        locked, holder = self._lock_file(), self._holder()
        if not locked and holder is not None and holder.may_be_running:
            raise UsageError(
                "{in_use}\nThis file system has no locks: if that process has ended, delete {note} and try again.",
                in_use=self._in_use(holder).text,
                note=self.note,
            )
        self._held, self._folder_seen = True, _identity(self.folder)
        self._write_note()
        return self

    def check(self) -> None:
        """LockLostError if the folder is no longer this process's: taken over, moved or deleted.

        This is asked before every write, so as long as nothing has changed a single `stat` answers.
        """
        with suppress(OSError):  # a disk in trouble: the write itself will say so
            if self._held and _identity(self.note) != self._note_seen:
                self._look_again()

    def release(self) -> None:
        if not self._held:
            return
        with suppress(LockLostError):  # then nothing there is ours to remove
            self.check()
            for name in ("lock.json", ".lock"):  # Windows deletes the latter only on release
                with suppress(OSError):
                    (self.folder / name).unlink()
        self._held = False
        self._file.release()

    def _lock_file(self) -> bool:
        """Whether the operating system has locked the folder for us. False on a file system without locks."""
        # One object per folder and process, so that a process can't lock itself out. Forked children let go of it.
        self._file = FileLock(
            self.folder.resolve() / ".lock", thread_local=False, is_singleton=True, fallback_to_soft=False
        )
        try:
            self._file.acquire(timeout=PATIENCE_SECONDS, poll_interval=0.02)
        except Timeout:
            raise self._in_use(self._holder()) from None
        except (OSError, NotImplementedError):
            return False
        return True

    def _in_use(self, holder: Holder | None) -> UsageError:
        return UsageError(
            "{folder} is being trained by {holder}\n"
            "Wait until it has ended, or stop it, or train in another folder: --out_dir=ANOTHER",
            folder=self.folder,
            holder=holder.text() if holder else Message("another process"),
        )

    def _write_note(self) -> None:
        with suppress(OSError):  # a full disk: then the error message of others names no process
            write_atomically(self.note, msgspec.json.encode(_this_process()) + b"\n")
            self._note_seen = _identity(self.note)

    def _look_again(self) -> None:
        """Find out whose folder it is, because lock.json is another file than before, or missing."""
        holder = self._holder()
        if holder == _this_process():
            self._note_seen = _identity(self.note)
            return
        if holder is None and _identity(self.folder) == self._folder_seen:
            self._write_note()  # somebody has deleted lock.json, or the disk was full
            return
        what = Message("it was moved or deleted while it was being trained")
        if holder is not None:
            what = Message("{holder} trains there now", holder=holder.text())
        text = Message(
            "{folder} is no longer this run's: {what}\n"
            "Training ends here and changes nothing there. What was saved can be resumed.",
            folder=self.folder,
            what=what,
        )
        raise LockLostError(text)

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(read_small(self.note, limit_bytes=2000), type=Holder)
        except (OSError, ValueError, RecursionError, JobError):
            return None


Identity = tuple[int, int]


def _identity(path: Path) -> Identity | None:
    """The device and inode of a file or folder, None if it does not exist. OSError if that can't be found out."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
