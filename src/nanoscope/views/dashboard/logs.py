"""Logs that somebody pasted or dropped: kept with an address until they are removed, over a restart too."""

import hashlib
import secrets
import threading
import time
import zlib
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from starlette.exceptions import HTTPException

from nanoscope.files import cache_folder, write_atomically
from nanoscope.findings.analyse import Options
from nanoscope.runs.files import unpacked
from nanoscope.runs.load_many import NamedRun
from nanoscope.runs.reader import read_stream
from nanoscope.runs.run import Log
from nanoscope.views.dashboard.folder import ListedRun
from nanoscope.views.report.payload import DescribedRun, describe_run
from nanoscope.words.language import Language

PREFIX = "log:"
MAX_LOGS = 20
MAX_BYTES = 48_000_000  # of all logs, compressed; the oldest goes first
ZLIB_LEVEL = 1
MOST_UNPACKED = 256_000_000  # bytes of one log
MOST_SECONDS = 20.0  # to read one


class KeptLog(msgspec.Struct, frozen=True):
    """A log as it is stored."""

    listed: ListedRun
    content: bytes  # compressed
    options: Options


class KeptLogs:
    """The logs by their name in addresses (log:x8Yd…). Safe to use from several threads."""

    def __init__(self, watched: Path) -> None:
        # Not in the watched folder, which is only read.
        self._folder = cache_folder() / "logs" / hashlib.sha256(str(watched.resolve()).encode()).hexdigest()[:16]
        self._lock = threading.Lock()
        found = []
        for path in self._folder.glob("*.log") if self._folder.is_dir() else ():
            with suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.msgpack.decode(path.read_bytes(), type=KeptLog))
        self._logs = {log.listed.name: log for log in sorted(found, key=lambda log: log.listed.updated)}

    def listed(self) -> dict[str, ListedRun]:
        """Entries of the list of runs, newest first."""
        with self._lock:
            return {key: log.listed for key, log in reversed(self._logs.items())}

    def add(self, content: bytes | bytearray, name: str, options: Options) -> tuple[str, list[DescribedRun]]:
        """Read a log and keep it: its name in addresses, and its runs. Without a training nothing is kept."""
        log = _read(content)
        name = self._free_name(name or _trainer(log))
        runs = _described(log, name, options)
        key = PREFIX + secrets.token_urlsafe(8)
        if runs:
            self._keep(KeptLog(_listed(key, name, runs[-1]), zlib.compress(content, ZLIB_LEVEL), options))
        return key, runs

    def _keep(self, log: KeptLog) -> None:
        key = log.listed.name
        with self._lock:
            self._logs[key] = log
            with suppress(OSError):  # then it is kept as long as the server runs
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomically(self._path(key), msgspec.msgpack.encode(log))
            while len(self._logs) > MAX_LOGS or sum(len(log.content) for log in self._logs.values()) > MAX_BYTES:
                self._remove(next(iter(self._logs)))

    def remove(self, key: str) -> bool:
        """Whether there was such a log."""
        with self._lock:
            return self._remove(key)

    def _remove(self, key: str) -> bool:
        if self._logs.pop(key, None) is None:
            return False
        with suppress(OSError):
            self._path(key).unlink()
        return True

    def _path(self, key: str) -> Path:
        return self._folder / f"{key.removeprefix(PREFIX)}.log"

    def __contains__(self, key: str) -> bool:
        return key in self._logs

    def describe(self, key: str) -> list[DescribedRun]:
        """The runs of a kept log."""
        log = self._logs.get(key)
        if log is None:  # removed in the meantime
            raise HTTPException(404, "gone")
        return _described(_read(zlib.decompress(log.content)), log.listed.label, log.options)

    def _free_name(self, name: str) -> str:
        taken = {kept.listed.label for kept in self._logs.values()}
        names = (f"{name} {n}" if n > 1 else name for n in range(1, MAX_LOGS + 2))
        return next(each for each in names if each not in taken)


class _Bounded:
    """A stream that is too large after so many bytes or seconds: others wait for their logs meanwhile."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left, self._until = stream, MOST_UNPACKED, time.monotonic() + MOST_SECONDS

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0 or time.monotonic() > self._until:
            raise HTTPException(413, "too_large")
        return chunk


def _read(content: bytes | bytearray) -> Log:
    """Any log, unless it takes too much time or memory."""
    return read_stream(cast("BinaryIO", _Bounded(unpacked(BytesIO(content)))), "log")


def _described(log: Log, name: str, options: Options) -> list[DescribedRun]:
    names = [name] if len(log.runs) == 1 else [f"{name}#{i}" for i in range(1, len(log.runs) + 1)]
    return [describe_run(NamedRun(each, name, run, log), options) for each, run in zip(names, log.runs, strict=True)]


def _trainer(log: Log) -> str:
    """What to call a log without a name: the trainer and the size of its model."""
    size = log.runs[-1].config.get("parameters") if log.runs else None
    trainer = "log" if log.format in ("generic", "none") else log.format
    return f"{trainer} {Language('en').large(size)}" if isinstance(size, int | float) else trainer


def _listed(key: str, name: str, run: DescribedRun) -> ListedRun:
    numbers, total = run.numbers, run.analysis.progress.total_steps
    listed = ListedRun(key, name, "log", key, time.time(), run.run.last_step, total, kind=numbers.metric)
    listed.best_step, listed.best = numbers.best or (None, None)
    return listed
