"""Reads nanoscope's own runs: their events become runs, notes and samples.

`EventReader` turns events into records. `OwnRun` reads the folder of a run, and later only what was appended to it.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from nanoscope.messages import printable
from nanoscope.runs import events as e
from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.details import NAME_CHARACTERS, NoteEvent, RunDetails, safe_settings
from nanoscope.runs.events import NewerVersionError
from nanoscope.runs.growing import GrowingFile
from nanoscope.runs.records import CheckpointRecord, EvalRecord, StepRecord
from nanoscope.runs.run import MISSING, NOT_FINITE, OWN_FORMAT, OWN_TRAITS, Log, Run, Series
from nanoscope.runs.windows import read_windows

MAX_NOTES = 200
MAX_SAMPLES = 40
SAMPLE_BYTES = 4000
_SAMPLE_NAME = re.compile(r"step-([0-9]{1,12})\.txt")

# What the analysis uses of a start event besides its config.
_START_FACTS = (
    "device", "device_name", "parameters", "tokens_per_step", "peak_flops", "peak_source", "vocab_size", "train_tokens",
    "val_tokens",
)  # fmt: skip

# Numbers of an iteration besides the columns of `Steps`: the field, the series' name, and what to multiply it by.
_ITER_SERIES = (
    (attrgetter("data_seconds"), "data_s", 1),
    (attrgetter("process_gb"), "process_gb", 1),
    (attrgetter("cpu_share"), "cpu_pct", 100),
    (attrgetter("gpu_peak_gb"), "gpu_peak_gb", 1),
    (attrgetter("gpu_gb"), "gpu_gb", 1),
    (attrgetter("gpu_share"), "gpu_pct", 100),
)


class EventReader:
    """Turns events, in the order in which they were written, into runs."""

    def __init__(self) -> None:
        self.builder = RunBuilder(OWN_FORMAT, OWN_TRAITS)
        self.details = RunDetails()
        self._run_before: Run | None = None  # the last run before the one that the current session belongs to
        self._extras: set[str] = set()  # names of series that are no columns of ours
        self._stepped = False  # whether the current session has trained
        self._session: dict[str, float] = {}  # seconds by phase, and "wall", of the current session
        self._earlier: dict[str, float] | None = {}  # the same for earlier sessions of the run; None if unknown

    def take_lines(self, events: Sequence[e.AnyEvent | None], first_line: int) -> None:
        """Add the events of successive lines: consecutive iterations in one batch, others one by one."""
        line = first_line
        for kind, group in groupby(events, type):
            found: list[Any] = list(group)
            if issubclass(kind, e.Iter):
                self._take_iterations(found, line)
            elif kind is not type(None):
                for number, event in enumerate(found, start=line):
                    self.builder.line = number
                    self._take(event)
            line += len(found)

    def _take_iterations(self, found: list[e.Iter], first_line: int) -> None:
        """Add consecutive iterations: column by column if they are the next ones of the run."""
        builder = self.builder
        steps = [each.step for each in found]
        columns: Any = (
            steps, [each.loss for each in found], [each.seconds for each in found],
            _filled([each.lr for each in found]), _filled([each.grad_norm for each in found]),
            _filled([each.tokens_per_second for each in found]), _filled([each.mfu for each in found], 100),
        )  # fmt: skip
        if self._stepped and builder.current is not None and builder.place_next_steps(*columns):
            self._add_series(builder.current, found, steps)
        else:
            for number, (event, (step, loss, seconds, *others)) in enumerate(
                zip(found, zip(*columns, strict=True), strict=True), start=first_line
            ):
                builder.line = number
                builder.place(StepRecord(step, NOT_FINITE if loss is None else loss, seconds or MISSING, *others))
                if builder.last_step == step and builder.current is not None:
                    self._add_series(builder.current, [event], [step])
        left = [(each.step, each.eta_seconds) for each in found if each.eta_seconds is not None]
        self.details.eta_steps.fromlist([step for step, _ in left])
        self.details.eta_seconds.fromlist([seconds for _, seconds in left])
        self._count_time(found[0])
        if (t := next((each.t for each in reversed(found) if each.t is not None), None)) is not None:
            self._session["wall"] = t

    def _add_series(self, run: Run, found: list[e.Iter], steps: list[int]) -> None:
        """What iterations carry besides the columns; whatever another trainer adds under a name of its own, too."""
        for read, name, scale in _ITER_SERIES:
            self._extend(run, name, steps, list(map(read, found)), scale)
        if type(found[0]) is not e.Iter:
            for each in found:
                self._add_extras(run, each)

    def _add_extras(self, run: Run, event: e.Iter) -> None:
        for name, value in event.extras.items() if isinstance(event, e.IterWithExtras) else ():
            name = printable(name[:NAME_CHARACTERS])
            if name in self._extras or len(self._extras) < e.MAX_EXTRAS:
                self._extras.add(name)
                run.series.setdefault(name, Series()).append(event.step, value)

    def _extend(self, run: Run, name: str, steps: list[int], values: list[float | None], scale: float) -> None:
        known = [(step, scale * value) for step, value in zip(steps, values, strict=True) if value is not None]
        if known:
            series = run.series.setdefault(name, Series())
            series.steps.fromlist([step for step, _ in known])
            series.values.fromlist([value for _, value in known])

    def _take(self, event: e.AnyEvent) -> None:
        """Add one event that is no iteration."""
        builder = self.builder
        match event:
            case e.Start():
                self._begin_session(event)
            case e.Forecast():
                self.details.forecast = event
            case e.Eval():
                val = NOT_FINITE if event.val_loss is None else event.val_loss
                builder.place(
                    EvalRecord(event.step, val, event.train_loss, seconds=event.seconds, stderr=event.val_stderr)
                )
            case e.Checkpoint():
                builder.place(CheckpointRecord(event.step, event.seconds))
            case e.Resume() | e.Rollback():
                builder.boundary(resuming=True, rollback=isinstance(event, e.Rollback))
                if isinstance(event, e.Resume) and event.changed:
                    self.details.resumes.append(event)
            case e.NonFinite():
                if builder.last_step is None or builder.last_step < event.step:
                    builder.place(StepRecord(event.step, NOT_FINITE))
                if builder.current is not None:
                    builder.current.failed = True
            case e.Sample() if builder.current is not None:
                builder.current.samples += 1
            case e.End() if builder.current is not None:
                self._end_run(builder.current, event)
        if isinstance(event, NoteEvent) and len(self.details.notes) < MAX_NOTES:
            self.details.notes.append(event)
        self._count_time(event)

    def log(self, source: str, lines: int) -> Log:
        """All runs so far, in order of appearance; more events may follow."""
        runs = [run for run in self.builder.finish() if run.steps or run.evals]
        self._close_session()
        return Log(source, OWN_FORMAT if runs else "none", runs, self.builder.errors, lines)

    def _begin_session(self, start: e.Start) -> None:
        self._close_session()
        resuming = start.first_step > 0
        if resuming:
            self._earlier = self._seconds() if self._session else {}
            before, self.details.start, self.details.forecast = self.details.start, start, None
            if before.dataset_fingerprint != start.dataset_fingerprint:
                self.details.ladder = None
        else:
            self._run_before = self.builder.current
            self._earlier = {}
            self.details = RunDetails(start, ladder=start.ladder)
        if start.tokens_per_step is not None:
            earlier = [batch for batch in self.details.batches if batch[0] < start.first_step]
            self.details.batches = [*earlier, (start.first_step, start.tokens_per_step)]
        self._session, self._stepped = {}, False
        self.builder.boundary(resuming)
        said = {name: getattr(start, name) for name in _START_FACTS} | {"peak_dtype": start.dtype}
        self.builder.facts.update(safe_settings(start.config) | safe_settings(said))

    def _end_run(self, run: Run, end: e.End) -> None:
        run.said_finished, self.details.end = end.reason in e.COMPLETE, end
        run.failed = not run.said_finished
        if end.reason == "finished" and "max_iters" not in run.config:
            run.total_steps = end.step
        if end.reason == "interrupted":
            self.builder.error("interrupted", f"stopped at iteration {end.step}")

    # --- where the time went ---

    def _count_time(self, event: e.AnyEvent) -> None:
        """Sum up the phases by the clock that events carry, until the session's end states them."""
        session, seconds = self._session, getattr(event, "seconds", None) or 0.0
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
        self._stepped = self._stepped or isinstance(event, e.Iter | e.End)

    def _close_session(self) -> None:
        """Give the run what was recorded so far. What precedes a session's first step is not counted yet."""
        run = self.builder.current
        if run is None or run is self._run_before:
            return
        run.details = self.details
        seconds = self._seconds() if self._stepped else None
        if seconds is not None:
            run.wall_seconds = seconds.pop("wall")
            run.phases = seconds

    def _seconds(self) -> dict[str, float] | None:
        """Of all sessions of the run; None if one of them did not tell its wall time, as a console log may not."""
        if self._earlier is None or "wall" not in self._session:
            return None
        names = self._earlier | self._session
        return {name: self._earlier.get(name, 0.0) + self._session.get(name, 0.0) for name in names}


