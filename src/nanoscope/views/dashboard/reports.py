"""The reports of runs and of kept logs, as JSON for the page. What was read is kept, and read on as a run grows."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.exceptions import HTTPException

from nanoscope.findings.analyse import Options
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.load_many import NamedRun
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import Run, Steps
from nanoscope.runs.summary import version_of
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.dashboard.logs import KeptLogs
from nanoscope.views.report.payload import DescribedRun, Payload, describe_run
from nanoscope.views.report.payload import payload as report_payload

MAX_STEPS_KEPT = 1_000_000  # of runs that may grow, at 104 bytes each
DESCRIPTION_STEPS = 16_000  # that a run without its steps takes the memory of
GROWING_SECONDS = 600  # a file that was written to within this time may go on
PATIENCE_SECONDS = 0.7  # until the page gets a progress report instead
MAX_SECONDS_COUNTED = 1.5  # reading a long run for the first time says nothing about reading it again
LEISURE = 25  # what took a second to compute is computed again after so many seconds at the earliest


def gone() -> HTTPException:
    """A run does not exist, or no longer."""
    return HTTPException(404, "gone")


def no_training() -> HTTPException:
    """There are no training steps in what was read."""
    return HTTPException(422, "no_training")


@dataclass(eq=False)
class StillReadingError(Exception):
    """Not all runs have been read yet: ask again."""

    done: int
    of: int


@dataclass
class _Known:
    """What was read of one run or log."""

    version: str
    described: list[DescribedRun]  # none if it has not trained yet
    own: OwnRun | None = None  # to read on from there, if the run may grow
    seconds: float = 0.0  # of CPU time, that reading and describing it took
    read_at: float = field(default_factory=time.monotonic)

    @property
    def memory(self) -> int:
        """What it takes, in steps."""
        return DESCRIPTION_STEPS + (self.own.step_count if self.own else 0)


class Reports:
    """Describes runs again when they have changed, but not too often: training needs the CPU."""

    def __init__(self, folder: WatchedFolder, logs: KeptLogs) -> None:
        self.folder, self.logs = folder, logs
        self._known: OrderedDict[str, _Known] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()  # one computation at a time

    def answer(
        self, names: Sequence[str], language: str, languages: Sequence[str], patience: float = PATIENCE_SECONDS
    ) -> Payload:
        """What a page shows of these runs, with the seconds until it may change.

        Long work is done in pieces: StillReadingError tells the page how far it is, and the page asks again.
        """
        began = time.thread_time()
        with self._lock:
            described = self._describe(list(dict.fromkeys(names)), time.monotonic() + patience)
            payload = report_payload(described, language, languages)
            # What is known may be older than the files: say what is shown.
            payload.versions = {name: self._known[name].version for name in names}
        payload.leisure_seconds = LEISURE * min(time.thread_time() - began, MAX_SECONDS_COUNTED)
        return payload

    def add_log(self, content: bytes | bytearray, name: str, options: Options) -> str:
        """Keep a log: its name in addresses. What was read of it need not be read again."""
        key, described = self.logs.add(content, name, options)
        if not described:
            raise no_training()
        with self._lock:
            self._known[key] = _Known(key, described)
        return key

    def _describe(self, names: Sequence[str], until: float) -> list[DescribedRun]:
        """Descriptions of those runs that have trained."""
        # All the others may have to be read before one is used, so each may be that much older.
        leisure = LEISURE * len(names)
        stale = [(name, version) for name in names if not self._is_fresh(name, version := self._version(name), leisure)]
        for done, (name, version) in enumerate(stale):
            if done and time.monotonic() > until:
                raise StillReadingError(len(names) - len(stale) + done, len(names))
            self._known[name] = self._read(name, version)
        self._free_memory(names)
        described = [run for name in names for run in self._known[name].described]
        if not described:
            raise no_training()
        return described

    def _is_fresh(self, name: str, version: str, leisure: float) -> bool:
        """Whether what is known is up to date, or too recent to be computed again."""
        known = self._known.get(name)
        return known is not None and (
            known.version == version or time.monotonic() - known.read_at < leisure * known.seconds
        )

    def _read(self, name: str, version: str) -> _Known:
        if name in self.logs:
            return _Known(version, self.logs.describe(name))
        began, before, path = time.thread_time(), self._known.get(name), self._path(name)
        own = before.own if before and before.own and before.own.folder == path else OwnRun(path)
        try:
            runs = self._described(name, own)
            is_growing = time.time() - (path / "events.jsonl").stat().st_mtime < GROWING_SECONDS
        except NewerVersionError:  # the list of runs shows the reason
            return _Known(version, [])
        except OSError:
            raise gone() from None
        if is_growing:
            return _Known(version, runs, own, time.thread_time() - began)
        return _Known(version, [replace(each, run=_for_comparison(each.run)) for each in runs])

    def _described(self, name: str, own: OwnRun) -> list[DescribedRun]:
        log, label, found = own.read(), self.folder.label(name), []
        for run in log.runs[-1:]:
            described = describe_run(NamedRun(label, name, run, log), Options())
            if (own.folder / "checkpoints" / "last").exists():
                described.numbers.can_sample, described.numbers.resume = True, _resume_command(own.folder, run)
            found.append(described)
        return found

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise gone()
        return path

    def _version(self, name: str) -> str:
        if name in self.logs:
            return name  # it never changes
        try:
            return version_of(self._path(name))[0]
        except OSError:
            raise gone() from None

    def _free_memory(self, needed: Sequence[str]) -> None:
        """Keep the runs that were used last, as many as memory allows."""
        for name in needed:
            self._known.move_to_end(name)
        memory = 0
        for name, known in reversed(list(self._known.items())):
            memory += known.memory
            if memory > MAX_STEPS_KEPT and name not in needed:
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
