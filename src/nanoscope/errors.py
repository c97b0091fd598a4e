"""The two errors a command reports to the user without a traceback.

Each carries one message of at most three lines: what happened, what it means, what to do. It is a literal with
placeholders, because the catalogues translate it: `JobError("{path} is empty", path=path)`.
"""

import errno
import re

from nanoscope.messages import Message


class _ReportedError(Exception):
    def __init__(self, message: str | Message, /, **values: object) -> None:
        self.text = message if isinstance(message, Message) else Message(message, **values)
        super().__init__(str(self.text))


class JobError(_ReportedError):
    """The job failed because of a file, the data or the machine. Exit status 1."""

    exit_status = 1


class UsageError(_ReportedError):
    """The command line or a config file is invalid. Exit status 2."""

    exit_status = 2


# How torch, its libraries and the system say that memory ran out. 'Invalid buffer size' is a tensor too large for MPS;
# oneDNN, where it gets no memory, 'could not create a primitive'.
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|OOM when allocating|MemoryError|oom-kill|(?:can't|cannot) allocate memory"
    r"|not enough memory|alloc(?:ate|ation) .{0,40}failed|_ALLOC(?:ATION)?_FAILED|Invalid buffer size"
    r"|could not create a primitive$",
    re.IGNORECASE,
)

# What the system says most often. It has no language of its own in a program that never calls setlocale().
_SYSTEM = {
    errno.ENOENT: Message("No such file or directory"),
    errno.EACCES: Message("Permission denied"),
    errno.EPERM: Message("Operation not permitted"),
    errno.EEXIST: Message("File exists"),
    errno.EISDIR: Message("Is a directory"),
    errno.ENOTDIR: Message("Not a directory"),
    errno.ENOSPC: Message("No space left on device"),
    errno.EROFS: Message("Read-only file system"),
    errno.ENAMETOOLONG: Message("File name too long"),
    errno.EADDRINUSE: Message("Address already in use"),
    errno.ECONNREFUSED: Message("Connection refused"),
}


def why(error: object) -> Message | str:
    """The reason that an exception gives, for the placeholder of a message."""
    if isinstance(error, _ReportedError):
        return error.text
    if isinstance(error, OSError) and error.errno is not None:
        return _SYSTEM.get(error.errno) or error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return Message("it is not {encoding}: byte {n:,} is invalid", encoding=error.encoding.upper(), n=error.start)
    if isinstance(error, Exception) and error.args and isinstance(error.args[0], Message):
        return error.args[0]
    return str(error)
