"""The two errors a command reports to the user without a traceback.

Each carries one message of at most three lines: what happened, what it means, what to do. It is a literal with
placeholders, because the catalogues translate it: `JobError("{path} is empty", path=path)`.
"""

from nanoscope.messages import Text


class _ReportedError(Exception):
    def __init__(self, message: str | Text, /, **values: object) -> None:
        self.text = message if isinstance(message, Text) else Text(message, **values)
        super().__init__(str(self.text))


class JobError(_ReportedError):
    """The job failed because of a file, the data or the machine. Exit status 1."""

    exit_status = 1


class UsageError(_ReportedError):
    """The command line or a config file is invalid. Exit status 2."""

    exit_status = 2
