"""Reads nanoscope's own runs: their events become runs, notes and samples.

`EventReader` turns events into runs. `OwnRun` reads the folder of a run, and later only what was appended to it.
"""

import math
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from nanoscope.files import is_plain_file
from nanoscope.messages import printable
from nanoscope.runs import events as e
from nanoscope.runs.details import NAME_CHARACTERS, NoteEvent, RunDetails, safe_settings
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.run import (
    MISSING,
    NOT_FINITE,
    OWN_FORMAT,
    OWN_TRAITS,
    Evaluation,
    Log,
    LoggedError,
    Run,
    SavedCheckpoint,
    Series,
)
from nanoscope.runs.windows import read_windows

MAX_NOTES = 200
MAX_EVALUATIONS = 100_000
MAX_SAMPLES = 40
SAMPLE_BYTES = 4000
LAST_LINES = 40  # by which the usual time between two lines is judged
SPARSE = 20  # iterations that are kept of each piece of a file where a few are enough
HEAD_BYTES = 4096  # by which a file is known again
PIECE_BYTES = 1 << 17  # a line longer than this is skipped: no event is that long
MAX_BYTES = 1 << 30  # nothing beyond this is read
_SAMPLE_NAME = re.compile(r"step-([0-9]{1,12})\.txt$")

# What the analysis uses of a start event besides its config.
_START_FACTS = (
    "device", "device_name", "parameters", "tokens_per_step", "peak_flops", "peak_source", "vocab_size", "train_tokens",
    "val_tokens",
)  # fmt: skip

# Numbers of an iteration besides the columns of `Steps`: the field, the series' name, and what to multiply it by.
_SERIES = (
    ("eta_seconds", "eta_s", 1),
    ("data_seconds", "data_s", 1),
    ("process_gb", "process_gb", 1),
    ("cpu_share", "cpu_pct", 100),
    ("gpu_peak_gb", "gpu_peak_gb", 1),
    ("gpu_gb", "gpu_gb", 1),
    ("gpu_share", "gpu_pct", 100),
)


