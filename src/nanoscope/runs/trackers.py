"""What experiment trackers keep: folders of W&B and MLflow, event files of TensorBoard, databases of trackio.

W&B keeps the console's own lines. The others keep each metric apart; here they become lines again, with a time, a step
and named values, which are read like any other log.
"""

import io
import re
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nanoscope.errors import JobError
from nanoscope.messages import Message
from nanoscope.runs.roles import role_of
from nanoscope.runs.scan import label_of

MOST_BYTES = 64 << 20  # of one metric's file
_SUMMARY_BESIDE = 5  # values of the training loss, beside which a metric with one value is a summary of the run
_EVENT_FILE = "*.tfevents.*"
_SQLITE = b"SQLite format 3\0"
_DEPTHS = ("", "*/", "*/*/", "*/*/*/")  # where event files are looked for: somebody may pass a whole disk
_SPLIT = re.compile(r"train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test", re.IGNORECASE)  # a folder of one run


class Point(NamedTuple):
    """One value of a metric."""

    step: int
    value: float
    seconds: float  # since 1970


Metrics = dict[str, list[Point]]


def open_log(path: Path) -> BinaryIO:
    """The log at this path: a file as it is, or what a tracker wrote, as lines."""
    if path.is_file() and path.match(_EVENT_FILE):
        return _lines(_tensorboard_metrics({"": path}))
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
    for place in ("", "files", "latest-run/files", "wandb/latest-run/files"):
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


def _mlflow(folder: Path) -> BinaryIO | None:
    """The metrics and parameters of an MLflow run."""
    patterns = ("metrics", "*/metrics", "*/*/metrics", "mlruns/*/*/metrics")
    run = _only(folder, {found.parent for pattern in patterns for found in folder.glob(pattern) if found.is_dir()})
    if run is None:
        return None
    metrics: Metrics = {}
    for file in sorted((run / "metrics").rglob("*")):
        if file.is_file():
            points = [point for line in _text(file).splitlines() if (point := _mlflow_point(line))]
            metrics[file.relative_to(run / "metrics").as_posix()] = points
    params = sorted(file for file in (run / "params").rglob("*") if file.is_file())
    settings = [f"{file.name} = {_text(file, 200).strip()}" for file in params]
    return _lines(metrics, settings) if any(metrics.values()) else None


def _mlflow_point(line: str) -> Point | None:
    """A point of 'milliseconds value step'."""
    try:
        milliseconds, value, step = line.split()[:3]
        return Point(int(step), float(value), int(milliseconds) / 1e3)
    except (ValueError, OverflowError):
        return None


def _tensorboard(folder: Path) -> BinaryIO | None:
    """The scalars of a folder with event files; Keras has folders of their own for training and validation."""
    run = _only(
        folder, {_without_split(file.parent, folder) for depth in _DEPTHS for file in folder.glob(depth + _EVENT_FILE)}
    )
    if run is None:
        return None
    parts = {"": run} | {f"{part.name}/": part for part in sorted(run.iterdir()) if _SPLIT.fullmatch(part.name)}
    return _lines(_tensorboard_metrics({name: part for name, part in parts.items() if any(part.glob(_EVENT_FILE))}))


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
            metrics[name + tag] = [Point(e.step, e.value, e.wall_time) for e in events.Scalars(tag)]
        for tag in events.Tags()["tensors"]:  # as TensorFlow 2 writes scalars
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                numbers = [(e, make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
                metrics[name + tag] = [Point(e.step, float(n.item()), e.wall_time) for e, n in numbers if n.size == 1]
    return metrics


def _trackio(file: Path) -> BinaryIO:
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
                        metrics.setdefault(name, []).append(Point(int(at), float(value), seconds))
            with suppress(sqlite3.OperationalError):  # earlier versions kept no settings
                for (config,) in base.execute("SELECT config FROM configs WHERE run_name = ?", run):
                    settings = [f"{name} = {value}" for name, value in json.loads(config).items()]
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as problem:
        raise JobError("Cannot read {path} as a database of trackio: {reason}.", path=file, reason=problem) from None
    return _lines(metrics, settings)


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


def _lines(metrics: Metrics, settings: Iterable[str] = ()) -> BinaryIO:
    """The metrics, one line for each step and one for each evaluation, below the settings."""
    used = _used(metrics)
    unit = (
        "epoch" if any(re.search(r"(?:^|/)epoch_", name) for name, kind in used.items() if kind == "loss") else "step"
    )
    rows: dict[tuple[int, bool], list[str]] = {}
    times: dict[tuple[int, bool], float] = {}
    for name, kind in used.items():
        latest = {point.step: point for point in metrics[name]}  # a resumed run has some steps twice
        for step, point in latest.items():
            at = step, kind == "val_loss"
            times.setdefault(at, point.seconds)
            rows.setdefault(at, []).append(f"{name}: {point.value:.8g}")
    lines = (f"{_clock(times[at])} {unit}: {at[0]}, {', '.join(row)}" for at, row in sorted(rows.items()))
    return io.BytesIO("\n".join([*(line for line in settings if re.search(r"= \d", line)), *lines]).encode())


def _clock(seconds: float) -> str:
    from datetime import UTC, datetime  # only needed here

    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f}"
    except (ValueError, OverflowError, OSError):
        return ""


def _used(metrics: Metrics) -> dict[str, str]:
    """The metrics that become columns, with their meanings: one training loss and one validation loss come first."""
    meanings = {name: (role_of(label_of(name), "") or ("",))[0] for name in metrics if not name.startswith("system/")}

    def best(*kinds: str) -> list[str]:
        """The name of the metric of the first of these kinds that has one; of several, the one with most values."""
        for kind in kinds:
            names = sorted(name for name, meaning in meanings.items() if meaning == kind and metrics[name])
            if names:
                return [max(names, key=lambda name: (len(metrics[name]), "test" not in name))]
        return []

    loss, validation = best("loss", "part_loss"), best("val_loss")
    count = len(metrics[loss[0]]) if loss else 0
    others = [
        name
        for name, meaning in sorted(meanings.items())
        if meaning not in ("loss", "part_loss", "val_loss", "step", "global_step", "total", "batch", "epoch")
        and (len(metrics[name]) > 1 or count < _SUMMARY_BESIDE)
    ]
    return dict.fromkeys(loss, "loss") | dict.fromkeys(validation, "val_loss") | dict.fromkeys(others, "")
