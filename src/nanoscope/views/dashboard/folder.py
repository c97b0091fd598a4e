"""The folder that is watched: which runs are in it now, and how they are. It is only read, never written."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nanoscope.files import is_plain_file
from nanoscope.messages import printable
from nanoscope.runs.details import Setting
from nanoscope.runs.summary import RunSummary, find_runs, newest_first

SEARCH_SECONDS = 3.0  # between two searches for new runs; known ones are checked with every look
SEARCH_LEISURE = 40  # a search that took a second is repeated after this many at the earliest
READ_SECONDS = 5.0  # of each look; runs that are not read to their end yet are listed later
MAX_RUNS = 2000
MAX_COLUMNS = 24  # settings that differ, of which each gets a column
NO_COLUMN = ("out_dir", "wandb_run_name", "run_name", "config", "init_from", "resume")  # they tell runs apart, not why


class ListedRun(msgspec.Struct):
    """An entry of the list, as the page gets it."""

    name: str
    label: str
    state: str
    version: str
    updated: float
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    val: float | None = None
    best: float | None = None
    best_step: int | None = None
    nan_step: int | None = None
    tok_s: float | None = None
    eta_seconds: float | None = None
    reason: str | None = None
    compiled: bool | None = None
    kind: str = "loss"  # losses of another kind are not ranked with it: another unit, or other data
    settings: dict[str, Setting] = {}
    spark: list[float | None] = []

    def json(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(eq=False)
class Entry:
    """A run of the list."""

    summary: RunSummary
    text: str = ""  # as the page gets it
    text_of: tuple[Any, ...] = field(default=())  # what the text was made of


class WatchedFolder:
    """The runs below `root`. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
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
            entries = self._read()
            self._compare_settings([entry.summary.settings for entry in entries if entry.summary.settings])
            for entry in entries:
                self._describe(entry)
            self.total = len(entries)
            entries.sort(key=lambda entry: newest_first(entry.summary))
        return {entry.summary.name: entry for entry in entries[:MAX_RUNS]}

    def label(self, name: str) -> str:
        """The name to show; if the watched folder is itself a run, the folder's name."""
        return printable(self.root.name if name == "." else name)

    def path(self, name: str) -> Path | None:
        """The folder of a listed run. A name is looked up, never turned into a path."""
        with self._lock:
            if name not in self._entries:
                self._search(at_once=True)
            entry = self._entries.get(name)
        return entry.summary.folder if entry and is_plain_file(entry.summary.folder / "events.jsonl") else None

    def _search(self, at_once: bool = False) -> None:
        begun = time.monotonic()
        if at_once or begun >= self._search_at:
            found, known = find_runs(self.root), self._entries
            self._entries = {name: known.get(name) or Entry(RunSummary(name, path)) for name, path in found.items()}
            took = time.monotonic() - begun
            self._search_at = begun + max(SEARCH_SECONDS, SEARCH_LEISURE * took)

    def _read(self) -> list[Entry]:
        """The runs that are read to their end. What grows comes first: long files that are new wait for their turn."""
        until = time.monotonic() + READ_SECONDS
        read = []
        self.catching_up = False
        for entry in sorted(self._entries.values(), key=lambda entry: not entry.summary.complete):
            try:
                is_read = (entry.summary.complete or time.monotonic() < until) and entry.summary.look(until).complete
            except FileNotFoundError:
                continue  # deleted in the meantime
            if is_read:
                read.append(entry)
            self.catching_up = self.catching_up or not is_read
        return read

    def _compare_settings(self, known: list[dict[str, Setting]]) -> None:
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

    def _describe(self, entry: Entry) -> None:
        """The entry as JSON, written anew only if something has changed."""
        run = entry.summary
        text_of = (run.version, run.state, *self.columns)
        if entry.text_of == text_of:
            return
        entry.text_of = text_of
        best, best_step = run.best_evaluation
        settings = {name: value for name in self.columns if (value := run.settings.get(name)) is not None}
        start = run.reader.details.start
        kind = f"loss {start.dataset_fingerprint}" if start.dataset_fingerprint else "loss"
        entry.text = ListedRun(
            run.name, self.label(run.name), run.state, run.version, run.updated, run.step, run.total, run.loss, run.val,
            best, best_step, run.nan_step, run.tok_s, run.eta_seconds, run.reason,
            start.compiled, kind, settings, run.spark,
        ).json()  # fmt: skip