class EventReader:
    """Turns events, in the order in which they were written, into runs.

    A `sparse` one keeps few of the iterations, those without a loss among them.
    """

    def __init__(self, sparse: bool = False) -> None:
        self.sparse = sparse
        self.runs: list[Run] = []
        self.errors: list[LoggedError] = []
        self.details = RunDetails()
        self.lines = 0
        self.sessions = 0
        self.trained = False
        """Whether the current session has trained."""
        self.clock: deque[float] = deque(maxlen=LAST_LINES)
        """`t` of its last iterations."""
        self.back: e.Event | None = None
        """What sent the run back to an earlier step, until it trains again."""
        self._seconds: list[dict[str, float]] = [{}]  # by phase, and "wall", of each session of the run

    @property
    def run(self) -> Run:
        """The last run."""
        return self.runs[-1] if self.runs else self._new_run()

    def take(self, events: Sequence[e.AnyEvent | None]) -> None:
        """Add the events of successive lines: consecutive iterations in one batch, others one by one."""
        for kind, group in groupby(events, type):
            found: list[Any] = list(group)
            if issubclass(kind, e.Iter):
                self._take_iterations(found)
            elif kind is not type(None):
                for number, event in enumerate(found, start=self.lines + 1):
                    self._take(event, number)
            self.lines += len(found)

    # --- iterations ---

    def _take_iterations(self, found: list[e.Iter]) -> None:
        self.details.end = None
        for rising in _rising(found):
            self._add_steps(rising)
        self.clock.extend(each.t for each in found[-LAST_LINES:] if each.t is not None)
        for each in (found[0], found[-1]):
            self._count_time(each)

    def _add_steps(self, found: list[e.Iter]) -> None:
        """Add iterations whose steps rise, to the run that the first of them belongs to."""
        run, back = self.run, self.back
        step, last = found[0].step, run.last_step
        self.back = None
        if last is None:
            run.begins_with_resume = back is not None and step > 1
        elif back is None and step == last:  # the same line again
            run.cut_from(step)
        elif back is not None or run.steps.step[0] < step < last:
            run.cut_from(step)
            again = [] if isinstance(back, e.Rollback) else [step]
            run.resumed_at = [at for at in run.resumed_at if at < step] + again
        elif step <= last:
            run = self._new_run()
        else:
            run.last_error = None  # it goes on
        if self.sparse:
            apart = 1 + len(found) // SPARSE
            kept = {*range(0, len(found), apart), len(found) - 1}
            found = [each for place, each in enumerate(found) if place in kept or each.loss is None]
        run.steps.extend(
            [each.step for each in found],
            _column(found, "loss", missing=NOT_FINITE),
            _column(found, "seconds", above=0),
            _column(found, "lr"),
            _column(found, "grad_norm"),
            _column(found, "tokens_per_second", above=0),
            _column(found, "mfu", scale=100),
        )
        _add_series(run, found)

    def _new_run(self) -> Run:
        self.runs.append(Run(OWN_FORMAT, OWN_TRAITS, is_language_model=True))
        return self.runs[-1]

    # --- what else happens ---

    def _take(self, event: e.AnyEvent, line: int) -> None:
        """Add one event that is no iteration."""
        if isinstance(event, e.Start):
            self._begin_session(event)
        run, details = self.run, self.details
        match event:
            case e.Forecast():
                details.forecast = event
            case e.Eval(step=step, val_loss=val):
                details.end = None
                known = NOT_FINITE if val is None else val
                if not run.evals or (run.evals[-1].step != step and len(run.evals) < MAX_EVALUATIONS):
                    run.evals.append(Evaluation(step, known, event.train_loss, "loss", event.seconds, event.val_stderr))
            case e.Checkpoint(step=step):
                if not run.checkpoints or run.checkpoints[-1].step != step:
                    run.checkpoints.append(SavedCheckpoint(step, event.seconds))
            case e.Resume(step=step) | e.Rollback(to=step):
                self._go_back(run, event, step)
                if isinstance(event, e.Resume) and event.changed:
                    details.resumes.append(event)
            case e.NonFinite(step=step):
                if run.last_step is None or run.last_step < step:
                    self._add_steps([e.Iter(step=step, loss=None)])
                run.failed = True
            case e.Sample():
                run.samples += 1
            case e.End():
                self._end_run(run, event, line)
        if isinstance(event, NoteEvent) and len(details.notes) < MAX_NOTES:
            details.notes.append(event)
        self._count_time(event)

    def log(self, source: str) -> Log:
        """All runs so far, in order of appearance; more events may follow."""
        runs = [run for run in self.runs if run.steps or run.evals]
        self._close_session()
        return Log(source, OWN_FORMAT if runs else "none", runs, self.errors, self.lines)

    def _go_back(self, run: Run, event: e.Event, step: int) -> None:
        """The run continues from an earlier step: what it evaluates later than that is evaluated again."""
        self.back = event
        run.evals = [evaluation for evaluation in run.evals if evaluation.step <= step]

    def _begin_session(self, start: e.Start) -> None:
        self._close_session()
        if start.first_step > 0:
            run, before = self.run, self.details.start
            self._go_back(run, start, start.first_step)
            if before.dataset_fingerprint != start.dataset_fingerprint:
                self.details.ladder = None
        else:
            run, self.back, self._seconds = self._new_run(), None, []
            self.details = RunDetails(ladder=start.ladder)
        self.details = replace(self.details, start=start, forecast=None, end=None)
        said = {name: getattr(start, name) for name in _START_FACTS} | {"peak_dtype": start.dtype}
        run.config |= self.details.settings | safe_settings(said)
        if start.tokens_per_step is not None:
            earlier = [batch for batch in self.details.batches if batch[0] < start.first_step]
            self.details.batches = [*earlier, (start.first_step, start.tokens_per_step)]
        self._seconds = [*filter(None, self._seconds), {}]
        self.sessions, self.trained = self.sessions + 1, False
        self.clock.clear()

    def _end_run(self, run: Run, end: e.End, line: int) -> None:
        run.said_finished, self.details.end = end.reason in e.COMPLETE, end
        run.failed = not run.said_finished
        if end.reason == "finished" and "max_iters" not in run.config:
            run.total_steps = end.step
        if end.reason == "interrupted":
            self.errors.append(LoggedError(line, "interrupted", f"stopped at iteration {end.step}", run))
            run.last_error = run.last_error or self.errors[-1]

    # --- where the time went ---

    def _count_time(self, event: e.AnyEvent) -> None:
        """Sum up the phases by the clock that events carry, until the session's end states them."""
        session, seconds = self._seconds[-1], getattr(event, "seconds", None) or 0.0
        if event.t is not None:
            session["wall"] = event.t
            if isinstance(event, e.Iter | e.Eval):
                session.setdefault("startup", event.t - seconds)
        if isinstance(event, e.Eval | e.Checkpoint | e.Sample):
            name = str(event.__struct_config__.tag)
            session[name] = session.get(name, 0.0) + seconds
        elif isinstance(event, e.End):
            session.update(event.phases)
            if event.wall_seconds is not None:
                session.setdefault("wall", event.wall_seconds)
        self.trained = self.trained or isinstance(event, e.Iter | e.End)

    def _close_session(self) -> None:
        """Give the run what was recorded so far.

        What precedes a session's first step is not counted yet; nothing is, if a session did not tell its wall time.
        """
        if self.runs:
            self.run.details = self.details
        if self.trained and all("wall" in session for session in self._seconds):
            phases: dict[str, float] = defaultdict(float)
            for session in self._seconds:
                for name, seconds in session.items():
                    phases[name] += seconds
            self.run.wall_seconds = phases.pop("wall")
            self.run.phases = dict(phases)


