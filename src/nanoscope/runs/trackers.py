"""What experiment trackers keep: folders of W&B and MLflow, event files of TensorBoard, databases of trackio.

W&B keeps the console's own lines. The others keep each metric apart; here they become tables at once, with a column
for the time, the step and each metric.
"""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from nanoscope.errors import JobError
from nanoscope.files import read_small
from nanoscope.messages import Message
from nanoscope.runs.columns import Table, Tables
from nanoscope.runs.roles import role_of
from nanoscope.runs.run import LINE_BITS, MISSING, NOT_FINITE
from nanoscope.runs.scan import Cell, label_of
from nanoscope.runs.settings import read_settings
from nanoscope.runs.surroundings import Event

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_BYTES = 64 << 20  # of one metric's file
_SUMMARY_BESIDE = 5  # values of the training loss, beside which a metric with one value is a summary of the run
_NO_OTHERS = ("loss", "part_loss", "val_loss", "step", "global_step", "total", "batch", "epoch")  # roles
_EVENT_FILE = "*.tfevents.*"
_SQLITE = b"SQLite format 3\0"
_LATEST = "run_name = (SELECT run_name FROM metrics ORDER BY id DESC LIMIT 1)"
_DEPTHS = ("", "*/", "*/*/", "*/*/*/")  # where event files are looked for: somebody may pass a whole disk
_SPLIT = re.compile(r"train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test", re.IGNORECASE)  # a folder of one run


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    step: int
    value: float
    seconds: float  # since 1970


Metrics = dict[str, dict[int, Point]]
"""By name and step; of a step that a resumed run has twice, the last one."""


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
        return _tables(_tensorboard_points({"": path}))
    if not path.is_dir():
        file = path.open("rb")
        if path.suffix != ".db" and file.peek(len(_SQLITE))[: len(_SQLITE)] != _SQLITE:
            return file
        file.close()
        return _trackio(path)
    log = _wandb(path) or _mlflow(path) or _tensorboard(path)
    if log is None and (database := _only(path, path.glob("*.db"))):
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
    for place in ("", "files/", "*run-*/files/", "wandb/*run-*/files/"):
        if logs := list(folder.glob(f"{place}output.log")):
            return max(logs, key=lambda log: str(log).rpartition("run-")[2]).open("rb")  # the name begins with a date
    if any(folder.glob("*.wandb")):
        raise JobError(
            "The W&B run in {folder} has no files/output.log: its console output was not kept.", folder=folder
        )
    return None


def _mlflow(folder: Path) -> Tables | None:
    """The metrics and parameters of an MLflow run."""
    places = ("metrics", "*/metrics", "*/*/metrics", "mlruns/*/*/metrics")
    run = _only(folder, (found.parent for place in places for found in folder.glob(place) if found.is_dir()))
    if run is None:
        return None
    params = sorted((run / "params").rglob("*"))
    return _tables(_mlflow_points(run / "metrics"), [f"{file.name} = {_text(file)[:200].strip()}" for file in params])


def _mlflow_points(metrics: Path) -> Iterator[Point]:
    for file in sorted(metrics.rglob("*")):
        for line in _text(file).splitlines():
            with suppress(ValueError, OverflowError):
                milliseconds, value, step = line.split()[:3]
                yield Point(file.relative_to(metrics).as_posix(), int(step), float(value), int(milliseconds) / 1e3)


def _tensorboard(folder: Path) -> Tables | None:
    """The scalars of a folder with event files; Keras has folders of their own for training and validation."""
    holding = {file.parent for depth in _DEPTHS for file in folder.glob(depth + _EVENT_FILE)}
    run = _only(folder, (each.parent if each != folder and _SPLIT.fullmatch(each.name) else each for each in holding))
    if run is None:
        return None
    return _tables(_tensorboard_points({"" if each == run else f"{each.name}/": each for each in sorted(holding)}))


def _tensorboard_points(parts: dict[str, Path]) -> Iterator[Point]:
    import logging  # late: it slows the start of `explain`

    try:
        from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise JobError(
            "Event files of TensorBoard need the package tensorboard: pip install 'nanoscope[tensorboard]'"
        ) from None
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of every resume
    for name, part in parts.items():
        events = EventAccumulator(str(part), size_guidance={"tensors": 0})
        events.Reload()
        for tag in events.Tags()["tensors"]:
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                for each in events.Tensors(tag):
                    number = make_ndarray(each.tensor_proto)
                    if number.size == 1:
                        yield Point(name + tag, each.step, float(number.item()), each.wall_time)


