"""Reads and describes runs: in this process, or several long ones at once in others."""

import gc
import multiprocessing
import os
import shlex
import signal
import threading
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from nanoscope.analysis.analyse import Options
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import Run, Steps
from nanoscope.views.report.payload import DescribedRun, Source, describe_run

MAX_PROCESSES = 4
LONG_BYTES = 2_000_000  # of events: what is shorter is read before a process could start
GROWING_SECONDS = 600  # a file that was written to within this time may go on


@dataclass
class Reading:
    """What was read of one run."""

    runs: list[DescribedRun]  # none if it has not trained yet
    own: OwnRun | None  # to read on from there, if the run may grow
    seconds: float  # of CPU time


def read_run(folder: Path, label: str, own: OwnRun | None = None) -> Reading:
    """Read a run, or what was appended to it, and describe it. Raises OSError."""
    began = time.thread_time()
    own = own or OwnRun(folder)
    try:
        log = own.read()
    except NewerVersionError:  # the list of runs shows the reason
        return Reading([], None, 0.0)
    resume = _resume_command(folder, log.runs[-1]) if log.runs else None
    runs = [describe_run(Source(label, log.runs[-1], log, resume), Options())] if log.runs else []
    may_grow = time.time() - (folder / "events.jsonl").stat().st_mtime < GROWING_SECONDS
    if not may_grow:
        runs = [replace(each, run=_for_comparison(each.run)) for each in runs]
    return Reading(runs, own if may_grow else None, time.thread_time() - began)


def _resume_command(folder: Path, run: Run) -> str | None:
    """The command that continues a run that did not finish, if it has a checkpoint."""
    if run.said_finished or not (folder / "checkpoints" / "last").exists():
        return None
    shown = os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)
    return f"nanoscope train {shlex.quote(shown)} --init_from=resume"


def _for_comparison(run: Run) -> Run:
    """The run with those columns only that comparing it needs: a quarter of its memory."""
    steps = Steps()
    steps.step, steps.loss, steps.mfu_pct = run.steps.step, run.steps.loss, run.steps.mfu_pct
    details = run.details and replace(run.details, eta_steps=array("q"), eta_seconds=array("d"))
    return replace(run, steps=steps, series={}, details=details)


class Readers:
    """Processes that read long runs. They end when nothing is left to read: training needs the memory."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._reading: dict[str, Future[Reading]] = {}
        self._broken = False

    def read(self, wanted: Sequence[tuple[str, Path, str]], until: float) -> dict[str, Reading | OSError]:
        """What is read by the time `until` of runs given as name, folder and label. The others are read on."""
        for name in set(self._reading) - {name for name, _, _ in wanted}:  # nobody waits for these any more
            self._reading.pop(name).cancel()
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                min(os.cpu_count() or 1, MAX_PROCESSES, len(wanted)), multiprocessing.get_context("spawn"), _begin
            )
        try:
            for name, folder, label in wanted:
                if name not in self._reading:
                    self._reading[name] = self._pool.submit(read_run, folder, label)
            wait(self._reading.values(), max(0.0, until - time.monotonic()))
            done = {name: future for name, future in self._reading.items() if future.done()}
            found = {name: _result(future) for name, future in done.items()}
        except BrokenProcessPool:  # out of memory, or no processes allowed
            self._broken = True
            self._reading.clear()
            found = {}
        self._reading = {name: future for name, future in self._reading.items() if name not in found}
        if not self._reading:
            self._pool.shutdown()  # at once: their memory counts
            self._pool = None
        return found

    def close(self) -> None:
        """End the processes: nobody waits for them."""
        self._reading.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def are_for(self, wanted: Sequence[tuple[str, Path, str]]) -> bool:
        """Whether these runs are being read by other processes, or would be read sooner by them."""
        if any(name in self._reading for name, _, _ in wanted):
            return True
        return not self._broken and len(wanted) > 1 and sum(_size(folder) for _, folder, _ in wanted) > 2 * LONG_BYTES


def _result(future: "Future[Reading]") -> Reading | OSError:
    try:
        return future.result()
    except OSError as error:
        return error


def _size(folder: Path) -> int:
    try:
        return (folder / "events.jsonl").stat().st_size
    except OSError:
        return 0


def _begin() -> None:
    """In a new process: Ctrl-C is for the server, and without the server there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # nothing here has cycles worth looking for, and the process ends soon
    parent = psutil.Process(os.getppid()) if os.getppid() > 1 else None

    def watch() -> None:
        if parent is not None:
            parent.wait()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
