"""What the commands that read logs share: how a log is named on the command line."""

from collections.abc import Callable
from difflib import get_close_matches
from inspect import signature
from typing import Annotated

from cyclopts import Parameter

from nanoscope.errors import UsageError

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