def read_events(lines: Iterable[tuple[int, str]], source: str) -> Log:
    """Read the lines of an events.jsonl from a file of another name, or standard input."""
    reader, number = EventReader(), 0
    for number, line in lines:
        reader.take_lines([e.decode(line)], number)
    return reader.log(source, number)


class OwnRun:
    """The folder of a run. Reading it again reads only what was appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._events = GrowingFile(folder / "events.jsonl", self._begin)
        self._begin()

    def _begin(self) -> None:
        self._reader, self._lines = EventReader(), 0

    @property
    def step_count(self) -> int:
        """Steps held in memory."""
        return sum(len(run.steps) for run in self._reader.builder.runs)

    def read(self, source: str = "") -> Log:
        """Read what was appended, or the whole file if it was replaced or truncated. Raises OSError and JobError."""
        for lines in self._events.pieces():
            try:
                events = e.decode_lines(lines)
                self._reader.take_lines(events, self._lines + 1)
            except NewerVersionError:
                self._events.read_again()
                raise
            self._lines += len(events)
        log = self._reader.log(source or str(self.folder), self._lines)
        self._reader.details.samples = read_samples(self.folder / "samples")
        self._reader.details.windows = read_windows(self.folder)
        return log


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """Step and text of the samples in a run's folder; of many, some from all over the run. Links are not followed."""
    found: dict[int, Path] = {}
    if folder.is_symlink():
        return []
    with suppress(OSError):
        for path in folder.iterdir():
            name = _SAMPLE_NAME.fullmatch(path.name)
            if name and path.is_file() and not path.is_symlink():
                found[int(name[1])] = path
    steps = sorted(found)
    if len(steps) > MAX_SAMPLES:
        steps = [steps[round(i * (len(steps) - 1) / (MAX_SAMPLES - 1))] for i in range(MAX_SAMPLES)]
    texts = []
    for step in steps:
        with suppress(OSError), found[step].open("rb") as file:
            text = file.read(SAMPLE_BYTES).decode("utf-8", errors="replace").rstrip("\ufffd")
            texts.append((step, printable(text)))
    return texts


def _filled(values: list[float | None], scale: float = 1) -> list[float]:
    """A column, with NaN for what was not written."""
    if None in values or scale != 1:
        return [MISSING if value is None else scale * value for value in values]
    return values  # type: ignore[return-value]
