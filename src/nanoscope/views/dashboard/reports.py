"""The reports of runs and of kept logs, as JSON for the page."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.messages import Text
from nanoscope.runs.glance import version_of
from nanoscope.runs.own import OwnRun
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.dashboard.logs import KeptLogs
from nanoscope.views.dashboard.reading import Reading, read_run
from nanoscope.views.report.payload import DescribedRun, Json
from nanoscope.views.report.payload import payload as report_payload

MAX_STEPS_KEPT = 1_000_000  # of runs that may grow, at 104 bytes each
MAX_DESCRIBED = 60  # runs whose description is kept
MAX_ANSWERS_KEPT = 4
PATIENCE_SECONDS = 0.7  # until the page gets a progress report instead
MAX_SECONDS_COUNTED = 1.5  # reading a long run for the first time says nothing about reading it again
LEISURE = 25  # what took a second to compute is computed again after so many seconds at the earliest


class GoneError(JobError):
    """A run does not exist, or no longer."""

    def __init__(self, name: str) -> None:
        super().__init__(Text("There is no run {name}.", name=name))


class NoTrainingError(JobError):
    """There are no training steps in what was read."""

    def __init__(self, name: str) -> None:
        super().__init__(Text("No training step was found in {path}: there is nothing to show.", path=name))


@dataclass
class StillReading:
    """Not all runs have been read yet: ask again."""

    done: int
    of: int


@dataclass
class _Cached:
    """Something computed from certain versions of runs: descriptions or an answer."""

    versions: dict[str, str]
    computed_at: float
    seconds: float  # of CPU time
    described: list[DescribedRun] = field(default_factory=list)
    text: bytes = b""

    def is_fresh(self, versions: dict[str, str], leisure: float) -> bool:
        """Whether it is up to date, or too recent to be computed again."""
        return self.versions == versions or time.monotonic() - self.computed_at < leisure * self.seconds


class Reports:
    """Describes runs again when they have changed, but not too often: training needs the CPU."""

    def __init__(self, folder: WatchedFolder, logs: KeptLogs, language: str) -> None:
        self.folder, self.logs, self.language = folder, logs, language
        self._runs: OrderedDict[str, OwnRun] = OrderedDict()  # that may grow; least recently used first
        self._described: OrderedDict[str, _Cached] = OrderedDict()
        self._answers: OrderedDict[tuple[str, ...], _Cached] = OrderedDict()
        self._lock = threading.Lock()  # one computation at a time

    def answer(self, names: Sequence[str]) -> bytes | StillReading:
        """The payload of these runs as JSON, with the versions it shows and the seconds until it may change.

        Long work is done in pieces: the page gets the progress so far, and asks again.
        """
        key = tuple(dict.fromkeys(names))
        with self._lock:
            versions = {name: self._version(name) for name in key}
            known = self._answers.get(key)
            if known and known.is_fresh(versions, LEISURE):
                self._answers.move_to_end(key)
                return known.text
            began = time.thread_time()
            described = self._describe(key, versions)
            if isinstance(described, StillReading):
                return described
            payload = report_payload(described, self.language)
            # Cached descriptions may be older than `versions`: say what is shown.
            shown = {name: self._described[name].versions[name] for name in key if name in self._described}
            seconds = min(time.thread_time() - began, MAX_SECONDS_COUNTED)
            payload |= {"versions": shown, "leisure_seconds": LEISURE * seconds}
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            self._answers[key] = _Cached(shown, time.monotonic(), seconds, text=text)
            while len(self._answers) > MAX_ANSWERS_KEPT:
                self._answers.popitem(last=False)
            return text

    def payload(self, names: Sequence[str], language: str) -> Json:
        """The payload of these runs, however long it takes."""
        key = tuple(dict.fromkeys(names))
        while True:
            with self._lock:
                described = self._describe(key, {name: self._version(name) for name in key})
                if not isinstance(described, StillReading):
                    return report_payload(described, language)

    def take_log(self, key: str, described: list[DescribedRun]) -> None:
        """A log that was described just now need not be described again."""
        with self._lock:
            self._described[key] = _Cached({key: key}, time.monotonic(), 0.0, described)

    def _describe(self, names: Sequence[str], versions: dict[str, str]) -> list[DescribedRun] | StillReading:
        """Descriptions of those runs that have trained, or the progress so far."""
        until = time.monotonic() + PATIENCE_SECONDS
        # All the others may have to be read before one is used, so each may be that much older.
        leisure = LEISURE * len(names)
        known = self._described
        stale = [
            name for name in names if name not in known or not known[name].is_fresh({name: versions[name]}, leisure)
        ]
        for done, name in enumerate(stale):
            if done and time.monotonic() > until:
                return StillReading(len(names) - len(stale) + done, len(names))
            self._keep(name, versions[name], self._read(name))
        self._free_memory(names)
        described = [run for name in names for run in known[name].described]
        if not described:
            raise NoTrainingError(", ".join(names))
        return described

    def _read(self, name: str) -> Reading:
        began = time.thread_time()
        described = self.logs.describe(name)
        if described is not None:
            return Reading(described, None, time.thread_time() - began)
        path = self._path(name)
        own = self._runs.get(name)
        try:
            return read_run(path, self.folder.label(name), own if own and own.folder == path else None)
        except OSError:
            raise GoneError(name) from None

    def _keep(self, name: str, version: str, reading: Reading) -> None:
        self._described[name] = _Cached({name: version}, time.monotonic(), reading.seconds, reading.runs)
        self._runs.pop(name, None)
        if reading.own is not None:
            self._runs[name] = reading.own

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise GoneError(name)
        return path

    def _version(self, name: str) -> str:
        if name in self.logs:
            return name  # it never changes
        try:
            return version_of(self._path(name))
        except OSError:
            raise GoneError(name) from None

    def _free_memory(self, needed: Sequence[str]) -> None:
        """Keep the runs that were used last, as many as memory allows."""
        for name in needed:
            self._described.move_to_end(name)
            if name in self._runs:
                self._runs.move_to_end(name)
        kept = 0
        for name in reversed(list(self._runs)):
            kept += self._runs[name].step_count
            if kept > MAX_STEPS_KEPT and name not in needed:
                del self._runs[name]
                self._described.pop(name, None)
        for name in list(self._described)[: max(0, len(self._described) - MAX_DESCRIBED)]:
            if name not in needed:
                del self._described[name]
