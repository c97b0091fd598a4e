"""The reports of runs and of pasted logs, as JSON for the page."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from nanoscope.analysis.analyse import Options
from nanoscope.errors import JobError
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.glance import version_of
from nanoscope.runs.own import OwnRun
from nanoscope.runs.reader import read_stream
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.report.payload import DescribedRun, Json, Source, describe, describe_run
from nanoscope.views.report.payload import payload as report_payload

MAX_STEPS_KEPT = 2_200_000  # of all runs in memory, at 72 bytes each
MAX_ANSWERS_KEPT = 6
PATIENCE_SECONDS = 0.7  # until the page gets a progress report instead
MAX_SECONDS_COUNTED = 1.5  # reading a long run for the first time says nothing about reading it again
LEISURE = 10  # what took a second to compute is computed again after ten seconds at the earliest


class GoneError(JobError):
    """A run does not exist, or no longer."""


class NoTrainingError(JobError):
    """There are no training steps in what was read."""


@dataclass
class StillReading:
    """Not all runs have been read yet: ask again."""

    done: int
    of: int


@dataclass
class _Cached:
    """Something computed from certain versions of runs: a description or an answer."""

    versions: dict[str, str]
    computed_at: float
    seconds: float  # of CPU time
    described: DescribedRun | None = None
    text: bytes = b""

    def is_fresh(self, versions: dict[str, str], leisure: float) -> bool:
        """Whether it is up to date, or too recent to be computed again."""
        return self.versions == versions or time.monotonic() - self.computed_at < leisure * self.seconds


class Reports:
    """Describes runs again when they have changed, but not too often: training needs the CPU."""

    def __init__(self, folder: WatchedFolder, language: str) -> None:
        self.folder, self.language = folder, language
        self._runs: OrderedDict[str, OwnRun] = OrderedDict()  # least recently used first
        self._described: dict[str, _Cached] = {}
        self._answers: OrderedDict[tuple[str, ...], _Cached] = OrderedDict()
        self._lock = threading.Lock()  # one computation at a time

    def answer(self, names: Sequence[str]) -> bytes | StillReading:
        """The payload of these runs as JSON, with the versions it shows and the seconds until it may change.

        Long work is done in pieces: the page gets the progress so far, and asks again.
        """
        key = tuple(dict.fromkeys(names))
        with self._lock:
            versions = {name: _version(self._path(name)) for name in key}
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
                described = self._describe(key, {name: _version(self._path(name)) for name in key})
                if not isinstance(described, StillReading):
                    return report_payload(described, language)

    def _describe(self, names: Sequence[str], versions: dict[str, str]) -> list[DescribedRun] | StillReading:
        """Descriptions of those runs that have trained, or the progress so far."""
        until = time.monotonic() + PATIENCE_SECONDS
        for done, name in enumerate(names):
            if done and time.monotonic() > until:
                return StillReading(done, len(names))
            known = self._described.get(name)
            # All the others may have to be read before this one is used, so it may be that much older.
            if known and known.is_fresh({name: versions[name]}, LEISURE * len(names)):
                continue
            began = time.thread_time()
            run = self._describe_last_run(name)
            seconds = time.thread_time() - began
            self._described[name] = _Cached({name: versions[name]}, time.monotonic(), seconds, run)
        self._free_memory(names)
        found = [run for name in names if (run := self._described[name].described) is not None]
        if not found:
            raise NoTrainingError(", ".join(names))
        return found

    def _describe_last_run(self, name: str) -> DescribedRun | None:
        path = self._path(name)
        run = self._runs.get(name)
        if run is None or run.folder != path:
            run = self._runs[name] = OwnRun(path)
        self._runs.move_to_end(name)
        try:
            log = run.read()
        except OSError:
            raise GoneError(name) from None
        except NewerVersionError:  # the list of runs shows the reason
            return None
        return describe_run(Source(self.folder.label(name), log.runs[-1], log), Options()) if log.runs else None

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise GoneError(name)
        return path

    def _free_memory(self, needed: Sequence[str]) -> None:
        """Keep the runs that were used last, as many as memory allows."""
        kept = 0
        for name in reversed(list(self._runs)):
            kept += self._runs[name].step_count
            if kept > MAX_STEPS_KEPT and name not in needed:
                del self._runs[name]
                self._described.pop(name, None)


def describe_log(content: bytes, name: str, options: Options, language: str) -> Json:
    """The payload of any log, with all its runs."""
    log = read_stream(BytesIO(content), name)
    if not log.runs:
        raise NoTrainingError(name)
    names = [f"{name}#{i}" for i in range(1, len(log.runs) + 1)] if len(log.runs) > 1 else [name]
    sources = [Source(each, run, log) for each, run in zip(names, log.runs, strict=True)]
    return describe(sources, options, language)


def _version(path: Path) -> str:
    try:
        return version_of(path)
    except OSError:
        raise GoneError(path.name) from None
