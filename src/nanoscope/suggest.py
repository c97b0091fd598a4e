"""The "did you mean" hint at the end of an error message."""

from collections.abc import Callable, Iterable


def did_you_mean(word: str, choices: Iterable[str], show: Callable[[str], str] = str) -> str:
    """Return `" Did you mean X?"` for the choice closest to a misspelt word, or `""` if none is close.

    The hint follows a full stop. `show` formats the suggestion, for example by adding the dashes of a flag.
    """
    from difflib import get_close_matches  # imported late: few commands end with a spelling mistake

    close = get_close_matches(word, list(choices), n=1)
    return f" Did you mean {show(close[0])}?" if close else ""
