"""What a list shows of a run: its state, progress, settings and evaluations, for `runs`, `watch` and Python alike."""

import math
import os
import platform
import stat
import time
from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal

import psutil

from nanoscope.errors import JobError
from nanoscope.estimates import median
from nanoscope.files import is_plain_file, read_json
from nanoscope.runs.details import Setting
from nanoscope.runs.events import COMPLETE, End, NewerVersionError
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import NOT_FINITE, Run

State = Literal["starting", "live", "stalled", "finished", "stopped", "failed", "unreadable"]
ALIVE: tuple[State, ...] = ("starting", "live", "stalled")
"""The states of a run whose process runs."""

SPARK_POINTS = 28
STALL_LINES, STALL_LONGEST, STALL_SECONDS = 10, 2, 15.0  # silence: times the usual, times the longest, at least
FIRST_LINES_SECONDS = 60.0  # the least silence where no usual time between lines is known yet
SILENT_SECONDS = 120  # a run without a lock counts as stopped after this long without an event
REMOTE_SILENT_SECONDS = 900  # the same for one that another machine trains: its process cannot be looked up
MAX_DEPTH = 3  # of folders below the one that is listed
MAX_FOLDERS = 20_000
_WITHOUT_RUNS = ("checkpoints", "samples", "windows", "__pycache__", "node_modules")


