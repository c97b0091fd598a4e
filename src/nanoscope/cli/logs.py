"""What the commands that read logs share: the arguments that name logs, and the runs in them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.cli.options import check_options
from nanoscope.errors import JobError, UsageError

if TYPE_CHECKING:
    from nanoscope.runs.run import Log, Run


# '-' is standard input; without this it would be parsed as an option.
LogPath = Annotated[str, Parameter(allow_leading_hyphen=True, completer=complete_path)]


def check_logs(logs: tuple[str, ...], command: Callable[..., None]) -> None:
    """Refuse mistyped options, and a call without logs."""
    check_options(logs, command)
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
    """The last run of each log; of a single log, all its runs. A folder of runs stands for the runs in it."""
    from nanoscope.runs.reader import read_log

    logs = tuple(path for log in logs for path in _runs_in(log))
    named = []
    for path in logs:
        log = read_log(path)
        trained = [run for run in log.runs if run.steps or run.evals]
        if not trained:
            raise JobError(f"No training step was found in {path}: there is nothing to show.")
        for number, run in enumerate(trained, start=1) if len(logs) == 1 else [(len(trained), trained[-1])]:
            name = f"#{number}" if len(logs) == 1 and len(trained) > 1 else _name(path, logs)
            name += f"#{number}" if len(logs) > 1 and len(trained) > 1 else ""
            named.append(NamedRun(name, path, run, log))
    return named


def _runs_in(log: str) -> list[str]:
    """The runs of a folder that holds several; any other path as it is."""
    folder = Path(log)
    if log == "-" or not folder.is_dir() or (folder / "events.jsonl").is_file():
        return [log]
    return sorted(str(events.parent) for events in folder.glob("*/events.jsonl")) or [log]


def _name(path: str, paths: tuple[str, ...]) -> str:
    """The name of the file or folder, or its whole path if another has the same name."""
    name = _short_name(path)
    return name if sum(_short_name(other) == name for other in paths) == 1 else path


def _short_name(path: str) -> str:
    named = Path(path)
    return (named.name if named.is_dir() else named.stem) or path  # '.' has no name
