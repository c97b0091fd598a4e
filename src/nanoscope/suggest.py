"""The "did you mean" hint at the end of an error message."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from nanoscope.files import RUNS
from nanoscope.messages import Message


def did_you_mean(
    word: str, choices: Iterable[str], show: Callable[[str], object] = str, *, cutoff: float = 0.6
) -> Message | str:
    """Return `" Did you mean X?"` for the choice closest to a misspelt word, or `""` if none is close.

    The hint follows a full stop. `show` formats the suggestion, for example by adding the dashes of a flag. `cutoff` is
    the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # imported late: few commands end with a spelling mistake

    names = {choice.lstrip("-"): choice for choice in choices}  # equal dashes make no two options alike
    close = get_close_matches(word.lstrip("-"), list(names), n=1, cutoff=cutoff)
    return _hint(show(names[close[0]])) if close else ""


def did_you_mean_run(name: str | Path) -> Message | str:
    """Return `" Did you mean runs/NAME?"` if there is such a run, which is called by its name alone."""
    folder = RUNS / name
    return _hint(shlex.quote(str(folder))) if (folder / "events.jsonl").is_file() else ""


def _hint(meant: object) -> Message:
    return Message(" Did you mean {meant}?", meant=meant)
