"""A run at a glance: its state, from the beginning and the end of its events, however long they are."""

import os
import platform
import re
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import psutil

from nanoscope.checkpoint_files import BEST, STATE, read_pointer
from nanoscope.config_sources import read_run_config
from nanoscope.errors import JobError
from nanoscope.files import read_json, read_small
from nanoscope.runs.events import (
    COMPLETE,
    LARGEST,
    AnyEvent,
    End,
    EndReason,
    Eval,
    Iter,
    NewerVersionError,
    Start,
    decode,
)

Kind = TypeVar("Kind", bound=AnyEvent)
State = Literal["live", "finished", "stopped", "failed", "unreadable"]

HEAD_BYTES = 1 << 16  # holds the first event, with the whole configuration
TAIL_BYTES = 1 << 16
EVAL_SEARCH_BYTES = 1 << 22  # of the file's end, in which the best evaluation is searched
EVAL_SEARCH_LINES = 1000
SILENT_SECONDS = 120  # a run without a lock counts as stopped after this long without an event
REMOTE_SILENT_SECONDS = 900  # the same for one that another machine trains: its process cannot be looked up
MAX_DEPTH = 3  # of folders below the one that is watched
MAX_FOLDERS = 20_000
_MAX_ITERS = re.compile(rb"^max_iters = (\d{1,12})$", re.MULTILINE)
_WITHOUT_RUNS = ("checkpoints", "samples", "windows", "__pycache__", "node_modules")


@dataclass(frozen=True)
class Glance:
    """What a list of runs shows of one."""

    name: str
    state: State
    version: str
    """Changes whenever the events have changed."""
    updated: float = 0.0
    """Seconds since 1970."""
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    val: float | None = None
    best: float | None = None
    """The lowest validation loss."""
    eta_seconds: float | None = None
    reason: str | None = None
    """Why it is unreadable, if known."""


def find_runs(root: Path) -> dict[str, Path]:
    """Folders with events in and below `root`, by their path relative to it. Links are not followed."""
    found: dict[str, Path] = {}
    for seen, (place, folders, files) in enumerate(os.walk(root)):
        depth = len(Path(place).relative_to(root).parts)
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in _WITHOUT_RUNS and depth < MAX_DEPTH
        )
        name = Path(place).relative_to(root).as_posix()
        if "events.jsonl" in files and is_plain_file(Path(place) / "events.jsonl") and _is_utf8(name):
            found[name] = Path(place)
        if seen >= MAX_FOLDERS:
            break
    return found


def _is_utf8(name: str) -> bool:
    """Other names cannot be part of a URL."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_plain_file(path: Path) -> bool:
    """Whether it is a regular file: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def version_of(folder: Path) -> str:
    """The version of a run's events; OSError if they are gone or no regular file."""
    status = (folder / "events.jsonl").lstat()
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(folder)
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def glance(name: str, folder: Path, version: str) -> Glance:
    """Look at a run; one that cannot be read is listed as such."""
    path = folder / "events.jsonl"
    try:
        updated = path.stat().st_mtime
        with path.open("rb") as file:
            events, complete = _first_and_last(file)
    except OSError:
        return Glance(name, "unreadable", version)
    except NewerVersionError as error:
        return Glance(name, "unreadable", version, reason=str(error).splitlines()[0])
    if not events:
        return Glance(name, "live" if _is_alive(folder, updated) else "unreadable", version, updated)
    start, iteration, evaluation = _last(Start, events), _last(Iter, events), _last(Eval, events)
    latest = next((event for event in reversed(events) if isinstance(event, Start | Iter | Eval | End)), None)
    state: State
    step = iteration.step if iteration else None
    eta_seconds = None
    if isinstance(latest, End):
        state = _state_after(latest.reason)
        step = latest.step or step
    elif _is_alive(folder, updated):
        state = "live"
        eta_seconds = iteration.eta_seconds if iteration else None
    else:
        state = "stopped"
    return Glance(
        name, state, version, updated, step, _total_steps(folder, start),
        loss=iteration.loss if iteration else None,
        val=evaluation.val_loss if evaluation else None,
        best=_best(events, complete, folder),
        eta_seconds=eta_seconds,
    )  # fmt: skip


