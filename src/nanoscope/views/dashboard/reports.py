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
from nanoscope.views.report.payload import Json, Source, describe

MOST_STEPS_KEPT = 2_200_000  # of all runs that are kept in memory, at 72 bytes each
MOST_ANSWERS_KEPT = 6
LEISURE = 10  # a selection that took a second to describe is described again after ten


class GoneError(JobError):
    """A run is not there, or no longer."""


class NoTrainingError(JobError):
    """Nothing that was read is a step of training."""


@dataclass
class _Answer:
    versions: dict[str, str]
    text: bytes
    made_at: float
    seconds: float


class Reports:
    """Descriptions of runs, made anew when the runs have changed, but at leisure: training comes first."""

    def __init__(self, folder: WatchedFolder, language: str) -> None:
        self.folder, self.language = folder, language
        self._followed: OrderedDict[str, FollowedRun] = OrderedDict()
        self._answers: OrderedDict[tuple[str, ...], _Answer] = OrderedDict()
        self._lock = threading.RLock()  # one description at a time

    def answer(self, names: Sequence[str]) -> bytes:
        """The payload of these runs as JSON, with the versions it was made of and the seconds until it may change."""
        key = tuple(dict.fromkeys(names))
        with self._lock:
            versions = {name: _version(self._path(name)) for name in key}
            known = self._answers.get(key)
            now = time.monotonic()
            if known and (known.versions == versions or now - known.made_at < LEISURE * known.seconds):
                self._answers.move_to_end(key)
                return known.text
            payload = self.payload(key, self.language)
            seconds = time.monotonic() - now
            payload |= {"versions": versions, "leisure_seconds": LEISURE * seconds}
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            self._answers[key] = _Answer(versions, text, time.monotonic(), seconds)
            while len(self._answers) > MOST_ANSWERS_KEPT:
                self._answers.popitem(last=False)
            return text

    def payload(self, names: Sequence[str], language: str) -> Json:
        """What there is to show of these runs; several are compared."""
        with self._lock:
            sources = []
            for name in names:
                followed = self._follow(name)
                try:
                    log = followed.update()
                except OSError:
                    raise GoneError(name) from None
                if log.runs:
                    sources.append(Source(self.folder.label(name), log.runs[-1], log, followed.facts))
            self._forget()
            if not sources:
                raise NoTrainingError(", ".join(names))
            return describe(sources, Options(), language)

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

    def _forget(self) -> None:
        """Keep the runs that were last looked at, as many as memory allows."""
        kept = 0
        for name in reversed(list(self._followed)):
            kept += self._followed[name].records
            if kept > MOST_STEPS_KEPT:
                del self._followed[name]


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
