"""What experiment trackers keep: folders of W&B and MLflow, event files of TensorBoard, databases of trackio.

W&B keeps the console's own lines. The others keep each metric apart; here they become tables at once, with a column
for the time, the step and each metric.
"""

import math
import re
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nanoscope.errors import JobError
from nanoscope.messages import Message
from nanoscope.runs.columns import Table, Tables
from nanoscope.runs.roles import role_of
from nanoscope.runs.run import LINE_BITS, MISSING, NOT_FINITE
from nanoscope.runs.scan import Cell, label_of
from nanoscope.runs.settings import read_settings
from nanoscope.runs.surroundings import Event

MOST_BYTES = 64 << 20  # of one metric's file
_SUMMARY_BESIDE = 5  # values of the training loss, beside which a metric with one value is a summary of the run
_NO_OTHERS = ("loss", "part_loss", "val_loss", "step", "global_step", "total", "batch", "epoch")  # roles
_EVENT_FILE = "*.tfevents.*"
_SQLITE = b"SQLite format 3\0"
_DEPTHS = ("", "*/", "*/*/", "*/*/*/")  # where event files are looked for: somebody may pass a whole disk
_SPLIT = re.compile(r"train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test", re.IGNORECASE)  # a folder of one run


class Point(NamedTuple):
    """One value of a metric."""

    value: float
    seconds: float  # since 1970


Metrics = dict[str, dict[int, Point]]
"""Points by name and step; of a step that a resumed run has twice, the last one."""


def open_lines(path: Path) -> BinaryIO:
    """The lines of the log at this path; JobError where a tracker kept none."""
    found = open_log(path)
    if isinstance(found, Tables):
        raise JobError(
            "{path} holds the numbers of a run but none of its lines: there is nothing to annotate.", path=path
        )
    return found


def open_log(path: Path) -> BinaryIO | Tables:
    """The log at this path: a file as it is, or the tables of what a tracker wrote."""
    if path.is_file() and path.match(_EVENT_FILE):
        return _tables(_tensorboard_metrics({"": path}))
    if not path.is_dir():
        file = path.open("rb")
        if path.suffix != ".db" and file.peek(len(_SQLITE))[: len(_SQLITE)] != _SQLITE:
            return file
        file.close()
        return _trackio(path)
    log = _wandb(path) or _mlflow(path) or _tensorboard(path)
    if log is None and (database := _only(path, set(path.glob("*.db")))):
        log = _trackio(database)
    if log is None:
        raise JobError(
            "The directory {path} is not a nanoscope run: it has no events.jsonl.\n"
            "Pass a log file or the directory of a run (of nanoscope, W&B, MLflow, TensorBoard or trackio).",
            path=path,
        )
    return log


def _wandb(folder: Path) -> BinaryIO | None:
    """The console's lines of a W&B run; of several, those of the last one."""
    for place in ("", "files", "metrics-run/files", "wandb/metrics-run/files"):
        if (folder / place / "output.log").is_file():
            return (folder / place / "output.log").open("rb")
    runs = [run for pattern in ("*run-*", "wandb/*run-*") for run in folder.glob(f"{pattern}/files/output.log")]
    if runs:
        return max(runs, key=lambda log: log.parts[-3].rpartition("run-")[2]).open("rb")  # the name begins with a date
    if any(folder.glob("*.wandb")):
        raise JobError(
            "The W&B run in {folder} has no files/output.log: its console output was not kept.", folder=folder
        )
    return None


def _mlflow(folder: Path) -> Tables | None:
    """The metrics and parameters of an MLflow run."""
    patterns = ("metrics", "*/metrics", "*/*/metrics", "mlruns/*/*/metrics")
    run = _only(folder, {found.parent for pattern in patterns for found in folder.glob(pattern) if found.is_dir()})
    if run is None:
        return None
    metrics: Metrics = {}
    for file in sorted((run / "metrics").rglob("*")):
        if file.is_file():
            points = metrics[file.relative_to(run / "metrics").as_posix()] = {}
            for line in _text(file).splitlines():
                with suppress(ValueError, OverflowError):
                    milliseconds, value, step = line.split()[:3]
                    points[int(step)] = Point(float(value), int(milliseconds) / 1e3)
    params = sorted(file for file in (run / "params").rglob("*") if file.is_file())
    settings = [f"{file.name} = {_text(file, 200).strip()}" for file in params]
    return _tables(metrics, settings) if any(metrics.values()) else None


def _tensorboard(folder: Path) -> Tables | None:
    """The scalars of a folder with event files; Keras has folders of their own for training and validation."""
    run = _only(
        folder, {_without_split(file.parent, folder) for depth in _DEPTHS for file in folder.glob(depth + _EVENT_FILE)}
    )
    if run is None:
        return None
    parts = {"": run} | {f"{part.name}/": part for part in sorted(run.iterdir()) if _SPLIT.fullmatch(part.name)}
    return _tables(_tensorboard_metrics({name: part for name, part in parts.items() if any(part.glob(_EVENT_FILE))}))


def _without_split(folder: Path, top: Path) -> Path:
    return folder.parent if folder != top and _SPLIT.fullmatch(folder.name) else folder


