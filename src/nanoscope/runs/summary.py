"""What a list shows of a run: its state, progress, settings and evaluations, for `runs`, `watch` and Python alike.

Everything but the iterations is searched for in the whole file of events, half a gigabyte per second, and later only in
what was appended. Of the iterations only the last lines are read, and a few from all over the file.
"""

import math
import os
import platform
import re
import stat
import time
from collections import deque
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import psutil

from nanoscope.errors import JobError
from nanoscope.estimates import median
from nanoscope.files import read_json
from nanoscope.runs.details import Setting, safe_settings
from nanoscope.runs.events import (
    COMPLETE,
    AnyEvent,
    End,
    Eval,
    Iter,
    NewerVersionError,
    NonFinite,
    Resume,
    Rollback,
    Start,
    decode,
)
from nanoscope.runs.growing import GrowingFile
from nanoscope.runs.own import EventReader
from nanoscope.runs.run import NOT_FINITE, Evaluation

State = Literal["starting", "live", "stalled", "finished", "stopped", "failed", "unreadable"]
ALIVE: tuple[State, ...] = ("starting", "live", "stalled")
"""The states of a run whose process runs."""

LAST_LINES = 40  # by which the usual time between two lines is judged
SPARK_POINTS = 28
SPARK_BYTES = 2048  # between two lines whose training loss is kept; twice as far whenever there are many
STALL_LINES, STALL_LONGEST, STALL_SECONDS = 10, 2, 15.0  # silence: times the usual, times the longest, at least
FIRST_LINES_SECONDS = 60.0  # the least silence where no usual time between lines is known yet
SILENT_SECONDS = 120  # a run without a lock counts as stopped after this long without an event
REMOTE_SILENT_SECONDS = 900  # the same for one that another machine trains: its process cannot be looked up
MAX_DEPTH = 3  # of folders below the one that is listed
MAX_FOLDERS = 20_000
_WITHOUT_RUNS = ("checkpoints", "samples", "windows", "__pycache__", "node_modules")
_NOT_ITER = re.compile(rb'"event"\s*:\s*"(?!i)')


