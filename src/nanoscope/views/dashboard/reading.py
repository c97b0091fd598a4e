"""Reads and describes a run."""

import os
import shlex
import time
from array import array
from dataclasses import dataclass, replace
from pathlib import Path

from nanoscope.analysis.analyse import Options
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import Run, Steps
from nanoscope.views.report.payload import DescribedRun, Source, describe_run

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
