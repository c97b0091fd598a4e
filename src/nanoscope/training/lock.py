"""Only one process at a time trains in a run's folder, and it notices when the folder is no longer its own.

`.lock` is locked through the operating system, which releases it however the process ends. `lock.json` says who holds
the lock. Its age decides where system locks don't reach: on a file system without them, and between machines. So the
holder touches lock.json every 20 s, from a thread of its own, because an evaluation or a compilation may take longer
than that; a process that is stopped, dead or cut off from the file server does not touch it. After three minutes of
silence another process may take over.

A process that was silent may wake up, and a folder may be renamed while it is trained in. So whoever writes asks for
the folder first: `RunLock.current_folder()`. A folder that changes hands between that question and the write goes
unnoticed until the next one. Imports no torch.
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

import msgspec
import psutil
from filelock import FileLock, Timeout

from nanoscope.errors import JobError, UsageError
from nanoscope.files import Identity, identity, read_small, write_atomically
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

    pid: int
    host: str
    boot: str
    """Linux's id of this boot of this machine, else empty. Containers have their own host names, but share this."""
    started: str

    def text(self) -> Message:
        return Message("process {pid} on {host} (since {started})", pid=self.pid, host=self.host, started=self.started)

    def may_be_running(self) -> bool:
        """Whether another process is, or may be on another machine."""
        with suppress(OverflowError):
            return self != _this_process() and (self.host != platform.node() or psutil.pid_exists(self.pid))
        return False

    def on_this_machine(self) -> bool:
        here = _this_process()
        return self.host == here.host or (self.boot == here.boot and self.boot != "")


@cache
def _this_process() -> Holder:
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Holder(os.getpid(), platform.node(), boot, datetime.now().strftime("%Y-%m-%d %H:%M:%S"))


class RunLock:
    """The right to train in a folder, from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where it is now, or was when `current_folder` last looked."""
        self._held = False
        self._released = threading.Event()
        self._note_seen: Identity | None = None
        self._folder_seen: Identity | None = None
        self._descriptor: int | None = None
        """An open descriptor of the folder, which stays with it when it is renamed."""

    @property
    def note(self) -> Path:
        return self.folder / "lock.json"

    def acquire(self) -> "RunLock":
        """LockedError names the process that holds the lock, or may hold it."""
        locked = self._lock_file()
        holder = self._holder()
        # If the system has locked the folder for us, no other process on this machine trains there.
        certain = locked and (holder is None or holder.on_this_machine())
        if holder is not None and not certain and holder.may_be_running() and self._silence() < SILENT_SECONDS:
            self._file.release()
            raise self._in_use(holder)
        self._take()
        threading.Thread(target=self._refresh, name="run lock", daemon=True).start()
        return self

    def wait_for_silence(self) -> None:
        """If another machine trained here, wait until it has been silent for minutes, and remove its lock.json.

        For jobs that are restarted. Returns at once if that machine shows a sign of life: `acquire` then refuses.
        """
        holder = self._holder()
        if holder is None or holder.on_this_machine():
            return
        began, seen = time.monotonic(), _mtime(self.note)
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
            if _mtime(self.note) != seen:
                return
            time.sleep(min(left, 1.0))
        with suppress(OSError):
            self.note.unlink()

    def current_folder(self) -> Path:
        """The folder, also if it was renamed. LockLostError if it is no longer this process's.

        This is asked before every write, so as long as nothing has changed a single `stat` answers.
        """
        with suppress(OSError):  # a disk in trouble: the write itself will say so
            if self._held and (self._note_seen is None or identity(self.note) != self._note_seen):
                self._look_again()
        return self.folder

    def release(self) -> None:
        if not self._held:
            return
        self._released.set()
        with suppress(LockLostError):  # then nothing there is ours to remove
            folder = self.current_folder()
            for name in ("lock.json", ".lock"):  # Windows deletes the latter only on release
                with suppress(OSError):
                    (folder / name).unlink()
        self._let_go()

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

    def _in_use(self, holder: Holder | None) -> LockedError:
        if holder is None or holder.on_this_machine():
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

    def _take(self) -> None:
        with suppress(OSError):  # Windows can't open folders
            self._descriptor = os.open(self.folder, os.O_RDONLY)
        self._folder_seen = identity(self.folder)
        self._held = True
        self._write_note()

    def _write_note(self) -> None:
        with suppress(OSError):  # a full disk: then the error message of others names no process
            write_atomically(self.note, msgspec.json.encode(_this_process()) + b"\n")
            self._note_seen = identity(self.note)

    def _look_again(self) -> None:
        """Decide whose folder it is, after lock.json was found to be another file or gone."""
        if identity(self.folder) != self._folder_seen and (moved := self._moved_to()) is not None:
            self.folder = moved
        here, holder = identity(self.folder), self._read_note()
        if holder == _this_process():
            self._note_seen = identity(self.note)
        elif holder is None and here == self._folder_seen:  # somebody has deleted lock.json, or the disk was full
            self._write_note()
        elif here is None and self._descriptor is not None and _can_follow() and not self._released.is_set():
            self.folder.mkdir(parents=True)  # it was deleted
            self._let_go()
            self._lock_file()
            self._take()
        elif here == self._folder_seen and holder is not None:
            text = Message(
                "{folder} is now being trained by {holder}, which took over because this process was silent for "
                "minutes: stopped, or cut off from the file server.\n"
                "This one ends and changes nothing there; that one continues from the last checkpoint.",
                folder=self.folder,
                holder=holder.text(),
            )
            raise LockLostError(text)
        else:
            text = Message(
                "{folder} was deleted or moved while it was being trained, and can't be found.\n"
                "Training ends here; what was done since the last checkpoint is lost. Nothing that is at {folder} now "
                "was touched.",
                folder=self.folder,
            )
            raise LockLostError(text)

    def _moved_to(self) -> Path | None:
        """Where the system says that our folder is now."""
        if self._descriptor is None:
            return None
        with suppress(OSError):
            if sys.platform == "darwin":
                import fcntl

                found = Path(os.fsdecode(fcntl.fcntl(self._descriptor, fcntl.F_GETPATH, b"\0" * 1024).rstrip(b"\0")))
            else:
                found = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            if identity(found) == self._folder_seen:
                return found if self.folder.is_absolute() else Path(os.path.relpath(found))
        return None

    def _refresh(self) -> None:
        while not self._released.wait(REFRESH_SECONDS):
            with suppress(OSError):
                if identity(self.note) == self._note_seen:
                    os.utime(self.note)

    def _silence(self) -> float:
        """Seconds since lock.json was touched, by the clock of the file system: those of machines may differ."""
        mark = self.folder / ".lock"
        try:
            mark.touch()
            return max(0.0, mark.stat().st_mtime - self.note.stat().st_mtime)
        except OSError:
            return 0.0

    def _let_go(self) -> None:
        self._held = False
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._file.release()

    def _holder(self) -> Holder | None:
        try:
            return self._read_note()
        except OSError:
            return None

    def _read_note(self) -> Holder | None:
        try:
            return msgspec.json.decode(read_small(self.note, limit_bytes=2000), type=Holder)
        except (FileNotFoundError, ValueError, RecursionError, JobError):
            return None


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _can_follow() -> bool:
    """Whether the system can say where an open folder is now."""
    return sys.platform == "darwin" or Path("/proc/self/fd").is_dir()
