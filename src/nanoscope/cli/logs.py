"""What the commands that read logs share: the arguments that name logs, and the runs in them."""

import sys
from collections import Counter
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from nanoscope.errors import JobError, UsageError
from nanoscope.suggest import did_you_mean
from nanoscope.untrusted import printable

if TYPE_CHECKING:
    from nanoscope.runs.run import Log, Run

# '-' is standard input; without this it would be parsed as an option.
LogPath = Annotated[str, Parameter(allow_leading_hyphen=True)]


def check_logs(logs: tuple[str, ...], command: Callable[..., None]) -> None:
    """Refuse mistyped options, and a call without logs."""
    for log in logs:
        if log.startswith("-") and log != "-":
            typed = log.split("=")[0]
            options = [f"--{name}" for name in signature(command).parameters if name != "logs"]
            raise UsageError(
                f"There is no option {typed}.{did_you_mean(typed, options)}\nSee: nanoscope {command.__name__} --help"
            )
    if not logs:
        raise UsageError("Which log? Give a file, the directory of a run, or '-' for standard input.")


def check_max_iters(max_iters: int | None) -> None:
    """Refuse a number of steps below 1."""
    if max_iters is not None and max_iters <= 0:
        raise UsageError(f"--max_iters={max_iters}: must be at least 1.")


class NamedRun(NamedTuple):
    """A run in a log that was given on the command line."""

    name: str
    path: str
    run: "Run"
    log: "Log"


def trained_runs(logs: tuple[str, ...]) -> list[NamedRun]:
    """The last run of each log; of a single log, all its runs. A folder of runs stands for the runs in and below it."""
    found = [read for log in logs for read in _read(log)]
    several, named = len(found) > 1, []
    names = _names([path for path, _ in found])
    for (path, log), name in zip(found, names, strict=True):
        runs = _trained(log)
        for number, run in enumerate(runs, start=1) if not several else [(len(runs), runs[-1])]:
            if len(runs) > 1:
                name = f"{name if several else ''}#{number}"
            named.append(NamedRun(name, path, run, log))
    return named


def _read(path: str) -> list[tuple[str, "Log"]]:
    """The log at a path, or the logs of the runs in a folder; of those, the ones that can't be used are skipped."""
    from nanoscope.runs.reader import read_log

    folder = Path(path)
    inside: dict[str, Path] = {}
    if path != "-" and folder.is_dir() and not (folder / "events.jsonl").is_file():
        from nanoscope.runs.glance import find_runs  # late: logs are compared without psutil too

        inside = find_runs(folder)
    if not inside:
        log = read_log(path)
        if not _trained(log):
            raise JobError(f"No training step was found in {path}: there is nothing to show.")
        return [(path, log)]
    found: list[tuple[str, Log]] = []
    for each in map(str, inside.values()):
        try:
            found.append((each, read_log(each)))
        except JobError as error:
            _warn(f"skipped {each}: {str(error).splitlines()[0]}")
    found = _without("training step", found, lambda runs: bool(runs))
    if any(_trained(log)[-1].evals for _, log in found):  # runs without any would leave no step to compare all at
        found = _without("evaluation", found, lambda runs: bool(runs[-1].evals))
    if not found:
        raise JobError(f"No run in {path} has trained a step yet: there is nothing to show.")
    return found


def _without(
    missing: str, found: list[tuple[str, "Log"]], has: "Callable[[list[Run]], bool]"
) -> list[tuple[str, "Log"]]:
    for path, log in found:
        if not has(_trained(log)):
            _warn(f"skipped {path}: it has no {missing} yet")
    return [(path, log) for path, log in found if has(_trained(log))]


def _trained(log: "Log") -> "list[Run]":
    return [run for run in log.runs if run.steps or run.evals]


def _warn(text: str) -> None:
    print(printable(f"nanoscope: {text}"), file=sys.stderr)


def _names(paths: list[str]) -> list[str]:
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
