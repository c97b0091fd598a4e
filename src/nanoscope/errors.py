"""The two ways a command ends badly for a reason the person can act on.

Both carry one message, written for the reader: what happened, what it means, what to do next.
"""


class JobError(Exception):
    """The job could not be done (a file, the data, the machine): exit status 1."""

    exit_status = 1


class UsageError(Exception):
    """What was typed cannot be meant (a flag, a preset, a value): exit status 2."""

    exit_status = 2
