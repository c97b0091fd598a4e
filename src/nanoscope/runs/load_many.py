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
    found = [each for log in logs for each in _read(log, warn, len(logs) > 1)]
    if not found:
        raise JobError("No training step was found in {path}: there is nothing to show.", path=", ".join(logs))
    several, named = len(found) > 1, []
    for (path, log), name in zip(found, names_of([path for path, _ in found]), strict=True):
        for number, run in [*enumerate(log.runs, start=1)][-1 if several else 0 :]:
            numbered = f"{name if several else ''}#{number}" if len(log.runs) > 1 else name
            named.append(NamedRun(numbered, path, run, log))
    return named


def _read(given: str, warn: Warn, several: bool) -> list[tuple[str, Log]]:
    """The log at a path, if something was trained, or the logs of the runs in a folder that can be used."""
    inside = _runs_in(Path(given))
    read: list[tuple[str, Log]] = []
    for path in inside or [given]:
        try:
            read.append((path, read_log(path)))
        except JobError as error:
            if not inside:
                raise
            warn(Message("skipped {path}: {reason}", path=path, reason=error.text))
    # Runs without an evaluation would leave no step to compare all at.
    evaluated = bool(inside) and any(run.evals for _, log in read for run in log.runs[-1:])
    kept = []
    for path, log in read:
        if evaluated and log.runs and not log.runs[-1].evals:
            warn(Message("skipped {path}: it has no evaluation yet", path=path))
        elif log.runs:
            kept.append((path, log))
        elif inside or several:
            warn(Message("skipped {path}: it has no training step yet", path=path))
    return kept


def _runs_in(folder: Path) -> list[str]:
    """The runs in a folder that is none itself."""
    if not folder.is_dir() or (folder / "events.jsonl").is_file():
        return []
    from nanoscope.runs.summary import find_runs  # late: logs are compared without psutil too

    return [str(run) for run in find_runs(folder).values()]


def names_of(paths: list[str]) -> list[str]:
    """The names of the files or folders, with as many of the folders around them as tell them apart."""
    names = [path.resolve().name if path.is_dir() else path.stem for path in map(Path, paths)]
    for parts in range(2, max((len(Path(path).parts) for path in paths), default=0) + 1):
        count = Counter(names)
        names = [
            str(Path(*Path(path).parts[-parts:])) if count[name] > 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    return names