def newest_first(glances: Iterable[Glance]) -> list[Glance]:
    """Live runs first, then by the time of their last event."""
    return sorted(glances, key=lambda each: (each.state != "live", -each.updated, each.name))


def settings_of(folder: Path) -> dict[str, Any]:
    """The settings of a run: its own, which a resume may have changed, over those of its first event."""
    settings: dict[str, Any] = {}
    with suppress(OSError, NewerVersionError), (folder / "events.jsonl").open("rb") as file:
        start = _last(Start, _decoded(file.read(HEAD_BYTES).splitlines()[:1]))
        settings |= start.config if start else {}
    settings |= read_run_config(folder)[0]
    return {name: value for name, value in settings.items() if isinstance(value, str | int | float)}


def _first_and_last(file: BinaryIO) -> tuple[list[AnyEvent], bool]:
    """The first event and the last ones, and whether the best evaluation is among them for certain.

    Evaluations may be many steps ago: if the last lines don't settle what the best one is, more are searched.
    """
    first = _decoded(file.read(HEAD_BYTES).splitlines()[:1])
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    last = _decoded(file.read(TAIL_BYTES).splitlines())
    settled = any(map(_states_best, last))
    if size <= TAIL_BYTES or (settled and _last(Eval, last)):
        return first + last, True
    file.seek(max(0, size - EVAL_SEARCH_BYTES))
    earlier = _evaluations(file.read(EVAL_SEARCH_BYTES))
    return first + earlier + last, settled or size <= EVAL_SEARCH_BYTES or any(map(_states_best, earlier))


def _states_best(event: AnyEvent) -> bool:
    """Whether nothing before this event can have a lower validation loss than it states."""
    return (type(event) is Eval and event.best) or (type(event) is End and event.best_val_loss is not None)


def _best(events: list[AnyEvent], complete: bool, folder: Path) -> float | None:
    """The lowest validation loss; if it was too long ago to be found in the events, as the checkpoint states it."""
    losses: list[float] = []
    for event in events:
        if type(event) is Start and event.first_step == 0:
            losses.clear()
        loss = event.val_loss if type(event) is Eval else event.best_val_loss if type(event) is End else None
        if loss is not None:
            losses.append(loss)
    if not complete and (name := read_pointer(folder / "checkpoints", BEST)):
        with suppress(OSError, JobError, ValueError, LookupError, TypeError):
            losses.append(float(read_json(folder / "checkpoints" / name / STATE)["progress"]["best_val_loss"]))
    return min(losses, default=None)


def _decoded(lines: list[bytes]) -> list[AnyEvent]:
    return [event for event in map(decode, lines) if event is not None]


def _evaluations(text: bytes) -> list[AnyEvent]:
    """The last evaluations, back to one that was the best so far."""
    found: list[AnyEvent] = []
    end = len(text)
    for _ in range(EVAL_SEARCH_LINES):
        place = text.rfind(b'"eval"', 0, end)
        if place < 0:
            break
        stop = text.find(b"\n", place)
        end = text.rfind(b"\n", 0, place) + 1
        event = decode(text[end : stop if stop >= 0 else len(text)])
        if type(event) is Eval:
            found.append(event)
            if event.best:
                break
    return found[::-1]


def _last(kind: type[Kind], events: list[AnyEvent]) -> Kind | None:
    return next((event for event in reversed(events) if type(event) is kind), None)


def _total_steps(folder: Path, start: Start | None) -> int | None:
    """As config.toml says, because a resume may have changed it; otherwise as the start event says."""
    with suppress(OSError, JobError):
        said = _MAX_ITERS.search(read_small(folder / "config.toml", HEAD_BYTES))
        if said:
            return int(said[1])
    value = start.config.get("max_iters") if start else None
    return int(value) if isinstance(value, int | float) and abs(value) < LARGEST else None


def _state_after(reason: EndReason) -> State:
    return "finished" if reason in COMPLETE else "stopped" if reason == "interrupted" else "failed"


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
