"""How fast a run is and how long it will take: the one model of time, for the ETA, the forecast and `plan`.

A run is so many steps, evaluations, checkpoints and samples, which follow from its configuration. The seconds of each
are those measured so far; before that, what was expected of them.
"""

from collections import deque
from itertools import pairwise

from nanoscope.config import TrainConfig
from nanoscope.estimates import median, multiples_between
from nanoscope.runs.events import Forecast
from nanoscope.training.phases import PhaseClock

# Times the expected seconds: where the truth lies nine times in ten (benchmarks/LOG.md).
UNSURE = 0.5, 2.0  # from the warm-up alone
SURE = 0.8, 1.3  # from some iterations
STRETCHES = 10  # of the recent steps


def evaluation_due(step: int, config: TrainConfig) -> bool:
    """Whether to evaluate before iteration `step`, or at the end."""
    if config.eval_only:
        return True
    if step == 0 and config.recipe == "modern" and config.init_from == "scratch":
        return False  # its output layer begins at zero: the loss is the logarithm of the vocabulary's size
    return step % config.eval_interval == 0 or step == config.max_iters


def left_to_do(config: TrainConfig, done: int, *, evaluated: bool = False) -> dict[str, int]:
    """How often each phase comes after `done` iterations. `evaluated`: the evaluation that is due right there is done.

    Each evaluation may save a checkpoint: with always_save_checkpoint=False, these are the most that are to come.
    """
    last, first = config.max_iters, max(done, 1)
    later = multiples_between(first - 1, last, config.eval_interval) + (last % config.eval_interval > 0)
    later -= done > 0 and evaluated and evaluation_due(done, config)
    at_start = done == 0 and not evaluated and evaluation_due(0, config)  # before training there is nothing to save
    samples = multiples_between(first - 1, last, config.sample_interval)
    return {"step": max(last - done, 0), "eval": later + at_start, "checkpoint": later, "sample": samples}


class Pace:
    """Recent seconds of each phase: step, eval, checkpoint, sample. `clock` is None for a run that is only planned."""

    RECENT = 100  # steps: long enough for a steady figure, short enough to follow a machine that gets slower

    def __init__(self, config: TrainConfig, clock: PhaseClock | None = None, **expected: float | None) -> None:
        self.config, self.clock = config, clock
        self.guess = expected
        """Seconds of each phase, until it is measured."""
        self._seconds: dict[str, deque[float]] = {}
        self._since_line: list[float] = []
        self._steps = 0

    def add(self, phase: str, seconds: float) -> None:
        """Count a step, an evaluation, a checkpoint or a sample."""
        self._seconds.setdefault(phase, deque(maxlen=self.RECENT)).append(seconds)
        if phase == "step":
            self._since_line.append(seconds)
            self._steps += 1

    @property
    def tokens_per_second(self) -> float:
        recent = self._seconds["step"]
        return self.config.tokens_per_step * len(recent) / sum(recent)

    def expected(self, phase: str) -> float | None:
        """Seconds of the next step, evaluation, checkpoint or sample."""
        seen = self._seconds.get(phase)
        return _typical(seen) if seen else self.guess.get(phase)

    def eta_seconds(self, done: int) -> float | None:
        """The rest of the run after `done` iterations."""
        seconds = self._seconds_left(done)
        return None if seconds is None else self._until_limit(seconds)

    def _seconds_left(self, done: int, evaluated: bool = False) -> float | None:
        """The steps left, with the evaluations, checkpoints and samples still to come.

        Each step also has its share of what lies between the phases: logging above all.
        """
        if self.expected("step") is None:
            return None
        overhead = self.clock.seconds()["other"] / max(self._steps, 1) if self.clock else 0.0
        left = left_to_do(self.config, done, evaluated=evaluated)
        return left["step"] * overhead + sum(count * (self.expected(phase) or 0.0) for phase, count in left.items())

    def _until_limit(self, seconds: float) -> float:
        """At most what max_minutes leaves, and the checkpoint at its end."""
        if not self.config.max_minutes:
            return seconds
        left = max(60 * self.config.max_minutes - (self.clock.wall_seconds if self.clock else 0.0), 0.0)
        return min(seconds, left + (self.expected("checkpoint") or 0.0))

    def forecast(self, done: int, *, evaluated: bool = False, measured: int = 0) -> Forecast:
        """The rest of the run and its range; `measured` iterations are what this rests on.

        Where max_minutes end the run, it counts the iterations that fit in.
        """
        low, high = SURE if measured else UNSURE
        whole, steps = self._seconds_left(done, evaluated) or 0.0, self.config.max_iters - done
        seconds, longest = self._until_limit(whole), self._until_limit(high * whole)
        if seconds < whole:
            longest += self.expected("eval") or 0.0  # one that has begun is finished
            steps = int(steps * seconds / whole)
        return Forecast(
            step=done,
            steps=steps,
            measured=measured,
            seconds=seconds,
            seconds_low=self._until_limit(low * whole),
            seconds_high=longest,
            step_seconds=self.expected("step"),
            eval_seconds=self.expected("eval"),
            checkpoint_seconds=self.expected("checkpoint"),
            sample_seconds=self.expected("sample"),
        )

    def since_last_line(self) -> tuple[int, float, float]:
        """Count, mean and maximum of the steps since this was last called, in seconds."""
        seconds, self._since_line = self._since_line, []
        return len(seconds), sum(seconds) / len(seconds), max(seconds)


def _typical(seconds: deque[float]) -> float:
    """The median of the means of some stretches: it follows what comes again and again, and ignores what came once.

    The first steps are often slow, and another program may slow down a few of them for a moment.
    """
    values, count = list(seconds), min(STRETCHES, len(seconds))
    edges = [len(values) * edge // count for edge in range(count + 1)]
    return median([sum(values[a:b]) / (b - a) for a, b in pairwise(edges)])
