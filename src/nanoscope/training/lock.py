"""Only one process at a time trains in a run's folder, and it notices when the folder is no longer its own.

`.lock` is locked through the operating system, which releases it however the process ends. `lock.json` says who holds
the lock. Its age decides where system locks don't reach: between machines. So the holder touches lock.json every 20 s,
from a thread of its own, because an evaluation or a compilation may take longer than that; a process that is stopped,
dead or cut off from the file server does not touch it. After three minutes of silence another process may take over.

A process that was silent may wake up, and a folder may be moved while it is trained in. So whoever writes asks first:
`RunLock.check()`. A folder that changes hands between that question and the write goes unnoticed until the next one.
Imports no torch.
"""

import os
import platform
import sys
import threading
import time
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
from nanoscope.messages import Message, on_terminal

PATIENCE_SECONDS = 0.3  # the holder may be just ending, or about to write lock.json
REFRESH_SECONDS = 20.0
SILENT_SECONDS = 180.0  # nine refreshes missed; NFS may show a time that is a minute old


class LockedError(UsageError):
    """Another process trains in the folder, or may be training there. Like a folder with a run: choose another."""


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
    def on_this_machine(self) -> bool:
        return self.host == platform.node()


@cache
def _this_process() -> Holder:
    return Holder(os.getpid(), platform.node(), datetime.now().strftime("%Y-%m-%d %H:%M:%S"))


class RunLock:
    """The right to train in a folder, from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.note = folder, folder / "lock.json"
        self._released = threading.Event()
        self._released.set()
        self._note_seen: Identity | None = None
        self._folder_seen: Identity | None = None

    def acquire(self, *, wait: bool = False) -> "RunLock":
        """LockedError names the process that holds the lock, or may hold it. `wait`: for the silence of a machine."""
        locked, holder = self._lock_file(), self._holder()
        if wait and holder is not None and not holder.on_this_machine and self._falls_silent(holder):
            holder = None
        if holder is not None and self._may_be_running(holder, locked):
            self._file.release()
            raise self._in_use(holder)
        self._released.clear()
        self._folder_seen = _identity(self.folder)
        self._write_note()
        threading.Thread(target=self._refresh, name="run lock", daemon=True).start()
        return self

    def _falls_silent(self, holder: Holder) -> bool:
        """Wait until another machine has been silent for minutes. False as soon as it shows a sign of life."""
        began, seen = time.monotonic(), self._touched()
        if (left := SILENT_SECONDS - self._silence()) > 0:
            text = Message(
                "{folder} was last being trained by {holder}, on another machine; "
                "waiting for a sign of life from it for another {left:compact} before taking over",
                folder=self.folder,
                holder=holder.text(),
                left=left,
            )
            print(on_terminal(text), file=sys.stderr, flush=True)
        # By our own clock, too: a file system may have its times from machines whose clocks differ.
        while (left := SILENT_SECONDS - max(self._silence(), time.monotonic() - began)) > 0:
            if self._touched() != seen:
                return False
            time.sleep(min(left, 1.0))
        return True

    def check(self) -> None:
        """LockLostError if the folder is no longer this process's: taken over, moved or deleted.

        This is asked before every write, so as long as nothing has changed a single `stat` answers.
        """
        with suppress(OSError):  # a disk in trouble: the write itself will say so
            if not self._released.is_set() and _identity(self.note) != self._note_seen:
                self._look_again()

    def release(self) -> None:
        if self._released.is_set():
            return
        with suppress(LockLostError):  # then nothing there is ours to remove
            self.check()
            for name in ("lock.json", ".lock"):  # Windows deletes the latter only on release
                with suppress(OSError):
                    (self.folder / name).unlink()
        self._released.set()
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

    def _may_be_running(self, holder: Holder, locked: bool) -> bool:
        """Whether another process is. If the system has locked the folder for us, none on this machine trains there."""
        here = locked or holder == _this_process() or not psutil.pid_exists(holder.pid)
        return not (here and holder.on_this_machine) and self._silence() < SILENT_SECONDS

    def _in_use(self, holder: Holder | None) -> LockedError:
        if holder is None or holder.on_this_machine:
            return LockedError(
                "{folder} is being trained by {holder}\n"
                "Wait until it has ended, or stop it, or train in another folder: --out_dir=ANOTHER",
                folder=self.folder,
                holder=holder.text() if holder else Message("another process"),
            )
        silence = self._silence()
        return LockedError(
            "{folder} was last being trained by {holder}, on another machine, which showed a sign of life "
            "{silence:compact} ago.\n"
            "If it has ended, this machine may take over in {left:compact}: --init_from=auto waits for that. "
            "Or delete {note} and try again.",
            folder=self.folder,
            holder=holder.text(),
            silence=silence,
            left=SILENT_SECONDS - silence,
            note=self.note,
        )

    def _write_note(self) -> None:
        with suppress(OSError):  # a full disk: then the error message of others names no process
            write_atomically(self.note, msgspec.json.encode(_this_process()) + b"\n")
            self._note_seen = _identity(self.note)

    def _look_again(self) -> None:
        """Decide whose folder it is, after lock.json was found to be another file or gone."""
        holder = self._holder()
        if holder == _this_process():
            self._note_seen = _identity(self.note)
            return
        if holder is None and _identity(self.folder) == self._folder_seen:
            self._write_note()  # somebody has deleted lock.json, or the disk was full
            return
        what = Message("it was moved or deleted while it was being trained")
        if holder is not None:
            what = Message(
                "{holder} trains there now, because this process was silent for minutes", holder=holder.text()
            )
        text = Message(
            "{folder} is no longer this run's: {what}\n"
            "Training ends here and changes nothing there. What was saved can be resumed.",
            folder=self.folder,
            what=what,
        )
        raise LockLostError(text)

    def _refresh(self) -> None:
        while not self._released.wait(REFRESH_SECONDS):
            with suppress(OSError):
                if _identity(self.note) == self._note_seen:
                    os.utime(self.note)

    def _touched(self) -> float:
        try:
            return self.note.stat().st_mtime
        except OSError:
            return 0.0

    def _silence(self) -> float:
        """Seconds since lock.json was touched, by the clock of the file system: those of machines may differ."""
        mark = self.folder / ".lock"
        try:
            mark.touch()
            return max(0.0, mark.stat().st_mtime - self.note.stat().st_mtime)
        except OSError:
            return 0.0

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(read_small(self.note, limit_bytes=2000), type=Holder)
        except (OSError, ValueError, RecursionError, JobError):
            return None


Identity = tuple[int, int]


def _identity(path: Path) -> Identity | None:
    """What tells a file or folder from another at its place; None if there is none. OSError if that can't be told."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