class RunSummary:
    """One run, as it was when it was last looked at."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.state: State = "unreadable"
        self.version = ""
        """Changes whenever the events have changed."""
        self.updated = 0.0
        """Seconds since 1970."""
        self.complete = False
        """Whether the events were read to their end."""
        self._events = GrowingFile(folder / "events.jsonl", self._forget)
        self._path = str(self._events.path)
        self._forget()

    def _forget(self) -> None:
        self.reason: str | None = None
        """Why it is unreadable, if known."""
        self.sessions = 0
        self._reader = EventReader()  # of all events but the iterations
        self._next_loss = 0  # where in the file the next training loss is read
        self._begin()

    def _begin(self) -> None:
        """A run begins, perhaps anew in the same file."""
        self.settings: dict[str, Setting] = {}
        self.start: Start | None = None
        self.end: End | None = None
        self.trained = False  # since the last session began
        self.step: int | None = None
        self.loss: float | None = None
        self.val: float | None = None
        self.eta_seconds: float | None = None
        self.tok_s: float | None = None
        self.nan_step: int | None = None
        """Where the loss was not finite."""
        self._losses: list[tuple[int, float]] = []  # step and training loss, from all over the file
        self._apart = SPARK_BYTES
        self._last_lines: deque[float] = deque(maxlen=LAST_LINES)  # `t` of the last iterations
        self._line_seconds = self._eval_seconds = 0.0  # until the next line; of an evaluation

    # --- what is known ---

    @property
    def evaluations(self) -> list[Evaluation]:
        """Those that count: what a resume repeats does not."""
        return self._reader.run.evals if self._reader.run else []

    @property
    def total(self) -> int | None:
        """How many iterations it is set to take."""
        value = self.settings.get("max_iters")
        return int(value) if isinstance(value, int | float) else None

    @property
    def best(self) -> float | None:
        """The lowest validation loss."""
        return self.best_evaluation[0]

    @property
    def best_evaluation(self) -> tuple[float, int | None] | tuple[None, None]:
        """The lowest validation loss and its step."""
        finite = [(each.val, each.step) for each in self.evaluations if each.val != NOT_FINITE]
        if not finite and self.end is not None and self.end.best_val_loss is not None:
            return self.end.best_val_loss, self.end.best_step
        return min(finite, default=(None, None))

    @property
    def spark(self) -> list[float | None]:
        """A few validation losses from the whole run; without evaluations, training losses."""
        losses = [each.val for each in self.evaluations]
        if len(losses) < 2:
            losses = [loss for _, loss in self._losses]
        count = len(losses)
        places = range(count) if count <= SPARK_POINTS else [count * i // SPARK_POINTS for i in range(SPARK_POINTS)]
        return [_rounded(losses[i]) for i in (*places, *([count - 1] if count > SPARK_POINTS else []))]

    @property
    def patience_seconds(self) -> float:
        """How long a run that trains may be silent before it counts as stalled."""
        gaps = [after - before for before, after in pairwise(self._last_lines) if after > before]
        longest = STALL_LONGEST * max([*gaps, self._eval_seconds])
        if len(gaps) < 3:
            return max(FIRST_LINES_SECONDS, STALL_LINES * self._line_seconds, longest)
        return max(STALL_SECONDS, STALL_LINES * median(gaps), longest)

    # --- looking ---

    def look(self, until: float = math.inf) -> "RunSummary":
        """Read what was appended, until `time.monotonic()` is `until`. FileNotFoundError if the events are gone."""
        status = plain_status(self._path)
        version = version_of(status)
        if version != self.version or not self.complete:
            self.version, self.updated = version, status.st_mtime
            try:
                self.complete = self._read(until, status.st_size)
            except OSError:
                self.complete = True
        elif self.state not in ALIVE:
            return self  # as nearly all of them, again and again
        self.state = self._state()
        if self.state not in ALIVE:
            self.eta_seconds = None
        return self

    def _state(self) -> State:
        """The only place that decides it."""
        if self.reason is not None:
            return "unreadable"
        if self.end is not None:
            reason = self.end.reason
            return "finished" if reason in COMPLETE else "stopped" if reason == "interrupted" else "failed"
        if not _is_alive(self.folder, self.updated):
            return "stopped" if self.start is not None or self.step is not None or self.evaluations else "unreadable"
        if not self.trained:
            return "starting"
        return "stalled" if time.time() - self.updated > self.patience_seconds else "live"

    def _read(self, until: float, size: int) -> bool:
        recent = b""
        for piece in self._events.pieces():
            begun = self._add(piece)
            recent = ((recent if begun < 0 else b"") + piece[max(begun, 0) :])[-1000 * LAST_LINES :]
            if time.monotonic() >= until and self._events.offset < size:
                return False
        for line in recent.splitlines()[-LAST_LINES:]:
            event = self._decoded(line)
            if isinstance(event, Iter):
                self._note_iteration(event)
        if self.end is not None:
            self.step = self.end.step or self.step
        return True

    def _add(self, lines: bytes) -> int:
        """Note what these lines say, but for the last iterations; returns where in them a session begins, or -1."""
        begun = ended = -1
        for found in _NOT_ITER.finditer(lines):
            begin = lines.rfind(b"\n", 0, found.start()) + 1
            event = self._decoded(lines[begin : lines.find(b"\n", found.end())])
            begun = begin if isinstance(event, Start) else begun
            ended = begin if isinstance(event, End) else ended
            self._note(event)
        last = lines.rfind(b'"iter"')
        self.trained = self.trained or last > begun
        if last > ended:
            self.end = None
        if len(self.evaluations) < 2:
            self._keep_losses(lines, self._events.offset - len(lines))
        return begun

    def _decoded(self, line: bytes) -> AnyEvent | None:
        try:
            return decode(line)
        except NewerVersionError as error:
            self.reason = str(error).splitlines()[0]
            return None

    def _note(self, event: AnyEvent | None) -> None:
        self._reader.take_lines([event], 0)
        match event:
            case Eval(step=step, val_loss=val):
                if val is None and self.nan_step is None:
                    self.nan_step = step
                self.val, self.end, self._eval_seconds = val, None, event.seconds or 0.0
            case Start():
                if not event.first_step:
                    self._begin()
                self._last_lines.clear()
                self.start, self.end, self.trained, self.nan_step, self.eta_seconds = event, None, False, None, None
                self.sessions += 1
                self.settings = safe_settings(event.config)
            case Resume() | Rollback():
                self.nan_step = None
            case NonFinite(step=step):
                self.nan_step = step
            case End():
                self.end = event
                if event.reason == "non_finite" and self.nan_step is None:
                    self.nan_step = event.step

    def _note_iteration(self, event: Iter) -> None:
        self.step, self.loss, self.eta_seconds = event.step, event.loss, event.eta_seconds
        if event.t is not None and (not self._last_lines or event.t > self._last_lines[-1]):
            self._last_lines.append(event.t)
        if event.loss is None and self.nan_step is None:
            self.nan_step = event.step
        if event.tokens_per_second:
            self.tok_s = event.tokens_per_second
        every = self.settings.get("log_interval")
        self._line_seconds = (event.seconds or 0.0) * (every if isinstance(every, int | float) else 1)

    def _keep_losses(self, lines: bytes, begin: int) -> None:
        """Keep the training losses of a few lines; `begin` is where these lines stand in the file."""
        while self._next_loss < begin + len(lines):
            at = lines.rfind(b"\n", 0, max(0, self._next_loss - begin)) + 1
            event = self._decoded(lines[at : lines.find(b"\n", at)])
            if isinstance(event, Iter) and event.loss is not None:
                while self._losses and self._losses[-1][0] >= event.step:
                    self._losses.pop()
                self._losses.append((event.step, event.loss))
            if len(self._losses) >= 2 * SPARK_POINTS:
                del self._losses[1::2]
                self._apart *= 2
            self._next_loss += self._apart


def summary_of(folder: Path, name: str = "") -> RunSummary:
    """A run as it is now; without events that can be read it is 'unreadable'."""
    run = RunSummary(name, folder)
    with suppress(OSError):
        run.look()
    return run


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


# --- processes ---


def _is_alive(folder: Path, updated: float) -> bool:
    """Whether the training process is running; if that cannot be checked, whether it wrote recently."""
    silent_seconds = abs(time.time() - updated)
    try:
        lock = folder / "lock.json"
        holder = read_json(lock)
        if holder["host"] == platform.node():
            return _is_running(holder["pid"], lock.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError, JobError):
        return silent_seconds < SILENT_SECONDS
    return silent_seconds < REMOTE_SILENT_SECONDS


def _is_running(pid: Any, since: float) -> bool:
    """Whether the process runs and is older than the lock: process ids are reused."""
    try:
        return type(pid) is int and pid > 0 and psutil.Process(pid).create_time() <= since + 1
    except (psutil.Error, OverflowError):
        return False


# --- folders ---


def find_runs(root: Path) -> dict[str, Path]:
    """Folders with events in and below `root`, by their path relative to it. Links are not followed."""
    found: dict[str, Path] = {}
    for seen, (place, folders, files) in enumerate(os.walk(root)):
        depth = len(Path(place).relative_to(root).parts)
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in _WITHOUT_RUNS and depth < MAX_DEPTH
        )
        name = Path(place).relative_to(root).as_posix()
        is_utf8 = name.encode("utf-8", "replace").decode() == name  # other names cannot be part of a URL
        if "events.jsonl" in files and is_plain_file(Path(place) / "events.jsonl") and is_utf8:
            found[name] = Path(place)
        if seen >= MAX_FOLDERS:
            break
    return found


def newest_first(run: RunSummary) -> tuple[bool, float, str]:
    """The order of a list: live runs first, then by the time of the last event."""
    return run.state not in ALIVE, -run.updated, run.name


def plain_status(path: str | Path) -> os.stat_result:
    """The status of a regular file; FileNotFoundError for a link, a pipe or a device."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(path)
    return status


def is_plain_file(path: Path) -> bool:
    """Whether it is a regular file."""
    try:
        plain_status(path)
    except OSError:
        return False
    return True


def version_of(status: os.stat_result) -> str:
    """Changes whenever the file has changed."""
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"
