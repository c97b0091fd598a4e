"""The runs of a folder as a list: found, filtered and sorted."""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanoscope.config import KEYS
from nanoscope.errors import UsageError
from nanoscope.runs.summary import ALIVE, RunSummary, find_runs, newest_first
from nanoscope.suggest import did_you_mean

SCHEMA = "nanoscope.runs/1"
LIVE = ("live", "running", "training")  # in a filter: each of the states of a run whose process runs
STATES = (*LIVE, "starting", "stalled", "finished", "stopped", "failed", "unreadable")
_CONDITION = re.compile(r"(\w+)\s*(==|!=|>=|<=|=|>|<)\s*(.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


# What a list can be sorted and filtered by, besides settings.
FIELDS = {"name": "name", "state": "state", "step": "step", "val": "best", "age": "updated", "left": "eta_seconds"}


def list_runs(root: Path) -> list[RunSummary]:
    """The runs in and below a folder: live ones first, then the newest."""
    found = []
    for name, folder in find_runs(root).items():
        with suppress(FileNotFoundError):  # deleted in the meantime
            found.append(RunSummary(root.resolve().name if name == "." else name, folder).look())
    return sorted(found, key=newest_first)


def sort_runs(runs: Iterable[RunSummary], key: str) -> list[RunSummary]:
    """Sort by a field or a setting, '-' reverses; runs without a value come last."""
    runs, name, reverse = list(runs), key.removeprefix("-"), key.startswith("-")
    if name == "age":  # as list_runs has them
        return runs[::-1] if reverse else runs
    value_of = _value_of(name, runs, "--sort")
    known = [run for run in runs if value_of(run) is not None]
    is_number = all(isinstance(value_of(run), int | float) for run in known)
    known.sort(key=value_of if is_number else lambda run: str(value_of(run)), reverse=reverse)
    return known + [run for run in runs if value_of(run) is None]


def filter_runs(runs: Iterable[RunSummary], conditions: Sequence[str]) -> list[RunSummary]:
    """Those for which all conditions hold: `state=failed`, `learning_rate>1e-3`, or a text in the name."""
    kept = list(runs)
    for condition in conditions:
        kept = list(filter(_condition(condition, kept), kept))
    return kept


def _condition(text: str, runs: Sequence[RunSummary]) -> Callable[[RunSummary], bool]:
    parsed = _CONDITION.fullmatch(text)
    if parsed is None or (parsed[1] not in FIELDS and any(text in run.name for run in runs)):
        return lambda run: text in run.name
    key, compare, wanted = parsed[1], parsed[2], parsed[3]
    if key == "state" and wanted not in STATES:
        raise UsageError("--filter={text}: there is no such state.{hint}", text=text, hint=did_you_mean(wanted, STATES))
    value_of = _value_of(key, runs, "--filter")
    if key == "state" and wanted in LIVE:
        wanted, value_of = "live", lambda run: "live" if run.state in ALIVE else run.state
    number, holds = _number(wanted), _COMPARE[compare]
    is_of_texts = compare in ("=", "==", "!=")
    if number is None and not is_of_texts:
        raise UsageError("--filter={text}: {wanted!r} is not a number", text=text, wanted=wanted)

    def matches(run: RunSummary) -> bool:
        value = value_of(run)
        given = _number(value)
        if number is not None and given is not None:
            return holds(given, number)
        return is_of_texts and value is not None and holds(str(value).lower(), wanted.lower())

    return matches


def _value_of(key: str, runs: Sequence[RunSummary], option: str) -> Callable[[RunSummary], Any]:
    if key in FIELDS:
        return operator.attrgetter(FIELDS[key])
    check_settings([key], runs, option)
    return lambda run: run.settings.get(key)


def check_settings(names: Sequence[str], runs: Sequence[RunSummary], option: str) -> None:
    """Refuse names that are neither settings of nanoscope nor of any of the runs, which other trainers may write."""
    for name in names:
        if name not in KEYS and not any(name in run.settings for run in runs):
            hint = did_you_mean(name, [*KEYS, *FIELDS])
            raise UsageError("{option}: no run has a setting {name!r}.{hint}", option=option, name=name, hint=hint)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def listing_json(root: Path, runs: Sequence[RunSummary], columns: Sequence[str]) -> dict[str, Any]:
    """The document of `runs --json`."""
    return {"schema": SCHEMA, "folder": str(root), "runs": [run_json(run, columns) for run in runs]}


def run_json(run: RunSummary, columns: Sequence[str]) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": str(run.folder),
        "state": run.state,
        "reason": run.reason,
        "step": run.step,
        "total_steps": run.total,
        "loss": run.loss,
        "val_loss": run.val,
        "best_val_loss": run.best,
        "eta_seconds": run.eta_seconds,
        "updated": datetime.fromtimestamp(run.updated, UTC).isoformat(timespec="seconds") if run.updated else None,
        "settings": {name: run.settings.get(name) for name in columns},
    }
