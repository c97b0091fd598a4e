"""What both kinds of child process need: the times of iterations, the memory they took, one task in and JSON out."""

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import psutil

from nanoscope.errors import JobError, UsageError


class Laps:
    """The times of iterations: as many as fit into `seconds`, at least LEAST, the first ones not counted."""

    WARM_UP, LEAST = 2, 3

    def __init__(self, seconds: float) -> None:
        self._marks: list[float] = []
        self._seconds = seconds

    def mark(self) -> bool:
        """To be called where an iteration ends and the next begins; whether there have been enough."""
        self._marks.append(time.perf_counter())
        counted = len(self._marks) - 1 - self.WARM_UP
        return counted >= self.LEAST and self._marks[-1] - self._marks[self.WARM_UP] >= self._seconds

    @property
    def ms(self) -> list[float]:
        counted = self._marks[self.WARM_UP :]
        return [1000 * (end - begin) for begin, end in pairwise(counted)]


def resident_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def peak_resident_mb() -> float:
    """The most memory that this process has had so far."""
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / 1e6
    import resource

    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / 1e6


def answer(tasks: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Do the task that the command line names, with its arguments as JSON; the last line printed is the result."""
    name, arguments = sys.argv[1:]
    try:
        print(json.dumps(tasks[name](**json.loads(arguments))))
    except (JobError, UsageError) as error:
        sys.exit(str(error))
