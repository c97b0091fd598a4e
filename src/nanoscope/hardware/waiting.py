"""Choosing CPU threads, and how they wait for each other, by what the machine is doing.

A thread that spins while it waits starts the next operation at once, but keeps a core from other processes, and from
the very thread that it waits for. So threads spin on a quiet machine and sleep on a busy one. Their number stays the
same, because sums that are added up in other parts have other last digits.
"""

import os
import time

import torch

from nanoscope.config import Auto
from nanoscope.hardware import load
from nanoscope.hardware.openmp import Switch
from nanoscope.messages import Text

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def set_threads(threads: int | Auto = "auto") -> list[Text]:
    """Use so many threads; by default as many as torch chooses, but not more than a container may use cores."""
    if threads != "auto":
        torch.set_num_threads(threads)
        return []
    usual, quota = torch.get_num_threads(), load.cpu_quota()
    if quota is None or quota >= usual or "OMP_NUM_THREADS" in os.environ:
        return []
    torch.set_num_threads(max(int(quota), 1))
    return [
        Text(
            "this container may use {quota:.2g} cores: threads reduced from {usual:d} to {threads:d}",
            quota=quota,
            usual=usual,
            threads=torch.get_num_threads(),
        )
    ]


class Waiting:
    """How torch's threads wait. Its methods return what is worth saying."""

    def __init__(self) -> None:
        self._switch = Switch()
        self._watch: load.Watch | None = None  # without one, nothing changes by itself

    @property
    def sleeping(self) -> bool:
        return self._switch.sleeping

    def begin(self, setting: str = "auto", device_type: str = "cpu") -> list[Text]:
        """Choose for the beginning. 'auto' chooses by the load since `load.begin`."""
        threads = torch.get_num_threads()
        if device_type != "cpu" or threads == 1:
            return []
        if variable := next((name for name in VARIABLES if name in os.environ), None):
            ignored = Text("waiting={setting} has no effect: {variable} is set", setting=setting, variable=variable)
            return [] if setting == "auto" else [ignored]
        if setting != "auto":
            self._switch.set(sleeping=setting == "sleep")
            return []
        if not self._switch.works:
            return []
        found, self._last = load.load_since_begin()
        self._watch = load.Watch(threads, found.is_busy(threads))
        if not self._watch.busy or not self._switch.set(sleeping=True):
            return []
        return [Text("the machine is busy ({load}): threads sleep while they wait", load=_described(found))]

    def check(self) -> list[Text]:
        """Choose anew if the machine has become busy or quiet for long. Takes no time until that may be so."""
        if self._watch is None or time.monotonic() < self._last.seconds + load.CHECK_SECONDS:
            return []
        before, self._last = self._last, load.read()
        found = load.load_between(before, self._last)
        if not self._watch.see(found, self._last.seconds - before.seconds) or not self._switch.set(self._watch.busy):
            return []
        others = _described(found)
        if self._watch.busy:
            return [Text("the machine has become busy ({load}): threads now sleep while they wait", load=others)]
        return [Text("the machine has become quiet ({load}): threads now spin while they wait", load=others)]

    def close(self) -> None:
        """Leave the threads as they were."""
        self._watch = None
        self._switch.set(sleeping=False)


def _described(found: load.Load) -> Text:
    return Text("other processes use {others:.1f} of {cores:d} cores", others=found.others, cores=found.cores)
