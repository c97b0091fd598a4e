"""The two errors a command reports to the user without a traceback.

Each carries one message of at most three lines: what happened, what it means, what to do. It is a literal with
placeholders, because the catalogues translate it: `JobError("{path} is empty", path=path)`.
"""

import errno
import re

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


# How torch, its libraries and the system say that memory ran out. 'Invalid buffer size' is a tensor too large for MPS.
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|OOM when allocating|MemoryError|oom-kill|(?:can't|cannot) allocate memory"
    r"|not enough memory|alloc(?:ate|ation) .{0,40}failed|_ALLOC(?:ATION)?_FAILED|Invalid buffer size",
    re.IGNORECASE,
)

# What the system says most often. It has no language of its own in a program that never calls setlocale().
_SYSTEM = {
    errno.ENOENT: Text("No such file or directory"),
    errno.EACCES: Text("Permission denied"),
    errno.EPERM: Text("Operation not permitted"),
    errno.EEXIST: Text("File exists"),
    errno.EISDIR: Text("Is a directory"),
    errno.ENOTDIR: Text("Not a directory"),
    errno.ENOSPC: Text("No space left on device"),
    errno.EROFS: Text("Read-only file system"),
    errno.ENAMETOOLONG: Text("File name too long"),
    errno.EADDRINUSE: Text("Address already in use"),
    errno.ECONNREFUSED: Text("Connection refused"),
}


def why(error: object) -> Text | str:
    """The reason that an exception gives, for the placeholder of a message."""
    if isinstance(error, _ReportedError):
        return error.text
    if isinstance(error, OSError) and error.errno is not None:
        return _SYSTEM.get(error.errno) or error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return Text("it is not {encoding}: byte {n:,} is invalid", encoding=error.encoding.upper(), n=error.start)
    if isinstance(error, Exception) and error.args and isinstance(error.args[0], Text):
        return error.args[0]
    return str(error)
