"""The folder that is watched: which runs are in it now, and how they are. It is only read, never written."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nanoscope.messages import printable
from nanoscope.runs.glance import Glance, find_runs, glance, is_plain_file, version_of
from nanoscope.runs.outline import Outline, Setting

SEARCH_SECONDS = 3.0  # between two searches for new runs; known ones are checked with every look
SEARCH_LEISURE = 40  # a search that took a second is repeated after this many at the earliest
OUTLINE_SECONDS = 0.25  # of each look, for the evaluations of runs that are not read to their end yet
MAX_RUNS = 2000
MAX_COLUMNS = 24  # settings that differ, of which each gets a column
NO_COLUMN = ("out_dir", "wandb_run_name", "run_name", "config", "init_from", "resume")  # they tell runs apart, not why


@dataclass(eq=False)
class Entry:
    """A run of the list."""

    path: Path
    glance: Glance
    outline: Outline
    events: str  # the path of its events
    seen: tuple[int, int, int] = (0, 0, 0)  # inode, size and time of its events
    outlined: str = ""  # the version that the outline has read
    state: str = ""
    text: str = ""  # as the page gets it
    told: tuple[Any, ...] = ()  # what the text was made of


class WatchedFolder:
    """The runs below `root`. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paths: dict[str, Path] = {}
        self._entries: dict[str, Entry] = {}
        self._search_at = 0.0
        self._lock = threading.Lock()
        self.total = 0
        """How many runs there are; the list has at most MAX_RUNS of them."""
        self.columns: list[str] = []
        """Settings that differ between the runs."""
        self.common: dict[str, Setting] = {}
        """Settings that are the same in all of them."""
        self.catching_up = False
        """Whether some runs are not read to their end yet."""
        self._compared: tuple[int, ...] = ()

    def look(self) -> dict[str, Entry]:
        """The runs as they are now, by name: live ones first, then the newest."""
        with self._lock:
            self._search()
            found = {name: entry for name, path in self._paths.items() if (entry := self._entry(name, path))}
            self._entries = found
            self._read_outlines(found.values())
            self._compare_settings(found.values())
            now = time.time()
            for name, entry in found.items():
                entry.state = _state(entry, now)
                self._describe(name, entry)
        ordered = sorted(
            found.items(), key=lambda item: (item[1].glance.state != "live", -item[1].glance.updated, item[0])
        )
        self.total = len(ordered)
        return dict(ordered[:MAX_RUNS])

    def label(self, name: str) -> str:
        """The name to show; if the watched folder is itself a run, the folder's name."""
        return printable(self.root.name if name == "." else name)

    def path(self, name: str) -> Path | None:
        """The folder of a listed run. A name is looked up, never turned into a path."""
        with self._lock:
            if name not in self._paths:
                self._search(at_once=True)
            path = self._paths.get(name)
        return path if path and is_plain_file(path / "events.jsonl") else None

    def _search(self, at_once: bool = False) -> None:
        begun = time.monotonic()
        if at_once or begun >= self._search_at:
            self._paths = find_runs(self.root)
            took = time.monotonic() - begun
            self._search_at = begun + max(SEARCH_SECONDS, SEARCH_LEISURE * took)

    def _entry(self, name: str, path: Path) -> Entry | None:
        known = self._entries.get(name)
        try:
            if known is not None:
                status = os.lstat(known.events)
                seen = (status.st_ino, status.st_size, status.st_mtime_ns)
                if seen == known.seen and known.glance.state != "live":
                    return known  # as nearly all of them, again and again
                known.seen = seen
            version = version_of(path)
        except OSError:
            return None  # deleted in the meantime
        if known is None:
            return Entry(path, glance(name, path, version), Outline(path), str(path / "events.jsonl"))
        if known.glance.version != version or known.glance.state == "live":  # its process may have ended
            known.glance = glance(name, path, version)
        return known

    def _read_outlines(self, entries: Iterable[Entry]) -> None:
        """What grows comes first: long files that are new wait until there is time."""
        until = time.monotonic() + OUTLINE_SECONDS
        behind = [entry for entry in entries if entry.outlined != entry.glance.version]
        for entry in sorted(behind, key=lambda entry: not entry.outlined):
            if time.monotonic() >= until:
                break
            try:
                if entry.outline.advance(until):
                    entry.outlined = entry.glance.version
            except OSError:
                entry.outlined = entry.glance.version
        self.catching_up = any(entry.outlined != entry.glance.version for entry in behind)

    def _compare_settings(self, entries: Iterable[Entry]) -> None:
        known = [entry.outline.settings for entry in entries if entry.outline.settings]
        compared = tuple(map(id, known))
        if compared == self._compared:
            return
        self._compared = compared
        values: dict[str, set[Setting]] = {}
        counts = Counter(name for settings in known for name in settings)
        for settings in known:
            for name, value in settings.items():
                values.setdefault(name, set()).add(value)
        differ = [name for name in values if len(values[name]) > 1 and name not in NO_COLUMN]
        self.columns = sorted(differ, key=lambda name: -counts[name])[:MAX_COLUMNS]
        self.common = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}

    def _describe(self, name: str, entry: Entry) -> None:
        """The entry as JSON, written anew only if something has changed."""
        seen, outline = entry.glance, entry.outline
        told = (seen.version, entry.state, entry.outlined, *self.columns)
        if entry.told == told:
            return
        entry.told = told
        best, best_step = outline.best
        entry.text = msgspec.json.encode({
            "name": name, "label": self.label(name), "state": entry.state, "version": seen.version,
            "updated": seen.updated, "step": seen.step, "total": seen.total, "loss": seen.loss, "val": seen.val,
            "best": best, "best_step": best_step, "nan_step": outline.nan_step, "tok_s": outline.tok_s,
            "eta_seconds": seen.eta_seconds, "reason": seen.reason, "compiled": outline.compiled,
            "settings": {name: value for name in self.columns if (value := outline.settings.get(name)) is not None},
            "spark": outline.spark,
        }).decode()  # fmt: skip


def _state(entry: Entry, now: float) -> str:
    seen, outline = entry.glance, entry.outline
    if seen.state != "live" or entry.outlined != seen.version:
        return seen.state
    if not outline.trained:
        return "starting"
    patience = outline.patience_seconds
    return "stalled" if patience is not None and now - seen.updated > patience else "live"
