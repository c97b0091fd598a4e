"""The reports of runs and of kept logs, as JSON for the page. What was read is kept, and read on as a run grows."""

import json
import math
import os
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.findings.analyse import Options
from nanoscope.messages import Message
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import Run, Steps
from nanoscope.runs.summary import plain_status, version_of
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.dashboard.logs import KeptLogs
from nanoscope.views.report.payload import DescribedRun, Json, Source, describe_run
from nanoscope.views.report.payload import payload as report_payload

MAX_STEPS_KEPT = 1_000_000  # of runs that may grow, at 104 bytes each
MAX_KEPT = 60  # runs and logs whose description is kept
GROWING_SECONDS = 600  # a file that was written to within this time may go on
PATIENCE_SECONDS = 0.7  # until the page gets a progress report instead
MAX_SECONDS_COUNTED = 1.5  # reading a long run for the first time says nothing about reading it again
LEISURE = 25  # what took a second to compute is computed again after so many seconds at the earliest


class GoneError(JobError):
    """A run does not exist, or no longer."""

    def __init__(self, name: str) -> None:
        super().__init__(Message("There is no run {name}.", name=name))


class NoTrainingError(JobError):
    """There are no training steps in what was read."""

    def __init__(self, name: str) -> None:
        super().__init__(Message("No training step was found in {path}: there is nothing to show.", path=name))


class StillReadingError(Exception):
    """Not all runs have been read yet: ask again."""

    def __init__(self, done: int, of: int) -> None:
        super().__init__(f"{done} of {of}")
        self.done, self.of = done, of


@dataclass
class _Known:
    """What was read of one run or log."""

    version: str
    described: list[DescribedRun]  # none if it has not trained yet
    seconds: float = 0.0  # of CPU time, that reading and describing it took
    own: OwnRun | None = None  # to read on from there, if the run may grow
    read_at: float = field(default_factory=time.monotonic)

    def is_fresh(self, version: str, leisure: float) -> bool:
        """Whether it is up to date, or too recent to be computed again."""
        return self.version == version or time.monotonic() - self.read_at < leisure * self.seconds


class Reports:
    """Describes runs again when they have changed, but not too often: training needs the CPU."""

    def __init__(self, folder: WatchedFolder, logs: KeptLogs, language: str) -> None:
        self.folder, self.logs, self.language = folder, logs, language
        self._known: OrderedDict[str, _Known] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()  # one computation at a time

    def answer(self, names: Sequence[str]) -> bytes:
        """The payload of these runs as JSON, with the versions it shows and the seconds until it may change.

        Long work is done in pieces: the page gets the progress so far, and asks again.
        """
        began = time.thread_time()
        payload = self.payload(names, self.language, PATIENCE_SECONDS)
        payload["leisure_seconds"] = LEISURE * min(time.thread_time() - began, MAX_SECONDS_COUNTED)
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def payload(self, names: Sequence[str], language: str, patience: float = math.inf) -> Json:
        """What a page shows of these runs. StillReadingError if they are not all read after so many seconds."""
        with self._lock:
            described = self._describe(list(dict.fromkeys(names)), time.monotonic() + patience)
            # What is known may be older than the files: say what is shown.
            versions = {name: self._known[name].version for name in names}
            return {**report_payload(described, language), "versions": versions}

    def take_log(self, key: str, described: list[DescribedRun]) -> None:
        """A log that was described just now need not be described again."""
        with self._lock:
            self._known[key] = _Known(key, described)

    def _describe(self, names: Sequence[str], until: float) -> list[DescribedRun]:
        """Descriptions of those runs that have trained."""
        # All the others may have to be read before one is used, so each may be that much older.
        leisure = LEISURE * len(names)
        versions = {name: self._version(name) for name in names}
        known = self._known
        stale = [name for name in names if name not in known or not known[name].is_fresh(versions[name], leisure)]
        for done, name in enumerate(stale):
            if done and time.monotonic() > until:
                raise StillReadingError(len(names) - len(stale) + done, len(names))
            known[name] = self._read(name, versions[name])
        self._free_memory(names)
        described = [run for name in names for run in known[name].described]
        if not described:
            raise NoTrainingError(", ".join(names))
        return described

    def _read(self, name: str, version: str) -> _Known:
        began = time.thread_time()
        runs = self.logs.describe(name)
        if runs is not None:
            return _Known(version, runs, time.thread_time() - began)
        path, known = self._path(name), self._known.get(name)
        own = known.own if known and known.own and known.own.folder == path else OwnRun(path)
        try:
            log = own.read()
            is_growing = time.time() - (path / "events.jsonl").stat().st_mtime < GROWING_SECONDS
        except NewerVersionError:  # the list of runs shows the reason
            return _Known(version, [])
        except OSError:
            raise GoneError(name) from None
        can_sample = (path / "checkpoints" / "last").exists()
        source = [
            Source(self.folder.label(name), run, log, _resume_command(path, run) if can_sample else None, can_sample)
            for run in log.runs[-1:]
        ]
        runs = [describe_run(each, Options()) for each in source]
        if not is_growing:
            runs = [replace(each, run=_for_comparison(each.run)) for each in runs]
        return _Known(version, runs, time.thread_time() - began, own if is_growing else None)

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise GoneError(name)
        return path

    def _version(self, name: str) -> str:
        if name in self.logs:
            return name  # it never changes
        try:
            return version_of(plain_status(self._path(name) / "events.jsonl"))
        except OSError:
            raise GoneError(name) from None

    def _free_memory(self, needed: Sequence[str]) -> None:
        """Keep the runs that were used last, as many as memory allows."""
        for name in needed:
            self._known.move_to_end(name)
        steps = 0
        for count, name in enumerate(reversed(list(self._known))):
            own = self._known[name].own
            steps += own.step_count if own else 0
            if name not in needed and (count >= MAX_KEPT or (own and steps > MAX_STEPS_KEPT)):
                del self._known[name]


def _resume_command(folder: Path, run: Run) -> str | None:
    """The command that continues a run that did not finish."""
    if run.said_finished:
        return None
    end = run.details.end if run.details else None
    shown = os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)
    return resume_command(shown, end.resume_with if end else {})


def _for_comparison(run: Run) -> Run:
    """The run with those columns only that comparing it needs: a quarter of its memory."""
    steps = Steps()
    steps.step, steps.loss, steps.mfu_pct = run.steps.step, run.steps.loss, run.steps.mfu_pct
    details = run.details and replace(run.details, eta_steps=array("q"), eta_seconds=array("d"))
    return replace(run, steps=steps, series={}, details=details)
