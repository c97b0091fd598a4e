"""`nanoscope help`."""

from typing import Annotated

from cyclopts import Parameter

from nanoscope import cli


def help(command: Annotated[str | None, Parameter(completer=lambda _: cli.COMMANDS)] = None) -> int:
    """Show the help of a command, or the list of commands.

    For example:
      nanoscope help
      nanoscope help train

    Parameters
    ----------
    command
        The command, for example train.
    """
    return cli.call([command, "--help"] if command else ["--help"])
