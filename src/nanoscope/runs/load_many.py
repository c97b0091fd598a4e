"""Several logs, or folders of runs: the runs in them, with names that tell them apart."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nanoscope.errors import JobError
from nanoscope.messages import Message
from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Log, Run

Warn = Callable[[Message], None]
"""Gets a sentence for each run of a folder that is left out."""


class NamedRun(NamedTuple):
    """A run in a log that was given, with a name that tells it apart."""

    name: str
    path: str
    run: Run
    log: Log


def trained_runs(logs: Sequence[str], warn: Warn) -> list[NamedRun]:
    """The last run of each log; of a single log, all its runs. A folder of runs stands for the runs in and below it."""
    found: list[tuple[str, Log]] = []
    for log in logs:
        read = _read(log, warn)
        if not read and len(logs) > 1:
            warn(Message("skipped {path}: it has no training step yet", path=log))
        found += read
    if not found:
        raise JobError("No training step was found in {path}: there is nothing to show.", path=", ".join(logs))
    several = len(found) > 1
    named = []
    names = names_of([path for path, _ in found])
    for (path, each), name in zip(found, names, strict=True):
        runs = _trained(each)
        for number, run in enumerate(runs, start=1) if not several else [(len(runs), runs[-1])]:
            if len(runs) > 1:
                name = f"{name if several else ''}#{number}"
            named.append(NamedRun(name, path, run, each))
    return named


def _read(path: str, warn: Warn) -> list[tuple[str, Log]]:
    """The log at a path, if something was trained, or the logs of the runs in a folder that can be used."""
    folder = Path(path)
    inside: dict[str, Path] = {}
    if path != "-" and folder.is_dir() and not (folder / "events.jsonl").is_file():
        from nanoscope.runs.summary import find_runs  # late: logs are compared without psutil too

        inside = find_runs(folder)
    if not inside:
        log = read_log(path)
        return [(path, log)] if _trained(log) else []
    found: list[tuple[str, Log]] = []
    for each in map(str, inside.values()):
        try:
            found.append((each, read_log(each)))
        except JobError as error:
            warn(Message("skipped {path}: {reason}", path=each, reason=error.text))
    trained = [each for each, log in found if _trained(log)]
    evaluated = [each for each, log in found if any(run.evals for run in _trained(log)[-1:])]
    kept = evaluated or trained  # runs without an evaluation would leave no step to compare all at
    for each, _ in found:
        if each not in trained:
            warn(Message("skipped {path}: it has no training step yet", path=each))
        elif each not in kept:
            warn(Message("skipped {path}: it has no evaluation yet", path=each))
    if not kept:
        raise JobError("No run in {path} has trained a step yet: there is nothing to show.", path=path)
    return [(each, log) for each, log in found if each in kept]


def _trained(log: Log) -> list[Run]:
    return [run for run in log.runs if run.steps or run.evals]


def names_of(paths: list[str]) -> list[str]:
    """The names of the files or folders, with as many of the folders around them as tell them apart."""
    names = [_short_name(path) for path in paths]
    for parts in range(2, max((len(Path(path).parts) for path in paths), default=0) + 1):
        repeated = {name for name, count in Counter(names).items() if count > 1}
        names = [
            str(Path(*Path(path).parts[-parts:])) if name in repeated else name
            for path, name in zip(paths, names, strict=True)
        ]
    return names


def _short_name(path: str) -> str:
    named = Path(path)
    return named.resolve().name if named.is_dir() else named.stem
