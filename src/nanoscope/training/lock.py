"""One process at a time trains in a run's folder.

`.lock` carries a lock of the operating system, which ends with its process however that ends: nothing is ever left
locked on one machine. `lock.json` says who holds it, for the message to the next one. Imports no torch.
"""

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from nanoscope.errors import JobError

PATIENCE_SECONDS = 0.3  # for a holder that is just ending, or has not yet written who it is


class LockedError(JobError):
    """Another process trains in the folder, or may do so."""


@dataclass(frozen=True)
class Holder:
    """A process that trains, as lock.json describes it."""

    pid: int
    host: str
    boot: str
    """Names one start of one machine, where the system tells: containers have hosts of their own, but share this."""
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.started})"

    def on_same_machine(self, other: "Holder") -> bool:
        return self.host == other.host or (self.boot == other.boot and self.boot != "")


class RunLock:
    """The right to train in a folder, from `acquire` to `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.note = folder, folder / "lock.json"
        # One object a folder within a process: a process does not shut itself out. Forked children let go of it.
        self._lock = FileLock(folder.resolve() / ".lock", thread_local=False, is_singleton=True)

    def acquire(self) -> "RunLock":
        """`LockedError` names the process that has it. A file system that knows no locks is no reason not to train."""
        try:
            self._lock.acquire(timeout=PATIENCE_SECONDS, poll_interval=0.02)
        except Timeout:
            raise LockedError(
                f"{self.folder} is being trained by {self._holder() or 'another process'}\n"
                "Wait until it has ended, or stop it. Or train beside it: --out_dir=ANOTHER"
            ) from None
        except (OSError, NotImplementedError):
            pass
        here, holder = _this_process(), self._holder()
        if holder is not None and not holder.on_same_machine(here):
            self._lock.release()
            raise LockedError(
                f"{self.folder} was last being trained by {holder}, which is another machine:\n"
                "whether that process still lives cannot be seen from here.\n"
                f"If it does not, delete {self.note} and try again."
            )
        with suppress(OSError):  # a full disk: then the message to others knows no pid
            self.note.write_text(json.dumps(asdict(here)) + "\n", encoding="utf-8")
        return self

    def release(self) -> None:
        for file in (self.note, self.note.with_name(".lock")):  # the latter cannot be deleted on Windows: it goes below
            with suppress(OSError):
                file.unlink()
        self._lock.release()

    def _holder(self) -> Holder | None:
        try:
            found = Holder(**json.loads(self.note.read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return found if [type(value) for value in asdict(found).values()] == [int, str, str, str] else None


def _this_process() -> Holder:
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Holder(os.getpid(), platform.node(), boot, datetime.now().strftime("%Y-%m-%d %H:%M"))
