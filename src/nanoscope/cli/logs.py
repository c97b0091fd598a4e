"""What the commands that read logs share: how a log is named on the command line, and which of its runs are meant."""

from collections.abc import Callable
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from nanoscope.errors import JobError, UsageError

if TYPE_CHECKING:
    from nanoscope.runs.run import Log, Run

# '-' is standard input; without this it would be taken for an option.
LogPath = Annotated[str, Parameter(allow_leading_hyphen=True)]


def check_logs(logs: tuple[str, ...], command: Callable[..., None]) -> None:
    """Refuse what is a mistyped option, and no log at all."""
    for log in logs:
        if log.startswith("-") and log != "-":
            typed = log.split("=")[0]
            options = [f"--{name}" for name in signature(command).parameters if name != "logs"]
            close = get_close_matches(typed, options, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise UsageError(f"There is no option {typed}.{hint}\nSee: nanoscope {command.__name__} --help")
    if not logs:
        raise UsageError("Which log? Give a file, a run's directory, or '-' to read standard input.")


def check_max_iters(max_iters: int | None) -> None:
    """A run has at least one step."""
    if max_iters is not None and max_iters <= 0:
        raise UsageError(f"--max_iters={max_iters}: a run has at least one step.")


class NamedRun(NamedTuple):
    """A run that was named on the command line."""

    name: str
    path: str
    run: "Run"
    log: "Log"


def trained_runs(logs: tuple[str, ...]) -> list[NamedRun]:
    """Of several logs the last run each; of a log alone every run."""
    from nanoscope.runs.reader import read_log

    named = []
    for path in logs:
        log = read_log(path)
        trained = [run for run in log.runs if run.steps or run.evals]
        if not trained:
            raise JobError(f"No training step was found in {path}: there is nothing to tell.")
        for number, run in enumerate(trained, start=1) if len(logs) == 1 else [(len(trained), trained[-1])]:
            name = _name(path, logs) + (f"#{number}" if len(trained) > 1 else "")
            named.append(NamedRun(name, path, run, log))
    return named


def _name(path: str, paths: tuple[str, ...]) -> str:
    """The file's name, or its whole path where names are the same."""
    name = Path(path).stem if Path(path).stem not in ("", "-") else path
    return name if sum(Path(other).stem == name for other in paths) == 1 else path
