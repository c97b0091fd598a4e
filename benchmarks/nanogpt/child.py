"""What both kinds of child process share: a task and its arguments in, JSON out; and the memory they used."""

import json
import sys
from collections.abc import Callable
from typing import Any

import psutil

from nanoscope.errors import JobError, UsageError

WARM_UP = 2  # iterations that are run and not counted


def resident_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def peak_resident_mb() -> float:
    """The most memory that this process has used so far."""
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / 1e6
    import resource

    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / 1e6


def answer(tasks: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Run the task named on the command line, with its arguments as JSON; the last line printed is the result."""
    name, arguments = sys.argv[1:]
    try:
        print(json.dumps(tasks[name](**json.loads(arguments))))
    except (JobError, UsageError) as error:
        sys.exit(str(error))
