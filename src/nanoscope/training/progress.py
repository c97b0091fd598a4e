"""Inside a long iteration or evaluation: how far it is, and where and how soon it stops when asked to."""

import time
from typing import Literal

from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest
from nanoscope.units import short_duration

SHOW_AFTER_SECONDS = 3.0  # what is over sooner needs no progress


class Passage:
    """The batches of one iteration or evaluation. Call it before each of them: it returns whether to stop there."""

    def __init__(self, session: Session, stop: StopRequest, phase: Literal["step", "eval"], total: int) -> None:
        self.whole, self.part = ("iteration", "micro-batch") if phase == "step" else ("evaluation", "batch")
        self.step, self.stop, self.reporter = session.state.step, stop, session.books.reporter
        self.title = f"{self.whole} {self.step}: {self.part}"
        # Processes that share an iteration finish it: each waits for the gradients of the others.
        self.can_stop = phase == "eval" or session.machine.processes.world == 1
        self.total, self.done = total, -1
        self.expected_seconds = session.books.pace.expected(phase) or 0.0
        self.began = self.batch_began = time.monotonic()

    def __enter__(self) -> "Passage":
        self.stop.describe = self.describe_stop
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.describe = None

    def __call__(self) -> bool:
        self.done += 1
        self.batch_began = time.monotonic()
        if self.can_stop and self.stop.requested:
            return True
        if self.batch_began - self.began > SHOW_AFTER_SECONDS:
            self.reporter.progress(f"{self.title} {self.done + 1}/{self.total}")
        return False

    def describe_stop(self) -> str:
        """When the run stops if it is asked to now, and what becomes of what it is doing."""
        abandons = self.can_stop and self.done + 1 < self.total
        measured = self.batch_began - self.began
        each = measured / self.done if self.done > 0 else self.expected_seconds / self.total
        seconds = each * (1 if abandons else self.total - self.done) - (time.monotonic() - self.batch_began)
        when = f" (about {short_duration(seconds)})" if seconds > SHOW_AFTER_SECONDS else ""
        saving = ", then saving" if self.step or not abandons else ""
        if abandons:
            return f"after this {self.part}{when}, discarding the unfinished {self.whole}{saving}"
        return f"after this {self.whole}{when}{saving}"
