"""The two ways a command ends badly for a reason the person can act on.

Both carry one message, written for the reader: what happened, what it means, what to do next.
"""

import difflib
from collections.abc import Iterable


class JobError(Exception):
    """The job could not be done (a file, the data, the machine): exit status 1."""

    exit_status = 1


class UsageError(Exception):
    """What was typed cannot be meant (a flag, a preset, a value): exit status 2."""

    exit_status = 2


def did_you_mean(word: str, options: Iterable[str], prefix: str = "") -> str:
    """'; did you mean X?' if there is a likely X, else nothing."""
    close = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
