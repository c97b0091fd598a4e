"""Where trials are run: a child process that trains arms, what they reached, and the time that is left for more."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError
from nanoscope.estimates import median
from nanoscope.messages import Text
from nanoscope.planning.trying_arms import Change, with_length
from nanoscope.planning.trying_worker import Answer, Arm, Outcome, plain

PACE_SECONDS = 0.3  # of a measurement of speed, if that is not less than FEW iterations or more than MOST
FEW, MOST = 3, 200
PAIRS = 3  # of measurements of time
FEWEST_ITERS = 10


class NoTimeLeftError(Exception):
    """No further arm can be trained in time. What is known stays."""


class Worker:
    """The process that trains arms. It writes no file; ending it at any moment leaves nothing behind."""

    def __init__(self, run: Path, config: TrainConfig) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope.planning.trying_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches the command alone, which ends this
        )
        self._say((str(run), plain(config)))
        self._answer()

    def train(self, arm: Arm, on_step: Callable[[int], None] = lambda step: None) -> Outcome:
        self._say(arm)
        while (answer := self._answer()).outcome is None:
            on_step(answer.step)
        return answer.outcome

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self._errors.close()

    def _say(self, order: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer says why
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            answer = msgspec.json.decode(line, type=Answer)
            if not answer.error:
                return answer
            raise JobError("the run can't be trained again here: {reason}", reason=answer.error)
        self._errors.seek(0)
        said = [text for text in self._errors.read().decode("utf-8", "replace").splitlines() if text.strip()]
        reason = said[-1] if said else Text("exit status {status:d}", status=self._process.wait())
        raise JobError("the process that trains the trials has ended: {reason}", reason=reason)


class Lab:
    """Trains arms that are not known yet, as long as there is time. An arm has a `share` of its run's iterations."""

    def __init__(
        self, worker: Worker, windows: int, deadline: float, on_progress: Callable[[str, float], None] | None = None
    ) -> None:
        self._worker, self._windows, self._deadline = worker, windows, deadline
        self._began = time.monotonic()
        self._on_progress = on_progress or (lambda stage, fraction: None)
        self._known: dict[bytes, list[float]] = {}
        self._ratios: dict[bytes, float] = {}
        self.problems: dict[str, str] = {}
        """Of the arms that broke down, as in `Outcome`, by the label of the change."""
        self.arms = 0
        self.seconds_per_iteration = 0.0

    def pace(self, config: TrainConfig) -> float:
        """Seconds of an iteration, from a few."""
        outcome = self._worker.train(Arm(plain(replace(config, max_iters=FEW))))
        if 0 < outcome.seconds < PACE_SECONDS:
            steps = min(round(FEW * PACE_SECONDS / outcome.seconds), MOST)
            outcome = self._worker.train(Arm(plain(replace(config, max_iters=steps))))
        return outcome.step_seconds

    def losses(self, config: TrainConfig, share: float, seed: int, what: Text | str) -> list[float]:
        """The validation losses by window at the end of an arm. One that breaks down has those of guessing."""
        shortened = replace(with_length(config, max(round(share * config.max_iters), FEWEST_ITERS)), seed=seed)
        key = msgspec.json.encode(plain(shortened))
        if key not in self._known:
            outcome = self._train(Arm(plain(shortened), self._windows), what, shortened.max_iters)
            if outcome.problem:
                self.problems[str(what)] = outcome.problem
            self._known[key] = outcome.losses
            self.arms += 1
        return self._known[key]

    def time_ratio(self, config: TrainConfig, change: Change) -> float:
        """How many iterations with a change take as long as one without it; measured in turns."""
        changed = replace(change.of(config), lr_scale=config.lr_scale)  # which takes no time
        key = msgspec.json.encode([plain(config), plain(changed)])
        if key not in self._ratios:
            self._check_time(0.0)
            pairs = [(self.pace(config), self.pace(changed)) for _ in range(PAIRS)]
            self._ratios[key] = median([one / other if other else 1.0 for one, other in pairs])
        return self._ratios[key]

    def savings(self, config: TrainConfig, change: Change, iters: int) -> list[float]:
        """The share of the time that evaluating less saves, in each of several pairs of runs."""
        arms = [Arm(plain(replace(each, max_iters=iters)), evaluates=True) for each in (config, change.of(config))]
        found = []
        for number in range(PAIRS):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            seconds = {which: self._train(arms[which], change.label, iters).seconds for which in order}
            found.append(1 - seconds[1] / seconds[0])
        self.arms += 2 * PAIRS
        return found

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def _check_time(self, seconds: float) -> None:
        if self.seconds_left < seconds:
            raise NoTimeLeftError

    def _train(self, arm: Arm, what: Text | str, iters: int) -> Outcome:
        self._check_time(0.5 * iters * self.seconds_per_iteration)  # what has begun may end a little late
        whole = max(self._deadline - self._began, 1e-9)

        def on_step(step: int) -> None:
            self._on_progress(what, min((time.monotonic() - self._began) / whole, 1.0))

        on_step(0)
        return self._worker.train(arm, on_step)
