"""What went wrong, according to the lines of a log: exceptions, kills, interruptions, lack of memory."""

import re
from dataclasses import dataclass, field
from typing import cast

from nanoscope.errors import OUT_OF_MEMORY
from nanoscope.runs.run import ErrorKind
from nanoscope.runs.text import without_prefix

AFTERMATH_LINES = 60
Failure = tuple[ErrorKind, str, int]  # kind, message, number of the line

_EXCEPTION = re.compile(
    r"(?:^|(?<=[\]:] ))((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Failure))"
    r"(?::\s?.{0,300}|\s?$)"
)
# What ends a traceback, whatever its name.
_ANY_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z][A-Za-z_]{2,60})(?::\s.{0,300}|\s{0,4}$)")
# What else ends a program, perhaps glued to a record. The message begins where the pattern does.
_ENDS = re.compile(
    r"(?P<interrupted>^\s{0,8}\^C\s{0,8}$|\breceived SIGINT\b)|(?P<killed>(?i:"
    r"slurmstepd\S{0,80}: error: .{0,200}(?:CANCELLED|TIME LIMIT|oom|Exceeded|KILLED)"
    r"|srun: error: .{0,80}Out Of Memory"
    r"|^(?:\S{0,80}: line \d{1,6}:\s{1,8}|\[\d{1,3}\]\s{1,8}[+-]?\s{0,8})?(?:\d{1,9} )?(?:zsh: )?killed\b"
    r"|(?<=[\d\])])killed\s{0,8}$|^(?:zsh: )?(?:Terminated|Aborted)\b|\bkernel (?:appears to have )?died\b"
    r"|\b(?:Segmentation fault|Bus error|oom-kill|SIGKILL|SIGSEGV|SIGTERM|SIGBUS"
    r"|exit code:? 137|exit status 137|exitcode\s?: -\d{1,2})\b).*)"
    r"|(?P<exception>Error: .{1,200} at \S{1,80}\.(?:cuh?|cpp|cc?|h|rs):\d{1,6}\b"
    r"|Watchdog caught collective operation timeout.{0,200}"
    r"|\bterminat(?:e called|ing)\b.{0,12} (?:uncaught exception|after throwing an instance) of .{1,200}"
    r"|thread '\w{1,40}' panicked at .{1,200}"
    r"|^\S{1,80}: error: .{1,200}|^\S{0,80}python\S{0,8}: (?:can't open file|No module named) .{1,200}"
    r"|^\S{1,80}: (?:line \d{1,6}: )?\S{1,80}: command not found"
    r"|^Error: (?:No such option|Invalid value|Missing|Got unexpected).{0,200}"
    r"|(?:CUDA|CUDA error:) out of memory.{0,300})"
)
_C_ERROR = re.compile(
    r"^\[(?:CUDA|NCCL|CUBLAS|CUDNN|MPI) ERROR\]|^Error: Failed to |^(?:CUDA|NCCL) (?:error|failure)\b", re.I
)
_CONSEQUENCES = ("ChildFailedError", "CalledProcessError", "SignalException")
HINTS = re.compile(
    r"rror|ERROR|Watchdog|exitcode|not found|can't|No module|xception|illed|nterrupt|CANCEL|fault|panicked| died"
    r"|emory|SIG[IKSTB]|erminated|Abort|\^C|Exit|ailure|oom|exit|raceback|throwing"
)


@dataclass(eq=False, repr=False)
class ErrorFinder:
    """Finds what ended a run among the lines that are not records; each cause once, not once per rank or traceback."""

    _found: list[tuple[ErrorKind, str]] = field(default_factory=list)
    _trace: tuple[int, str] | None = None  # in a traceback: line and text of its last 'File …, line …'
    _chained: bool = False
    _c_error: str = ""
    _last_line: int = -1000

    def read(self, line: str, number: int) -> Failure | None:
        """Look at one line; return the error that it reports, if it is a new one."""
        if not (self._trace or self._c_error or HINTS.search(line)):
            return None
        line = line if line[:1].isspace() else without_prefix(line)
        if self._c_error:  # a C program says where on one line and what on the next
            line, self._c_error = f"{self._c_error} {line.strip()}", ""
            return self._report("exception", line, number - 1)
        if line.lstrip().startswith("Traceback (most recent call last)"):
            self._trace = (number, "")
        elif self._trace and line.lstrip().startswith('File "'):
            self._trace = (number, line.strip())
        elif "During handling of the above exception" in line or "direct cause of the following exception" in line:
            self._chained = True
        elif _C_ERROR.match(line) and line.rstrip().endswith(":"):
            self._c_error = line.strip()
        elif exception := (self._trace and self._trace[1] and _ANY_EXCEPTION.match(line)) or _EXCEPTION.search(line):
            return self._read_exception(exception, number)
        elif (found := _ENDS.search(line)) and "closing signal" not in line:  # torchrun ends the others: a consequence
            return self._report(cast("ErrorKind", found.lastgroup), found.group(), number)
        return None

    def finish(self) -> Failure | None:
        """The error of a traceback that was cut before it said what it was."""
        if not self._trace or not self._trace[1] or self._found:
            return None
        return self._report("exception", self._trace[1], self._trace[0])

    def _read_exception(self, exception: re.Match[str], number: int) -> Failure | None:
        chained, self._chained, self._trace = self._chained, False, None
        if self._found and (chained or exception[1].endswith(_CONSEQUENCES)):
            return None
        kind: ErrorKind = "killed" if "killed by signal" in exception[0] else "exception"
        return self._report("interrupted" if "KeyboardInterrupt" in exception[1] else kind, exception[0], number)

    def _report(self, kind: ErrorKind, message: str, number: int) -> Failure | None:
        message = " ".join(message.split())[:300]
        if kind != "interrupted" and OUT_OF_MEMORY.search(message):
            kind = "out_of_memory"
        since, self._last_line = number - self._last_line, number
        if kind == "killed" and self._found and since < AFTERMATH_LINES:
            return None  # what a dying program prints last
        for known_kind, known in self._found[-8:]:
            # The same exception of every rank, a second Ctrl-C, the echo of a kill: one cause.
            if (
                known.endswith(message)
                or message.endswith(known)
                or (since < 400 and kind == known_kind != "exception")
            ):
                return None
        self._found.append((kind, message))
        return kind, message, number
