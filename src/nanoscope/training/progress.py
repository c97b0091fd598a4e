"""Inside a long iteration or evaluation: how far it is, and where it stops when asked to."""

import time
from typing import Literal

from nanoscope.messages import Message
from nanoscope.training.run import Run
from nanoscope.training.stopping import StopRequest

SHOW_AFTER_SECONDS = 3.0  # shorter ones are not shown
STOPS = {  # by phase, and whether that is abandoned
    ("step", True): Message("stopping after this micro-batch, discarding the unfinished iteration"),
    ("step", False): Message("stopping after this iteration, then saving"),
    ("eval", True): Message("stopping after this batch, discarding the unfinished evaluation"),
    ("eval", False): Message("stopping after this evaluation, then saving"),
}


class Progress:
    """Called before each batch of an iteration or evaluation: it returns whether to stop there."""

    def __init__(self, run: Run, stop: StopRequest, phase: Literal["step", "eval"]) -> None:
        self.phase, self.step, self.stop, self.reporter = phase, run.state.step, stop, run.reporter
        # Processes that share an iteration finish it: each waits for the gradients of the others.
        self.can_stop = phase == "eval" or run.processes.world == 1
        self.done, self.total, self.began = 0, 1, time.monotonic()

    def __enter__(self) -> "Progress":
        self.stop.describe = self.describe_stop
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.describe = None

    def __call__(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        if self.can_stop and self.stop.requested:
            return True
        if time.monotonic() - self.began > SHOW_AFTER_SECONDS:
            where = f"{done + 1}/{total}"
            step = Message("iteration {step:d}: micro-batch {where}", step=self.step, where=where)
            evaluation = Message("evaluation {step:d}: batch {where}", step=self.step, where=where)
            self.reporter.progress(step if self.phase == "step" else evaluation)
        return False

    def describe_stop(self) -> Message:
        """Where the run stops if it is asked to now, and what becomes of what it is doing."""
        return STOPS[self.phase, self.can_stop and self.done + 1 < self.total]