def _tensorboard_metrics(parts: dict[str, Path]) -> Metrics:
    import logging  # late: it slows the start of `explain`

    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise JobError(
            "Event files of TensorBoard need the package tensorboard: pip install 'nanoscope[tensorboard]'"
        ) from None
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of every resume
    metrics: Metrics = {}
    for name, part in parts.items():
        events = EventAccumulator(str(part), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            metrics[name + tag] = {e.step: Point(e.value, e.wall_time) for e in events.Scalars(tag)}
        for tag in events.Tags()["tensors"]:  # as TensorFlow 2 writes scalars
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                numbers = [(e, make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
                metrics[name + tag] = {e.step: Point(float(n.item()), e.wall_time) for e, n in numbers if n.size == 1}
    return metrics


def _trackio(file: Path) -> Tables:
    """The metrics and settings of the run that logged last into a project's database."""
    import json  # late: they slow the start of `explain`
    import sqlite3
    from datetime import datetime

    metrics: Metrics = {}
    settings: list[str] = []
    mode = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"  # which leaves no files behind
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True)) as base:
            run = base.execute("SELECT run_name FROM metrics ORDER BY id DESC LIMIT 1").fetchone() or ("",)
            rows = base.execute("SELECT step, timestamp, metrics FROM metrics WHERE run_name = ? ORDER BY id", run)
            for step, time, logged in rows:
                values = json.loads(logged)
                at, seconds = values.get("train/global_step", step), datetime.fromisoformat(time).timestamp()
                for name, value in values.items():
                    with suppress(TypeError, ValueError):  # tables, images, texts; 'NaN' and 'Infinity' are numbers
                        metrics.setdefault(name, {})[int(at)] = Point(float(value), seconds)
            with suppress(sqlite3.OperationalError):  # earlier versions kept no settings
                for (config,) in base.execute("SELECT config FROM configs WHERE run_name = ?", run):
                    settings = [f"{name} = {value}" for name, value in json.loads(config).items()]
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as problem:
        raise JobError("Cannot read {path} as a database of trackio: {reason}.", path=file, reason=problem) from None
    return _tables(metrics, settings)


def _only(folder: Path, runs: set[Path]) -> Path | None:
    """The one run that was found in a folder, or none."""
    if len(runs) > 1:
        raise JobError(
            Message(
                "There is {n} run in {folder}: pass it, as in {example}.",
                "There are {n} runs in {folder}: pass one of them, as in {example}.",
                n=len(runs),
                folder=folder,
                example=min(runs),
            )
        )
    return next(iter(runs), None)


def _text(file: Path, most_bytes: int = MOST_BYTES) -> str:
    with file.open("rb") as stream:
        return stream.read(most_bytes).decode("utf-8", "replace")


def _tables(metrics: Metrics, settings: Iterable[str] = ()) -> Tables:
    """The metrics as the rows of a log: one for each step, and one for each evaluation, below the settings."""
    found = Tables()
    read = (read_settings(line) for line in settings if re.search(r"= \d", line))
    found.events = [Event("settings", at, each, at) for at, each in enumerate(filter(None, read), start=1)]
    kinds = _used(metrics)
    unit = "epoch" if any(re.search(r"(?:^|/)epoch_", name) for name in kinds[0][:1]) else "step"
    steps = sorted({step for names in kinds for name in names for step in metrics[name]})
    found.lines = 2 * len(steps)
    for which, names in enumerate(kinds, start=1):
        known = [name for name in names if _role(name)]
        cells = [Cell("", "", "stamp", "", 0, 0), Cell(unit, "", "", "0", 0, 0)]
        cells += [Cell(label_of(name), "", "", "0.0", 0, 0) for name in known]
        table = Table(None, "", cells, [name for name in names if name not in known], 0)
        for place, step in enumerate(steps):
            seconds = next((metrics[name][step].seconds for name in names if step in metrics[name]), None)
            if seconds is not None:
                table.at.append((2 * place + which) << LINE_BITS)
                row = [seconds, step, *(_stored(metrics[name].get(step)) for name in known)]
                for column, value in zip(table.columns, row, strict=True):
                    column.values.append(value)
        found.tables.append(table)
    return found


def _stored(point: Point | None) -> float:
    """A value as columns hold it."""
    if point is None:
        return MISSING
    return point.value if math.isfinite(point.value) else NOT_FINITE


def _used(metrics: Metrics) -> tuple[list[str], list[str]]:
    """The metrics of a step, one training loss first, and the one validation loss."""
    roles = {name: _role(name) for name, points in metrics.items() if points and not name.startswith("system/")}

    def best(role: str) -> list[str]:
        """The metric of a role; of several, the one with most values."""
        names = sorted(name for name, its in roles.items() if its == role)
        return [max(names, key=lambda name: (len(metrics[name]), "test" not in name))] if names else []

    loss = best("loss") or best("part_loss")
    least = 2 if loss and len(metrics[loss[0]]) >= _SUMMARY_BESIDE else 1
    others = [name for name, role in sorted(roles.items()) if role not in _NO_OTHERS and len(metrics[name]) >= least]
    return loss + others, best("val_loss")


def _role(name: str) -> str:
    return role_of(label_of(name), "")[0]
