"""The folder that is watched: which runs are in it now, and how they are. It is only read, never written."""

import threading
import time
from collections import Counter
from pathlib import Path

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


class WatchedFolder:
    """The runs below `root`. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.total = 0
        """How many runs there are; the list has at most MAX_RUNS of them."""
        self.columns: list[str] = []
        """Settings that differ between the runs."""
        self.common: dict[str, Setting] = {}
        """Settings that are the same in all of them."""
        self.catching_up = False
        """Whether some runs are not read to their end yet."""
        self._runs: dict[str, RunSummary] = {}
        self._listed: dict[str, tuple[object, ListedRun]] = {}  # with what each was made of
        self._search_at = 0.0
        self._lock = threading.Lock()

    def look(self) -> list[RunSummary]:
        """The runs as they are now: live ones first, then the newest."""
        with self._lock:
            self._search()
            runs = sorted(self._read(), key=newest_first)
            self.total = len(runs)
            self._compare_settings([run.settings for run in runs if run.settings])
            return runs[:MAX_RUNS]

    def listed(self) -> dict[str, ListedRun]:
        """The entries of the list as they are now, by name."""
        self._listed = {run.name: self._described(run) for run in self.look()}
        return {name: listed for name, (_, listed) in self._listed.items()}

    def label(self, name: str) -> str:
        """The name to show; if the watched folder is itself a run, the folder's name."""
        return printable(self.root.name if name == "." else name)

    def path(self, name: str) -> Path | None:
        """The folder of a listed run. A name is looked up, never turned into a path."""
        with self._lock:
            if name not in self._runs:
                self._search(at_once=True)
            run = self._runs.get(name)
        return run.folder if run and is_plain_file(run.folder / "events.jsonl") else None

    def _search(self, at_once: bool = False) -> None:
        begun = time.monotonic()
        if at_once or begun >= self._search_at:
            found = find_runs(self.root)
            self._runs = {name: self._runs.get(name) or RunSummary(name, path) for name, path in found.items()}
            took = time.monotonic() - begun
            self._search_at = begun + max(SEARCH_SECONDS, SEARCH_LEISURE * took)

    def _read(self) -> list[RunSummary]:
        """The runs that are read to their end. What grows comes first: long files that are new wait for their turn."""
        until = time.monotonic() + READ_SECONDS
        for run in sorted(self._runs.values(), key=lambda run: not run.complete):
            try:
                if run.complete or time.monotonic() < until:
                    run.look(until)
            except FileNotFoundError:
                del self._runs[run.name]  # deleted in the meantime
        read = [run for run in self._runs.values() if run.complete]
        self.catching_up = len(read) < len(self._runs)
        return read

    def _compare_settings(self, known: list[dict[str, Setting]]) -> None:
        counts = Counter(name for settings in known for name in settings)
        values = {name: {settings[name] for settings in known if name in settings} for name in counts}
        differ = [name for name, count in counts.most_common() if len(values[name]) > 1 and name not in NO_COLUMN]
        self.columns = differ[:MAX_COLUMNS]
        self.common = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}

    def _described(self, run: RunSummary) -> tuple[object, ListedRun]:
        """The entry, made anew only if something has changed."""
        made_of = (run.version, run.state, self.columns)
        before = self._listed.get(run.name)
        if before and before[0] == made_of:
            return before
        best, best_step = run.best_evaluation
        settings = {name: run.settings[name] for name in self.columns if run.settings.get(name) is not None}
        start = run.reader.details.start
        return made_of, ListedRun(
            run.name,
            self.label(run.name),
            run.state,
            run.version,
            run.updated,
            run.step,
            run.total,
            run.loss,
            run.val,
            best,
            best_step,
            run.nan_step,
            run.tok_s,
            run.eta_seconds,
            run.reason,
            start.compiled,
            f"loss {start.dataset_fingerprint}" if start.dataset_fingerprint else "loss",
            settings,
            run.spark,
        )
