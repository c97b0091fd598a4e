"""The two errors a command reports to the user without a traceback.

Each carries one message of at most three lines: what happened, what it means, what to do.
"""


class JobError(Exception):
    """The job failed because of a file, the data or the machine. Exit status 1."""

    exit_status = 1


class UsageError(Exception):
    """The command line or a config file is invalid. Exit status 2."""

    exit_status = 2
