"""How much of the CPU other processes use, and whether that leaves each of our threads a core. Imports no torch."""

import os
import sys
import time
from dataclasses import dataclass

import psutil

BUSY = 0.2  # the share of our threads without a core (benchmarks/LOG.md)


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

    def is_busy(self, threads: int) -> bool:
        """Whether so many threads have too few cores."""
        return threads - (self.cores - self.others) > BUSY * threads


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


def usable_cpus() -> set[int]:
    """The numbers of the cores that this process may use; empty where the system can't tell."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0) if sys.platform != "win32" else 0
