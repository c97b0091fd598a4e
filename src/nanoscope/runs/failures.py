"""What went wrong, as the lines of a log tell it: exceptions, kills, interruptions, memory."""

import re
from dataclasses import dataclass, field

from nanoscope.runs.run import ErrorKind
from nanoscope.runs.text import without_prefix

_EXCEPTION = re.compile(
    r"(?:^|[\]:] )((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Failure))"
    r"(?::\s?(.{0,300})|\s?$)"
)
_KILLED = re.compile(
    r"slurmstepd: error: .{0,200}(?:CANCELLED|TIME LIMIT|oom|Exceeded|KILLED)|srun: error: .{0,80}Out Of Memory"
    r"|^(?:\S{0,80}: line \d{1,6}:\s{1,8})?(?:\d{1,9} )?(?:zsh: )?killed\b|^(?:Terminated|Aborted)\b"
    r"|\b(?:Segmentation fault|Bus error|oom-kill|SIGKILL|SIGSEGV|SIGTERM|SIGBUS|exit code:? 137|exit status 137)\b",
    re.IGNORECASE,
)
_C_ERROR = re.compile(
    r"^\[(?:CUDA|NCCL|CUBLAS|CUDNN|MPI) ERROR\]|^Error: Failed to |^(?:CUDA|NCCL) (?:error|failure)\b", re.I
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|oom-kill|(?:can't|cannot) allocate memory|alloc(?:ate|ation) .{0,40}failed",
    re.I,
)
# nanoscope's own words, on its console and among its events.
_STOPPED = re.compile(r"^stopped at iteration (\d{1,12}) by SIG|\"reason\": \"interrupted\", \"step\": (\d{1,12})")
_CONSEQUENCES = ("ChildFailedError", "CalledProcessError", "SignalException")
_HINTS = re.compile(
    r"rror|ERROR|xception|illed|nterrupt|CANCEL|fault|emory|SIG[IKSTB]|erminated|Abort|\^C|Exit|ailure|oom|exit|raceback"
)


@dataclass(eq=False, repr=False)
class ErrorFinder:
    """Finds what ended a run among the lines that are no records; one entry a cause, not one a rank or traceback."""

    found: list[tuple[int, ErrorKind, str]] = field(default_factory=list)
    _in_traceback: bool = False
    _chained: bool = False
    _c_error: str = ""
    _last_line: int = -1000

    def read(self, line: str, number: int) -> bool:
        """Look at one line; whether it told of a new error."""
        if self._c_error:  # a C program says where on one line and what on the next
            line, self._c_error = f"{self._c_error} {line.strip()}", ""
            return self._add(number - 1, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception", line)
        if not _HINTS.search(line):
            return False
        if line[:1] in "[0123456789" and not line.startswith(("[CUDA", "[NCCL", "[MPI")):
            line = without_prefix(line)
        if line.lstrip().startswith("Traceback (most recent call last)"):
            self._in_traceback = True
            return False
        if "During handling of the above exception" in line or "direct cause of the following exception" in line:
            self._chained = True
            return False
        if line.strip() == "^C":
            return self._add(number, "interrupted", "^C")
        stopped = _STOPPED.search(line)
        if stopped:
            return self._add(number, "interrupted", f"stopped at iteration {stopped[1] or stopped[2]}")
        if _C_ERROR.match(line):
            if line.rstrip().endswith(":"):
                self._c_error = line.strip()
                return False
            return self._add(
                number, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception", line.strip()[:300]
            )
        exception = _EXCEPTION.search(line) if not line.startswith("  ") else None
        if exception and (self._in_traceback or exception.start() == 0):
            return self._add_exception(number, line, exception)
        killed = _KILLED.search(line)
        if killed and "closing signal" not in line:  # torchrun ends the other ranks: a consequence
            return self._add(
                number, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "killed", line[killed.start() :]
            )
        if "CUDA out of memory" in line or "CUDA error: out of memory" in line:
            return self._add(number, "out_of_memory", line)
        return False

    def _add_exception(self, number: int, line: str, exception: re.Match[str]) -> bool:
        self._in_traceback = False
        chained, self._chained = self._chained, False
        name = exception.group(1)
        if chained or (self.found and name.endswith(_CONSEQUENCES)):
            return False
        if name.endswith("KeyboardInterrupt"):
            return self._add(number, "interrupted", exception.group().lstrip("]: "))
        kind: ErrorKind = "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception"
        return self._add(number, kind, exception.group().lstrip("]: "))

    def _add(self, number: int, kind: ErrorKind, message: str) -> bool:
        message = " ".join(message.split())[:300]
        near = number - self._last_line < 400
        self._last_line = number
        for _, known_kind, known in self.found[-8:]:
            # The same exception of every rank, a second Ctrl-C, the echo of a kill: one cause.
            if known.endswith(message) or message.endswith(known) or (near and kind == known_kind != "exception"):
                return False
        self.found.append((number, kind, message))
        return True