def _trackio(file: Path) -> Tables:
    """The metrics and settings of the run that logged last into a project's database."""
    import sqlite3  # late: it slows the start of `explain`

    mode = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"  # which leaves no files behind
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True)) as base:
            return _tables(_trackio_points(base), _trackio_settings(base))
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as problem:
        raise JobError("Cannot read {path} as a database of trackio: {reason}.", path=file, reason=problem) from None


def _trackio_points(base: "Connection") -> Iterator[Point]:
    import json  # late, as above
    from datetime import datetime

    for step, time, logged in base.execute(f"SELECT step, timestamp, metrics FROM metrics WHERE {_LATEST} ORDER BY id"):
        values = json.loads(logged)
        at, seconds = values.get("train/global_step", step), datetime.fromisoformat(time).timestamp()
        for name, value in values.items():
            with suppress(TypeError, ValueError):  # tables, images, texts; 'NaN' and 'Infinity' are numbers
                yield Point(name, int(at), float(value), seconds)


def _trackio_settings(base: "Connection") -> list[str]:
    import json

    if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'configs'").fetchone():
        return []  # of earlier versions
    configs = base.execute(f"SELECT config FROM configs WHERE {_LATEST}")
    return [f"{name} = {value}" for (config,) in configs for name, value in json.loads(config).items()]


def _only(folder: Path, found: Iterable[Path]) -> Path | None:
    """The one run that was found in a folder, or none."""
    runs = set(found)
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


def _text(file: Path) -> str:
    return read_small(file, MOST_BYTES).decode("utf-8", "replace") if file.is_file() else ""


def _tables(points: Iterable[Point], settings: Iterable[str] = ()) -> Tables:
    """The metrics as the rows of a log: one for each step, and one for each evaluation, below the settings."""
    metrics: Metrics = {}
    for point in points:
        value = point.value if math.isfinite(point.value) else NOT_FINITE
        metrics.setdefault(point.name, {})[point.step] = point._replace(value=value)
    roles = {name: role_of(label_of(name), "")[0] for name in metrics}
    training, validation = _used(metrics, roles)
    unit = "epoch" if any(re.search(r"(?:^|/)epoch_", name) for name in training[:1]) else "step"
    steps = sorted({step for name in training + validation for step in metrics[name]})
    found = Tables()
    read = (read_settings(line) for line in settings if re.search(r"= \d", line))
    found.events = [Event("settings", at, each, at) for at, each in enumerate(filter(None, read), start=1)]
    found.lines = 2 * len(steps)
    for which, names in enumerate((training, validation), start=1):
        known = [name for name in names if roles[name]]
        cells = [Cell("", "", "stamp", "", 0, 0), Cell(unit, "", "", "0", 0, 0)]
        cells += [Cell(label_of(name), "", "", "0.0", 0, 0) for name in known]
        table = Table(None, "", cells, [name for name in names if name not in known], 0)
        for place, step in enumerate(steps):
            row = [metrics[name].get(step) for name in known]
            if measured := next(filter(None, row), None):
                table.at.append((2 * place + which) << LINE_BITS)
                values = [measured.seconds, step, *(point.value if point else MISSING for point in row)]
                for column, value in zip(table.columns, values, strict=True):
                    column.values.append(value)
        found.tables.append(table)
    return found


def _used(metrics: Metrics, roles: dict[str, str]) -> tuple[list[str], list[str]]:
    """The metrics of a step, one training loss first, and the one validation loss."""
    names = [name for name in sorted(metrics) if not name.startswith("system/")]

    def longest(role: str) -> list[str]:
        """The metric of a role; of several, the one with most values."""
        return sorted(
            (name for name in names if roles[name] == role), key=lambda name: (-len(metrics[name]), "test" in name)
        )[:1]

    loss = longest("loss") or longest("part_loss")
    least = 2 if loss and len(metrics[loss[0]]) >= _SUMMARY_BESIDE else 1
    others = [name for name in names if roles[name] not in _NO_OTHERS and len(metrics[name]) >= least]
    return loss + others, longest("val_loss")