def read_events(lines: Iterable[tuple[int, str]], source: str) -> Log:
    """Read the lines of an events.jsonl from a file of another name, or standard input."""
    reader = EventReader()
    for _, line in lines:
        reader.take([e.decode(line)])
    return reader.log(source)


class OwnRun:
    """The folder of a run. Reading it again reads only what was appended."""

    def __init__(self, folder: Path, sparse: bool = False) -> None:
        self.folder, self._sparse = folder, sparse
        self._begin()

    def _begin(self) -> None:
        self.reader = EventReader(self._sparse)
        self._offset, self._head = 0, b""

    @property
    def step_count(self) -> int:
        """Steps held in memory."""
        return sum(len(run.steps) for run in self.reader.runs)

    def read_on(self, until: float = math.inf) -> bool:
        """Read what was appended, until `time.monotonic()` is `until`; the whole file if it was replaced or truncated.

        Returns whether all was read. Raises OSError, and NewerVersionError with every attempt to read such a file.
        """
        with (self.folder / "events.jsonl").open("rb") as file:
            size, head = os.fstat(file.fileno()).st_size, file.read(HEAD_BYTES)
            if size < self._offset or not head.startswith(self._head):
                self._begin()
            self._head = head
            file.seek(self._offset)
            while self._offset < MAX_BYTES and (piece := file.read(PIECE_BYTES)):
                end = piece.rfind(b"\n") + 1
                if not end and len(piece) < PIECE_BYTES:
                    break  # the last line is not complete yet
                self._offset += end or len(piece)
                file.seek(self._offset)
                try:
                    self.reader.take(e.decode_lines(piece[:end]))
                except NewerVersionError:
                    self._begin()
                    raise
                if time.monotonic() >= until and self._offset < size:
                    return False
        return True

    def read(self, source: str = "") -> Log:
        """The run as it is now. Raises OSError and JobError."""
        self.read_on()
        log = self.reader.log(source or str(self.folder))
        self.reader.details.samples = read_samples(self.folder / "samples")
        self.reader.details.windows = read_windows(self.folder)
        return log


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """Step and text of the samples in a run's folder; of many, some from all over the run. Links are not followed."""
    paths = () if folder.is_symlink() else folder.glob("step-*.txt")
    named = {int(name[1]): path for path in paths if is_plain_file(path) and (name := _SAMPLE_NAME.match(path.name))}
    steps = sorted(named)
    apart = max(1, (len(steps) - 1) / (MAX_SAMPLES - 1))
    texts = []
    for step in (steps[round(i * apart)] for i in range(min(MAX_SAMPLES, len(steps)))):
        with suppress(OSError), named[step].open("rb") as file:
            text = file.read(SAMPLE_BYTES).decode("utf-8", errors="replace").rstrip("\ufffd")
            texts.append((step, printable(text)))
    return texts


def _rising(found: list[e.Iter]) -> Iterator[list[e.Iter]]:
    """Consecutive iterations, parted where their steps do not rise."""
    begin = 0
    for place, (before, after) in enumerate(pairwise(found), start=1):
        if after.step <= before.step:
            yield found[begin:place]
            begin = place
    yield found[begin:]


def _column(
    found: list[e.Iter], field: str, scale: float = 1, above: float = -math.inf, missing: float = MISSING
) -> list[float]:
    """The values of a field; `missing` for what was not written, or cannot be."""
    values: list[float | None] = [getattr(each, field) for each in found]
    return [scale * value if value is not None and value > above else missing for value in values]


def _add_series(run: Run, found: list[e.Iter]) -> None:
    """What iterations carry besides the columns; whatever another trainer adds under a name of its own, too."""
    known = {
        name: [(each.step, scale * value) for each in found if (value := getattr(each, field)) is not None]
        for field, name, scale in _SERIES
    }
    for each in found:
        for name, value in each.extras.items() if isinstance(each, e.IterWithExtras) else ():
            known.setdefault(printable(name[:NAME_CHARACTERS]), []).append((each.step, value))
    for name, points in known.items():
        if points and (name in run.series or len(run.series) < e.MAX_EXTRAS):
            series = run.series.setdefault(name, Series())
            series.steps.extend(step for step, _ in points)
            series.values.extend(value for _, value in points)
