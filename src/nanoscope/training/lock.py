"""Only one process at a time trains in a run's folder. Imports no torch.

`.lock` is locked through the operating system, which releases it however the process ends. `lock.json` says who
holds the lock, for the error message that the next process shows.
"""

import os
import platform
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from nanoscope.errors import JobError
from nanoscope.files import write_atomically
from nanoscope.messages import Text
from nanoscope.untrusted import read_small

PATIENCE_SECONDS = 0.3  # the holder may be just ending, or about to write lock.json


class LockedError(JobError):
    """Another process trains in the folder, or may be training there."""


class Holder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process that trains, as lock.json describes it."""

    pid: int
    host: str
    boot: str
    """Linux's id of this boot of this machine, else empty. Containers have their own host names, but share this."""
    started: str

    def text(self) -> Text:
        return Text("process {pid} on {host} (since {started})", pid=self.pid, host=self.host, started=self.started)

    def on_same_machine(self, other: "Holder") -> bool:
        return self.host == other.host or (self.boot == other.boot and self.boot != "")


class RunLock:
    """The right to train in a folder, from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.note = folder, folder / "lock.json"
        # One object per folder and process, so that a process can't lock itself out. Forked children let go of it.
        self._lock = FileLock(folder.resolve() / ".lock", thread_local=False, is_singleton=True)

    def acquire(self) -> "RunLock":
        """LockedError names the process that holds the lock. On a file system without locks, train unlocked."""
        try:
            self._lock.acquire(timeout=PATIENCE_SECONDS, poll_interval=0.02)
        except Timeout:
            by = self._holder()
            raise LockedError(
                "{folder} is being trained by {holder}\n"
                "Wait until it has ended, or stop it, or train in another folder: --out_dir=ANOTHER",
                folder=self.folder, holder=by.text() if by else Text("another process"),
            ) from None  # fmt: skip
        except (OSError, NotImplementedError):
            pass
        here, holder = _this_process(), self._holder()
        if holder is not None and not holder.on_same_machine(here):
            self._lock.release()
            raise LockedError(
                "{folder} was last being trained by {holder}, which is another machine:\n"
                "this one can't see whether that process is still running.\n"
                "If it isn't, delete {note} and try again.",
                folder=self.folder, holder=holder.text(), note=self.note,
            )  # fmt: skip
        with suppress(OSError):  # a full disk: then the error message of others names no process
            write_atomically(self.note, msgspec.json.encode(here) + b"\n")
        return self

    def release(self) -> None:
        for file in (self.note, self.note.with_name(".lock")):  # Windows deletes the latter only on release
            with suppress(OSError):
                file.unlink()
        self._lock.release()

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(read_small(self.note, limit_bytes=2000), type=Holder)
        except (OSError, ValueError, RecursionError, JobError):
            return None


def _this_process() -> Holder:
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Holder(os.getpid(), platform.node(), boot, datetime.now().strftime("%Y-%m-%d %H:%M"))
