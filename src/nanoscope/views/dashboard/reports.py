"""What the page shows of runs and of pasted logs, as JSON."""

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
from nanoscope.runs.folder import RunFolderFacts
from nanoscope.runs.follow import FollowedRun
from nanoscope.runs.glance import version_of
from nanoscope.runs.reader import read_stream
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.report.payload import DescribedRun, Json, Source, describe, describe_run
from nanoscope.views.report.payload import payload as report_payload

MOST_STEPS_KEPT = 2_200_000  # of all runs that are kept in memory, at 72 bytes each
MOST_ANSWERS_KEPT = 6
PATIENCE_SECONDS = 0.7  # until somebody is told how far it is
MOST_SECONDS_COUNTED = 1.5  # a long run that is read for the first time will be read much faster the next time
LEISURE = 10  # a selection that took a second to describe is described again after ten


class GoneError(JobError):
    """A run is not there, or no longer."""


class NoTrainingError(JobError):
    """Nothing that was read is a step of training."""


@dataclass
class Reading:
    """Not all the runs have been read yet: ask again."""

    done: int
    of: int


@dataclass
class _Made:
    """Something that was made of runs as they were: a description, or an answer."""

    versions: dict[str, str]
    made_at: float
    seconds: float  # of work, not counting what else the machine did
    described: DescribedRun | None = None
    text: bytes = b""

    def will_do(self, versions: dict[str, str], leisure: float) -> bool:
        """Whether it is up to date, or too young to be made again."""
        return self.versions == versions or time.monotonic() - self.made_at < leisure * self.seconds


class Reports:
    """Descriptions of runs, made anew when the runs have changed, but at leisure: training comes first."""

    def __init__(self, folder: WatchedFolder, language: str) -> None:
        self.folder, self.language = folder, language
        self._followed: OrderedDict[str, FollowedRun] = OrderedDict()
        self._described: dict[str, _Made] = {}
        self._answers: OrderedDict[tuple[str, ...], _Made] = OrderedDict()
        self._lock = threading.Lock()  # one piece of work at a time

    def answer(self, names: Sequence[str]) -> bytes | Reading:
        """The payload of these runs as JSON, with the versions it was made of and the seconds until it may change.

        What takes long is done piece by piece: whoever asks is told how far it is, and asks again.
        """
        key = tuple(dict.fromkeys(names))
        with self._lock:
            versions = {name: _version(self._path(name)) for name in key}
            known = self._answers.get(key)
            if known and known.will_do(versions, LEISURE):
                self._answers.move_to_end(key)
                return known.text
            began = time.thread_time()
            described = self._describe(key, versions)
            if isinstance(described, Reading):
                return described
            payload = report_payload(described, self.language)
            # What was described earlier may be older than the versions are now: say what is shown.
            shown = {name: self._described[name].versions[name] for name in key if name in self._described}
            seconds = min(time.thread_time() - began, MOST_SECONDS_COUNTED)
            payload |= {"versions": shown, "leisure_seconds": LEISURE * seconds}
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            self._answers[key] = _Made(shown, time.monotonic(), seconds, text=text)
            while len(self._answers) > MOST_ANSWERS_KEPT:
                self._answers.popitem(last=False)
            return text

    def payload(self, names: Sequence[str], language: str) -> Json:
        """What there is to show of these runs now, however long it takes."""
        key = tuple(dict.fromkeys(names))
        while True:
            with self._lock:
                described = self._describe(key, {name: _version(self._path(name)) for name in key})
                if not isinstance(described, Reading):
                    return report_payload(described, language)

    def _describe(self, names: Sequence[str], versions: dict[str, str]) -> list[DescribedRun] | Reading:
        """Descriptions of the runs that have trained; after a while, how far it is."""
        until = time.monotonic() + PATIENCE_SECONDS
        for done, name in enumerate(names):
            if done and time.monotonic() > until:
                return Reading(done, len(names))
            known = self._described.get(name)
            # All of the others may have to be read before this one is needed: it may be that much older.
            if known and known.will_do({name: versions[name]}, LEISURE * len(names)):
                continue
            began = time.thread_time()
            followed = self._follow(name)
            try:
                log = followed.update()
            except OSError:
                raise GoneError(name) from None
            run = None
            if log.runs:
                source = Source(self.folder.label(name), log.runs[-1], log, followed.facts)
                run = describe_run(source, Options())
            seconds = time.thread_time() - began
            self._described[name] = _Made({name: versions[name]}, time.monotonic(), seconds, run)
        self._forget(names)
        described = [self._described[name].described for name in names]
        found = [each for each in described if each is not None]
        if not found:
            raise NoTrainingError(", ".join(names))
        return found

    def _follow(self, name: str) -> FollowedRun:
        path = self._path(name)
        followed = self._followed.get(name)
        if followed is None or followed.folder != path:
            followed = self._followed[name] = FollowedRun(path)
        self._followed.move_to_end(name)
        return followed

    def _path(self, name: str) -> Path:
        path = self.folder.path(name)
        if path is None:
            raise GoneError(name)
        return path

    def _forget(self, needed: Sequence[str]) -> None:
        """Keep the runs that were last looked at, as many as memory allows."""
        kept = 0
        for name in reversed(list(self._followed)):
            kept += self._followed[name].records
            if kept > MOST_STEPS_KEPT and name not in needed:
                del self._followed[name]
                self._described.pop(name, None)


def describe_log(content: bytes, name: str, options: Options, language: str) -> Json:
    """The payload of anybody's log; of all the runs in it."""
    log = read_stream(BytesIO(content), name)
    if not log.runs:
        raise NoTrainingError(name)
    names = [f"{name}#{i}" for i in range(1, len(log.runs) + 1)] if len(log.runs) > 1 else [name]
    sources = [Source(each, run, log, RunFolderFacts()) for each, run in zip(names, log.runs, strict=True)]
    return describe(sources, options, language)


def _version(path: Path) -> str:
    try:
        return version_of(path)
    except OSError:
        raise GoneError(path.name) from None
