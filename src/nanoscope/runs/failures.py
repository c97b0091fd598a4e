"""What went wrong, according to the lines of a log: exceptions, kills, interruptions, lack of memory."""

import re
from dataclasses import dataclass, field

from nanoscope.errors import OUT_OF_MEMORY
from nanoscope.runs.run import ErrorKind
from nanoscope.runs.text import without_prefix

AFTERMATH_LINES = 60
Failure = tuple[ErrorKind, str, int]  # kind, message, number of the line

_EXCEPTION = re.compile(
    r"(?:^|[\]:] )((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Failure))"
    r"(?::\s?(.{0,300})|\s?$)"
)
_KILLED = re.compile(
    r"slurmstepd: error: .{0,200}(?:CANCELLED|TIME LIMIT|oom|Exceeded|KILLED)|srun: error: .{0,80}Out Of Memory"
    r"|^(?:\S{0,80}: line \d{1,6}:\s{1,8})?(?:\d{1,9} )?(?:zsh: )?killed\b|^(?:Terminated|Aborted)\b"
    r"|\b(?:Segmentation fault|Bus error|oom-kill|SIGKILL|SIGSEGV|SIGTERM|SIGBUS"
    r"|exit code:? 137|exit status 137|exitcode\s?: -\d{1,2})\b",
    re.IGNORECASE,
)
# 'Error: Token out of range at train.cu:675', perhaps glued to a record; complaints about the command line.
_OTHER_ERROR = re.compile(
    r"Error: .{1,200} at \S{1,80}\.(?:cuh?|cpp|cc?|h|rs):\d{1,6}\b|Watchdog caught collective operation timeout.{0,200}"
    r"|^\S{1,80}: error: .{1,200}|^\S{0,80}python\S{0,8}: (?:can't open file|No module named) .{1,200}"
    r"|^\S{1,80}: (?:line \d{1,6}: )?\S{1,80}: command not found"
    r"|^Error: (?:No such option|Invalid value|Missing|Got unexpected).{0,200}"
)
_C_ERROR = re.compile(
    r"^\[(?:CUDA|NCCL|CUBLAS|CUDNN|MPI) ERROR\]|^Error: Failed to |^(?:CUDA|NCCL) (?:error|failure)\b", re.I
)
# What ends a traceback, whatever its name.
_ANY_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z][A-Za-z_]{2,60})(?::\s(.{0,300})|\s{0,4}$)")
_CONSEQUENCES = ("ChildFailedError", "CalledProcessError", "SignalException")
_HINTS = re.compile(
    r"rror|ERROR|Watchdog|exitcode|not found|can't|No module|xception|illed|nterrupt|CANCEL|fault"
    r"|emory|SIG[IKSTB]|erminated|Abort|\^C|Exit|ailure|oom|exit|raceback"
)


@dataclass(eq=False, repr=False)
class ErrorFinder:
    """Finds what ended a run among the lines that are not records; each cause once, not once per rank or traceback."""

    _found: list[tuple[ErrorKind, str]] = field(default_factory=list)
    _in_traceback: bool = False
    _frame: tuple[int, str] | None = None  # line and text of the last 'File …, line …' of a traceback
    _chained: bool = False
    _c_error: str = ""
    _last_line: int = -1000

    def read(self, line: str, number: int) -> Failure | None:
        """Look at one line; return the error that it reports, if it is a new one."""
        if self._c_error:  # a C program says where on one line and what on the next
            line, self._c_error = f"{self._c_error} {line.strip()}", ""
            return self._report(_memory_or("exception", line), line, number - 1)
        if self._in_traceback:
            bare = line if line[:1].isspace() else without_prefix(line)
            if bare.lstrip().startswith('File "'):
                self._frame = (number, bare.strip())
            elif self._frame and not bare.startswith((" ", "\t")) and (other := _ANY_EXCEPTION.match(bare)):
                return self._read_exception(other, number)
        if not _HINTS.search(line):
            return None
        if not line[:1].isspace():
            line = without_prefix(line)
        if line.lstrip().startswith("Traceback (most recent call last)"):
            self._in_traceback, self._frame = True, None
            return None
        if "During handling of the above exception" in line or "direct cause of the following exception" in line:
            self._chained = True
            return None
        if line.strip() == "^C":
            return self._report("interrupted", "^C", number)
        if _C_ERROR.match(line):
            if line.rstrip().endswith(":"):
                self._c_error = line.strip()
                return None
            return self._report(_memory_or("exception", line), line, number)
        exception = _EXCEPTION.search(line) if not line.startswith("  ") else None
        if exception and (self._in_traceback or exception.start() == 0):
            return self._read_exception(exception, number)
        killed = _KILLED.search(line)
        if killed and "closing signal" not in line:  # torchrun ends the other ranks: a consequence
            return self._report(_memory_or("killed", line), line[killed.start() :], number)
        other_error = _OTHER_ERROR.search(line)
        if other_error:
            return self._report(_memory_or("exception", line), other_error.group(), number)
        if "CUDA out of memory" in line or "CUDA error: out of memory" in line:
            return self._report("out_of_memory", line, number)
        return None

    def finish(self) -> Failure | None:
        """The error of a traceback that was cut before it said what it was."""
        if self._in_traceback and self._frame and not self._found:
            return self._report("exception", self._frame[1], self._frame[0])
        return None

    def _read_exception(self, exception: re.Match[str], number: int) -> Failure | None:
        chained, self._chained, self._in_traceback = self._chained, False, False
        name = exception[1]
        if chained or (self._found and name.endswith(_CONSEQUENCES)):
            return None
        interrupted = name.endswith("KeyboardInterrupt")
        killed = "killed by signal" in exception.string
        kind = "interrupted" if interrupted else _memory_or("killed" if killed else "exception", exception.string)
        return self._report(kind, exception.group().lstrip("]: "), number)

    def _report(self, kind: ErrorKind, message: str, number: int) -> Failure | None:
        message = " ".join(message.split())[:300]
        near = number - self._last_line < 400
        if kind == "killed" and self._found and number - self._last_line < AFTERMATH_LINES:
            return None  # what a dying program prints last
        self._last_line = number
        for known_kind, known in self._found[-8:]:
            # The same exception of every rank, a second Ctrl-C, the echo of a kill: one cause.
            if known.endswith(message) or message.endswith(known) or (near and kind == known_kind != "exception"):
                return None
        self._found.append((kind, message))
        return kind, message, number


def _memory_or(kind: ErrorKind, line: str) -> ErrorKind:
    return "out_of_memory" if OUT_OF_MEMORY.search(line) else kind
