"""How much of the processor other processes use, and whether that leaves each of our threads a core. Imports no torch."""

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

BUSY, QUIET = 0.2, 0.1  # the share of our threads without a core: more than this, less than this (benchmarks/LOG.md)
CHECK_SECONDS = 5.0
LONG_SECONDS, LONGEST_SECONDS = 15.0, 300.0  # how long a change must last; twice as long after every change
SHORTEST_SECONDS = 0.2  # the system counts in hundredths of a second: over less time than this, a share means little


@dataclass(frozen=True)
class Reading:
    """CPU seconds that were used so far, on the cores that this process may use."""

    seconds: float
    """On a wall clock."""
    everybody: float
    own: float


@dataclass(frozen=True)
class Load:
    """The cores that this process may use, and how many of them others used on average."""

    cores: int
    others: float

    def is_busy(self, threads: int, was_busy: bool = False) -> bool:
        """Whether so many threads have too few cores. In between, it stays as it was."""
        return threads - (self.cores - self.others) > (QUIET if was_busy else BUSY) * threads


class Watch:
    """Whether the machine is busy, which changes only if it lasts, and less and less easily."""

    def __init__(self, threads: int, busy: bool = False) -> None:
        self.threads, self.busy = threads, busy
        self._different, self._needed = 0.0, LONG_SECONDS

    def see(self, load: Load, seconds: float) -> bool:
        """Take in the load of the last seconds. Returns whether the machine's state has changed."""
        if load.is_busy(self.threads, self.busy) == self.busy:
            self._different = 0.0
            return False
        self._different += min(seconds, LONG_SECONDS / 2)  # one long look is not enough
        if self._different < self._needed:
            return False
        self.busy, self._different = not self.busy, 0.0
        self._needed = min(2 * self._needed, LONGEST_SECONDS)
        return True


def read() -> Reading:
    """Takes less than 0.1 ms."""
    times, cpus = psutil.cpu_times(percpu=True), usable_cpus()
    if cpus and max(cpus) < len(times):
        times = [times[cpu] for cpu in cpus]
    # Work of low priority gives way to ours, unless ours has a low priority too.
    counted = ("user", "system", "irq", "softirq", "steal", *(["nice"] if _priority() > 0 else []))
    used = sum(getattr(each, name, 0.0) for each in times for name in counted)
    return Reading(time.monotonic(), used, time.process_time())


def load_between(before: Reading, after: Reading) -> Load:
    cores, seconds = len(usable_cpus()) or psutil.cpu_count() or 1, max(after.seconds - before.seconds, 1e-9)
    others = (after.everybody - before.everybody - (after.own - before.own)) / seconds
    return Load(cores, min(max(others, 0.0), cores))


_begun: Reading | None = None


def begin() -> None:
    """Call this before torch is imported: that takes long enough to see what others do meanwhile."""
    global _begun
    _begun = read()


def load_since_begin() -> tuple[Load, Reading]:
    """The load since `begin`, after a short wait if that is hardly over, and where to go on from."""
    before = _begun or read()
    time.sleep(max(before.seconds + SHORTEST_SECONDS - time.monotonic(), 0.0))
    after = read()
    return load_between(before, after), after


def usable_cpus() -> set[int]:
    """The numbers of the cores that this process may use; empty where the system can't tell."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """How many cores the limit of a container amounts to, in either version of cgroups; None without a limit."""
    with suppress(OSError, ValueError):  # a file with 'max 100000' has no number
        quota, period = map(int, (root / "cpu.max").read_text("ascii").split())
        return quota / period
    with suppress(OSError, ValueError):
        quota, period = (int((root / f"cpu/cpu.cfs_{name}_us").read_text("ascii")) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0) if sys.platform != "win32" else 0
