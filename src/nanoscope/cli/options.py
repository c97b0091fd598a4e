"""What commands share: telling options from paths where '-' is standard input, and help of train and its completion."""

from collections.abc import Callable
from inspect import signature

from nanoscope.errors import UsageError
from nanoscope.suggest import did_you_mean

TUNE_HELP = "Find the fastest settings for this machine first, in about 2 minutes (docs/tune.md)"


def check_options(paths: tuple[str, ...], command: Callable[..., None]) -> None:
    """Refuse mistyped options, which arrive among the paths of a command that accepts '-'."""
    for path in paths:
        if path.startswith("-") and path != "-":
            typed = path.split("=")[0]
            named = (each.name for each in signature(command).parameters.values() if each.kind is each.KEYWORD_ONLY)
            options = ["--lang", *(f"--{name.removeprefix('as_')}" for name in named)]
            raise UsageError(
                "There is no option {typed}.{hint}\nSee: nanoscope {command} --help",
                typed=typed, hint=did_you_mean(typed, options), command=command.__name__,
            )  # fmt: skip
