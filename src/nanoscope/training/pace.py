"""How fast a run is and how long it will take, from what was measured so far."""

from collections import deque

from nanoscope.config import TrainConfig
from nanoscope.estimates import multiples_between, time_left


class Pace:
    """Recent step times, and what an evaluation, a checkpoint and a sample have cost so far."""

    RECENT = 100  # steps: long enough for a steady figure, short enough to follow a machine that gets slower

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self._steps: deque[float] = deque(maxlen=self.RECENT)
        self._since_line: list[float] = []
        self._extras: dict[str, tuple[float, int]] = {}

    def step(self, seconds: float) -> None:
        self._steps.append(seconds)
        self._since_line.append(seconds)

    def extra(self, phase: str, seconds: float) -> None:
        """Count an evaluation, a checkpoint or a sample."""
        total, count = self._extras.get(phase, (0.0, 0))
        self._extras[phase] = total + seconds, count + 1

    @property
    def step_seconds(self) -> float:
        return sum(self._steps) / len(self._steps)

    @property
    def tokens_per_second(self) -> float:
        return self.config.tokens_per_step / self.step_seconds

    def eta_seconds(self, next_step: int) -> float | None:
        """Remaining steps at the recent pace, and the evaluations, checkpoints and samples still to come."""
        if not self._steps:
            return None
        config, last = self.config, self.config.max_iters
        evals = multiples_between(next_step - 1, last, config.eval_interval) + (last % config.eval_interval > 0)
        samples = multiples_between(next_step - 1, last, config.sample_interval)
        extras = [(evals, self._mean("eval")), (evals, self._mean("checkpoint")), (samples, self._mean("sample"))]
        return time_left(max(last - next_step, 0), self.step_seconds, extras)

    def since_last_line(self) -> tuple[int, float, float]:
        """Count, mean and maximum of the steps since this was last called, in seconds."""
        seconds, self._since_line = self._since_line, []
        return len(seconds), sum(seconds) / len(seconds), max(seconds)

    def _mean(self, phase: str) -> float | None:
        total, count = self._extras.get(phase, (0.0, 0))
        return total / count if count else None
