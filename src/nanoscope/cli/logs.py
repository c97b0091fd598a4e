"""What the commands that read logs share: the arguments that name logs."""

import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.cli.options import check_options
from nanoscope.errors import UsageError
from nanoscope.messages import Message, to_print

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
        raise UsageError("{setting}: must be at least 1.", setting=f"--max_iters={max_iters}")


def warn(text: Message) -> None:
    """Print a warning to standard error."""
    print(f"nanoscope: {to_print(text).splitlines()[0]}", file=sys.stderr)