class RunSummary(OwnRun):
    """One run, as it was when it was last looked at: all of its evaluations, and some of its steps."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(folder, sparse=True)
        self.name = name
        self.state: State = "unreadable"
        self.reason: str | None = None
        """Why it is unreadable, if known."""
        self.version = ""
        """Changes whenever the events have changed."""
        self.updated = 0.0
        """Seconds since 1970."""
        self.complete = False
        """Whether the events were read to their end."""

    # --- what is known ---

    @property
    def run(self) -> Run:
        return self.reader.run

    @property
    def end(self) -> End | None:
        return self.reader.details.end

    @property
    def settings(self) -> dict[str, Setting]:
        return self.reader.details.settings

    @property
    def total(self) -> int | None:
        """How many iterations it is set to take."""
        value = self.settings.get("max_iters")
        return int(value) if isinstance(value, int | float) else None

    @property
    def step(self) -> int | None:
        """How many iterations are done, or the last one that was logged."""
        return (self.end and self.end.step) or self.run.last_step

    @property
    def loss(self) -> float | None:
        """The last training loss."""
        return next((loss for loss in self.run.steps.loss[-1:] if loss != NOT_FINITE), None)

    @property
    def val(self) -> float | None:
        """The last validation loss."""
        return next((each.val for each in self.run.evals[-1:] if each.val != NOT_FINITE), None)

    @property
    def best(self) -> float | None:
        """The lowest validation loss."""
        return self.best_evaluation[0]

    @property
    def best_evaluation(self) -> tuple[float, int | None] | tuple[None, None]:
        """The lowest validation loss and its step."""
        finite = [(each.val, each.step) for each in self.run.evals if each.val != NOT_FINITE]
        if not finite and self.end is not None and self.end.best_val_loss is not None:
            return self.end.best_val_loss, self.end.best_step
        return min(finite, default=(None, None))

    @property
    def nan_step(self) -> int | None:
        """Where the loss was not finite, since the run last went back."""
        steps = self.run.steps
        broken = [step for step, loss in zip(steps.step, steps.loss, strict=True) if loss == NOT_FINITE]
        broken += [each.step for each in self.run.evals if each.val == NOT_FINITE]
        broken += [self.end.step] if self.end and self.end.reason == "non_finite" else []
        return None if self.reader.back else min(broken, default=None)

    @property
    def tok_s(self) -> float | None:
        """Tokens per second, as last printed."""
        return next((speed for speed in reversed(self.run.steps.tok_s) if speed > 0), None)

    @property
    def eta_seconds(self) -> float | None:
        """Its own estimate of the time left, if it was printed with the last iteration."""
        left = self.run.series.get("eta_s")
        if left is None or self.state not in ALIVE or not self.reader.trained:
            return None
        return left.values[-1] if left.steps[-1:] == self.run.steps.step[-1:] else None

    @property
    def spark(self) -> list[float | None]:
        """A few validation losses from the whole run; without evaluations, training losses."""
        points = sorted((each.step, each.val) for each in self.run.evals)
        if len(points) < 2:
            points = list(zip(self.run.steps.step, self.run.steps.loss, strict=True))
        if len(points) > SPARK_POINTS:
            first, last = points[0][0], points[-1][0]
            wanted = [first + (last - first) * i // SPARK_POINTS for i in range(SPARK_POINTS + 1)]
            points = [points[place] for place in sorted({bisect_left(points, (step, -math.inf)) for step in wanted})]
        return [float(f"{loss:.5g}") if math.isfinite(loss) else None for _, loss in points]

    @property
    def patience_seconds(self) -> float:
        """How long a run that trains may be silent before it counts as stalled."""
        gaps = [after - before for before, after in pairwise(self.reader.clock) if after > before]
        longest = STALL_LONGEST * max([*gaps, *(each.seconds or 0.0 for each in self.run.evals[-1:])], default=0.0)
        if len(gaps) >= 3:
            return max(STALL_SECONDS, STALL_LINES * median(gaps), longest)
        every, usual = self.settings.get("log_interval"), self.run.steps.time_s[-1:]
        lines = every if isinstance(every, int | float) else 1
        return max(FIRST_LINES_SECONDS, *(STALL_LINES * lines * seconds for seconds in usual), longest)

    # --- looking ---

    def look(self, until: float = math.inf) -> "RunSummary":
        """Read what was appended, until `time.monotonic()` is `until`. FileNotFoundError if the events are gone."""
        version, updated = version_of(self.folder)
        if version != self.version or not self.complete:
            self.version, self.updated, self.reason, self.complete = version, updated, None, True
            try:
                self.complete = self.read_on(until)
            except NewerVersionError as error:
                self.reason = str(error).splitlines()[0]
            except OSError:
                pass
        elif self.state not in ALIVE:
            return self  # as nearly all of them, again and again
        self.state = self._state()
        return self

    def _state(self) -> State:
        """The only place that decides it."""
        if self.reason is not None:
            return "unreadable"
        if self.end is not None:
            reason = self.end.reason
            return "finished" if reason in COMPLETE else "stopped" if reason == "interrupted" else "failed"
        if not _is_alive(self.folder, self.updated):
            return "stopped" if self.reader.sessions or self.step is not None or self.run.evals else "unreadable"
        if not self.reader.trained:
            return "starting"
        return "stalled" if time.time() - self.updated > self.patience_seconds else "live"


def summary_of(folder: Path, name: str = "") -> RunSummary:
    """A run as it is now; without events that can be read it is 'unreadable'."""
    run = RunSummary(name, folder)
    with suppress(OSError):
        run.look()
    return run


def _is_alive(folder: Path, updated: float) -> bool:
    """Whether the training process is running; if that cannot be checked, whether it wrote recently."""
    silent_seconds, lock = abs(time.time() - updated), folder / "lock.json"
    try:
        holder = read_json(lock)
        pid = holder["pid"]
        if holder["host"] != platform.node():
            return silent_seconds < REMOTE_SILENT_SECONDS
        if type(pid) is not int or pid <= 0:
            return False
        began: float = psutil.Process(pid).create_time()
        return began <= lock.stat().st_mtime + 1  # process ids are reused
    except (psutil.Error, OverflowError):
        return False
    except (OSError, ValueError, KeyError, TypeError, JobError):
        return silent_seconds < SILENT_SECONDS


# --- folders ---


def find_runs(root: Path) -> dict[str, Path]:
    """Folders with events in and below `root`, by their path relative to it. Links are not followed."""
    found: dict[str, Path] = {}
    for seen, (place, folders, files) in enumerate(os.walk(root)):
        relative = Path(place).relative_to(root)
        inside = sorted(name for name in folders if not name.startswith(".") and name not in _WITHOUT_RUNS)
        folders[:] = inside if len(relative.parts) < MAX_DEPTH else []
        name = relative.as_posix()
        is_utf8 = name.encode("utf-8", "replace").decode() == name  # other names cannot be part of a URL
        if "events.jsonl" in files and is_utf8 and is_plain_file(Path(place) / "events.jsonl"):
            found[name] = Path(place)
        if seen >= MAX_FOLDERS:
            break
    return found


def newest_first(run: RunSummary) -> tuple[bool, float, str]:
    """The order of a list: live runs first, then by the time of the last event."""
    return run.state not in ALIVE, -run.updated, run.name


def version_of(folder: Path) -> tuple[str, float]:
    """A version that changes with the events of a run, and when that was. FileNotFoundError for a link or a pipe."""
    status = os.lstat(folder / "events.jsonl")
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(folder)
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}", status.st_mtime
