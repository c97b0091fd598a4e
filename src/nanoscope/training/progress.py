"""Inside a long iteration or evaluation: how far it is, and whether to stop there."""

import time
from typing import Literal

from nanoscope.messages import Message
from nanoscope.training.run import Run
from nanoscope.training.stopping import StopRequest

SHOW_AFTER_SECONDS = 3.0  # shorter ones are not shown


class Progress:
    """Called before each batch of an iteration or evaluation: it returns whether to stop there."""

    def __init__(self, run: Run, stop: StopRequest, phase: Literal["step", "eval"]) -> None:
        self.phase, self.step, self.stop, self.reporter = phase, run.state.step, stop, run.reporter
        # Processes that share an iteration finish it: each waits for the gradients of the others.
        self.can_stop = phase == "eval" or run.processes.world == 1
        self.began = time.monotonic()

    def __call__(self, done: int, total: int) -> bool:
        if self.can_stop and self.stop.requested:
            return True
        if time.monotonic() - self.began > SHOW_AFTER_SECONDS:
            where = f"{done + 1}/{total}"
            step = Message("iteration {step:d}: micro-batch {where}", step=self.step, where=where)
            evaluation = Message("evaluation {step:d}: batch {where}", step=self.step, where=where)
            self.reporter.progress(step if self.phase == "step" else evaluation)
        return False
