"""The reports of runs and of kept logs, as JSON for the page. What was read is kept, and read on as a run grows."""

import math
import os
import threading
import time
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
from nanoscope.runs.summary import version_of
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.dashboard.logs import KeptLogs
from nanoscope.views.report.payload import DescribedRun, Payload, Source, describe_run
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
    languages: frozenset[str]  # in which it is described
    seconds: float = 0.0  # of CPU time, that reading and describing it took
    own: OwnRun | None = None  # to read on from there, if the run may grow
    read_at: float = field(default_factory=time.monotonic)

    def is_fresh(self, version: str, leisure: float) -> bool:
        """Whether it is up to date, or too recent to be computed again."""
        return self.version == version or time.monotonic() - self.read_at < leisure * self.seconds


class Reports:
    """Describes runs again when they have changed, but not too often: training needs the CPU."""

    def __init__(self, folder: WatchedFolder, logs: KeptLogs) -> None:
        self.folder, self.logs = folder, logs
        self._known: OrderedDict[str, _Known] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()  # one computation at a time

    def answer(self, names: Sequence[str], language: str) -> Payload:
        """The payload of these runs, with the seconds until it may change.

        Long work is done in pieces: the page gets the progress so far, and asks again.
        """
        began = time.thread_time()
        payload = self.payload(names, language, (language,), PATIENCE_SECONDS)
        payload.leisure_seconds = LEISURE * min(time.thread_time() - began, MAX_SECONDS_COUNTED)
        return payload

    def payload(
        self, names: Sequence[str], language: str, languages: Sequence[str], patience: float = math.inf
    ) -> Payload:
        """What a page shows of these runs. StillReadingError if they are not all read after so many seconds."""
        with self._lock:
            described = self._describe(list(dict.fromkeys(names)), frozenset(languages), time.monotonic() + patience)
            payload = report_payload(described, language, languages)
            # What is known may be older than the files: say what is shown.
            payload.versions = {name: self._known[name].version for name in names}
        return payload

    def take_log(self, key: str, described: list[DescribedRun], language: str) -> None:
        """A log that was described just now need not be described again."""
        with self._lock:
            self._known[key] = _Known(key, described, frozenset((language,)))

    def _describe(self, names: Sequence[str], languages: frozenset[str], until: float) -> list[DescribedRun]:
        """Descriptions of those runs that have trained."""
        # All the others may have to be read before one is used, so each may be that much older.
        leisure = LEISURE * len(names)
        versions = {name: self._version(name) for name in names}
        known = {name: self._known[name] for name in names if name in self._known}
        fresh = {name for name, each in known.items() if each.is_fresh(versions[name], leisure)}
        stale = [name for name in names if name not in fresh or not languages <= known[name].languages]
        for done, name in enumerate(stale):
            if done and time.monotonic() > until:
                raise StillReadingError(len(names) - len(stale) + done, len(names))
            before = known.get(name)
            self._known[name] = self._read(
                name, versions[name], languages | (before.languages if before else languages)
            )
        self._free_memory(names)
        described = [run for name in names for run in self._known[name].described]
        if not described:
            raise NoTrainingError(", ".join(names))
        return described

    def _read(self, name: str, version: str, languages: frozenset[str]) -> _Known:
        began = time.thread_time()
        runs = self.logs.describe(name, sorted(languages))
        own = None
        if runs is None:
            path, known = self._path(name), self._known.get(name)
            own = known.own if known and known.own and known.own.folder == path else OwnRun(path)
            try:
                runs = self._described(name, own, sorted(languages))
                is_growing = time.time() - (path / "events.jsonl").stat().st_mtime < GROWING_SECONDS
            except NewerVersionError:  # the list of runs shows the reason
                return _Known(version, [], languages)
            except OSError:
                raise GoneError(name) from None
            if not is_growing:
                own, runs = None, [replace(each, run=_for_comparison(each.run)) for each in runs]
        return _Known(version, runs, languages, time.thread_time() - began, own)

    def _described(self, name: str, own: OwnRun, languages: Sequence[str]) -> list[DescribedRun]:
        log, can_sample = own.read(), (own.folder / "checkpoints" / "last").exists()
        resume = _resume_command(own.folder, log.runs[-1]) if can_sample and log.runs else None
        sources = [Source(self.folder.label(name), run, log, resume, can_sample) for run in log.runs[-1:]]
        return [describe_run(source, Options(), languages) for source in sources]

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise GoneError(name)
        return path

    def _version(self, name: str) -> str:
        if name in self.logs:
            return name  # it never changes
        try:
            return version_of(self._path(name))[0]
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
    return replace(run, steps=steps, series={})
