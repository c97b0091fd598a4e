"""A run at a glance: its state, from the beginning and the end of its events, however long they are."""

import json
import os
import platform
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import psutil

from nanoscope.errors import JobError
from nanoscope.runs.formats.nanoscope import LARGEST, OVER
from nanoscope.untrusted import read_json, read_small

State = Literal["live", "finished", "stopped", "failed", "unreadable"]

HEAD_BYTES = 1 << 16  # holds the first event, with the whole configuration
TAIL_BYTES = 1 << 16
FAR_BYTES = 1 << 22  # of the end, in which the last evaluation is looked for
SILENT_SECONDS = 120  # of a run that nobody says to train: after these it counts as stopped
FAR_SILENT_SECONDS = 900  # of one that is trained by another machine, where its process cannot be looked up
DEEPEST = 3  # folders below the one that is watched
MOST_FOLDERS = 20_000
_MAX_ITERS = re.compile(rb"^max_iters = (\d{1,12})$", re.MULTILINE)
_NO_RUNS_IN = ("checkpoints", "samples", "__pycache__", "node_modules")


@dataclass(frozen=True)
class Glance:
    """What a list of runs says about one."""

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
    eta_seconds: float | None = None


def find_runs(root: Path) -> dict[str, Path]:
    """Folders with events in and below `root`, by their path from there. Links are not followed: they may lead out."""
    found: dict[str, Path] = {}
    for seen, (place, folders, files) in enumerate(os.walk(root)):
        depth = len(Path(place).relative_to(root).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _NO_RUNS_IN and depth < DEEPEST)
        name = Path(place).relative_to(root).as_posix()
        if "events.jsonl" in files and is_plain_file(Path(place) / "events.jsonl") and _is_text(name):
            found[name] = Path(place)
        if seen >= MOST_FOLDERS:
            break
    return found


def _is_text(name: str) -> bool:
    """A name of bytes that are no text could not be asked for."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_plain_file(path: Path) -> bool:
    """Whether it is a file of its own: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def version_of(folder: Path) -> str:
    """Of a run's events; an error if they are gone, or something else is in their place."""
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
            first = _parsed(file.read(HEAD_BYTES).splitlines()[:1])
            evaluated = _parsed([_last_evaluation(file)])
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            last = _parsed(file.read(TAIL_BYTES).splitlines())
            events = [*first, *evaluated, *last]
    except OSError:
        return Glance(name, "unreadable", version)
    if not events:
        return Glance(name, "live" if _is_alive(folder, updated) else "unreadable", version, updated)
    latest = {event["event"]: event for event in events}
    step, eta = (_number(latest.get("iter", {}).get(key)) for key in ("step", "eta_seconds"))
    loss, val = _number(latest.get("iter", {}).get("loss")), _number(latest.get("eval", {}).get("val_loss"))
    end = next((event for event in reversed(events) if event["event"] in ("start", "iter", "eval", "end")), events[-1])
    ended = end["event"] == "end"
    state = _ending(end.get("reason")) if ended else "live" if _is_alive(folder, updated) else "stopped"
    if ended:
        step = _number(end.get("step")) or step
    total = _total(folder, latest.get("start", {}))
    if state != "live":
        eta = None
    return Glance(name, state, version, updated, _whole(step), _whole(total), loss, val, eta)


def _total(folder: Path, start: dict[str, Any]) -> float | None:
    """Steps the run is to have: as its configuration says, which a resume may have changed since the first event."""
    with suppress(OSError, JobError):
        said = _MAX_ITERS.search(read_small(folder / "config.toml", HEAD_BYTES))
        if said:
            return int(said[1])
    config = start.get("config")
    return _number(config.get("max_iters")) if isinstance(config, dict) else None


def _last_evaluation(file: BinaryIO) -> bytes:
    """The line of the last evaluation, which may be many steps ago."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - FAR_BYTES))
    _, found, line = file.read(FAR_BYTES).rpartition(b'\n{"event": "eval"')
    return (found + line.partition(b"\n")[0]) if found else b""


def _parsed(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                yield event


def _number(value: Any) -> float | None:
    return value if type(value) in (int, float) and abs(value) < LARGEST else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _ending(reason: Any) -> State:
    return "finished" if reason in OVER else "stopped" if reason == "interrupted" else "failed"


def _is_alive(folder: Path, updated: float) -> bool:
    """Whether the process that trains there still lives; where that cannot be seen, whether it wrote lately."""
    silent_seconds = abs(time.time() - updated)
    try:
        note = folder / "lock.json"
        holder = read_json(note)
        if holder["host"] == platform.node():
            return _is_running(holder["pid"], note.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError, JobError):
        return silent_seconds < SILENT_SECONDS
    return silent_seconds < FAR_SILENT_SECONDS


def _is_running(pid: Any, since: float) -> bool:
    """Whether it is still that process, and not another one that was given the same number later."""
    try:
        return type(pid) is int and pid > 0 and psutil.Process(pid).create_time() <= since + 1
    except (psutil.Error, OverflowError):
        return False
