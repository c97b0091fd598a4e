"""Inside a long iteration or evaluation: how far it is, and where and how soon it stops when asked to."""

import time
from typing import Literal

from nanoscope.messages import Text
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest

SHOW_AFTER_SECONDS = 3.0  # what is over sooner needs no progress


class Passage:
    """The batches of one iteration or evaluation. Called before each of them: it returns whether to stop there."""

    def __init__(self, session: Session, stop: StopRequest, phase: Literal["step", "eval"]) -> None:
        self.phase, self.step, self.stop, self.reporter = phase, session.state.step, stop, session.books.reporter
        # Processes that share an iteration finish it: each waits for the gradients of the others.
        self.can_stop = phase == "eval" or session.machine.processes.world == 1
        self.done, self.total = 0, 1
        self.expected_seconds = session.books.pace.expected(phase) or 0.0
        self.began = self.batch_began = time.monotonic()

    def __enter__(self) -> "Passage":
        self.stop.describe = self.describe_stop
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.describe = None

    def __call__(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        self.batch_began = time.monotonic()
        if self.can_stop and self.stop.requested:
            return True
        if self.batch_began - self.began > SHOW_AFTER_SECONDS:
            where = f"{self.done + 1}/{self.total}"
            step = Text("iteration {step:d}: micro-batch {where}", step=self.step, where=where)
            evaluation = Text("evaluation {step:d}: batch {where}", step=self.step, where=where)
            self.reporter.progress(step if self.phase == "step" else evaluation)
        return False

    def describe_stop(self) -> Text:
        """When the run stops if it is asked to now, and what becomes of what it is doing."""
        abandons = self.can_stop and self.done + 1 < self.total
        measured = self.batch_began - self.began
        each = measured / self.done if self.done > 0 else self.expected_seconds / self.total
        seconds = each * (1 if abandons else self.total - self.done) - (time.monotonic() - self.batch_began)
        when = Text(" (about {seconds:duration})", seconds=seconds) if seconds > SHOW_AFTER_SECONDS else ""
        if self.phase == "step" and not abandons:
            return Text("stopping after this iteration{when}, then saving", when=when)
        if not abandons:
            return Text("stopping after this evaluation{when}, then saving", when=when)
        if self.phase == "step" and self.step:
            return Text(
                "stopping after this micro-batch{when}, discarding the unfinished iteration, then saving", when=when
            )
        if self.phase == "step":
            return Text("stopping after this micro-batch{when}, discarding the unfinished iteration", when=when)
        if self.step:
            return Text("stopping after this batch{when}, discarding the unfinished evaluation, then saving", when=when)
        return Text("stopping after this batch{when}, discarding the unfinished evaluation", when=when)
