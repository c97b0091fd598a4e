"""Logs that somebody pasted or dropped: kept in memory, with an address, until they are removed."""

import secrets
import threading
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, cast

from nanoscope.findings.analyse import Options
from nanoscope.runs.files import unpacked
from nanoscope.runs.reader import read_stream
from nanoscope.views.dashboard.folder import ListedRun
from nanoscope.views.report.payload import DescribedRun, Source, describe_run

PREFIX = "log:"
MAX_LOGS = 20
MAX_BYTES = 48_000_000  # of all logs, compressed; the oldest goes first
ZLIB_LEVEL = 1
MOST_UNPACKED = 256_000_000  # bytes of one log
MOST_SECONDS = 20.0  # to read one


@dataclass(frozen=True)
class Log:
    name: str
    content: bytes  # compressed
    options: Options
    added: float
    text: str  # its entry of the list, as JSON


class KeptLogs:
    """The logs by their name in addresses (log:x8Yd…). Safe to use from several threads."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, Log] = OrderedDict()
        self._lock = threading.Lock()

    def entries(self) -> dict[str, str]:
        """Entries of the list of runs, newest first."""
        with self._lock:
            return {key: log.text for key, log in reversed(self._logs.items())}

    def keep(self, name: str, content: bytes, options: Options, runs: list[DescribedRun]) -> str:
        """Keep a log that was described; returns its name in addresses."""
        key = PREFIX + secrets.token_urlsafe(8)
        last = runs[-1]
        best = last.analysis.evals.best_val if last.analysis.evals else None
        now = time.time()
        text = ListedRun(
            key, name, "log", key, now, last.run.last_step, last.analysis.progress.total_steps, best=best,
            best_step=last.analysis.evals.best_step if last.analysis.evals else None,
        ).json()  # fmt: skip
        with self._lock:
            self._logs[key] = Log(name, zlib.compress(content, ZLIB_LEVEL), options, now, text)
            while len(self._logs) > MAX_LOGS or sum(len(log.content) for log in self._logs.values()) > MAX_BYTES:
                self._logs.popitem(last=False)
        return key

    def remove(self, key: str) -> bool:
        with self._lock:
            return self._logs.pop(key, None) is not None

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return key in self._logs

    def describe(self, key: str) -> list[DescribedRun] | None:
        """The runs of a kept log, or None if it was removed."""
        with self._lock:
            log = self._logs.get(key)
        return describe_log(zlib.decompress(log.content), log.name, log.options) if log else None


class TooLargeError(Exception):
    """A log unpacks to more than a page needs, or takes too long to read."""


class _Bounded:
    """A stream that ends with TooLargeError after so many bytes or seconds: others wait for their logs meanwhile."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left, self._until = stream, MOST_UNPACKED, time.monotonic() + MOST_SECONDS

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0 or time.monotonic() > self._until:
            raise TooLargeError("too large")
        return chunk


def describe_log(content: bytes, name: str, options: Options) -> list[DescribedRun]:
    """All runs of any log; none if it holds no training. TooLargeError if it takes too much time or memory."""
    log = read_stream(cast("BinaryIO", _Bounded(unpacked(BytesIO(content)))), name)
    names = [name] if len(log.runs) == 1 else [f"{name}#{i}" for i in range(1, len(log.runs) + 1)]
    return [describe_run(Source(each, run, log), options) for each, run in zip(names, log.runs, strict=True)]
