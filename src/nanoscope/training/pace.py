"""How fast a run goes and how long it still takes: what has been measured, carried on."""

from collections import deque

from nanoscope.config import TrainConfig


class Pace:
    """Recent step times, and what an evaluation, a checkpoint and a sample have cost so far."""

    RECENT = 100  # steps: long enough for a steady figure, short enough to follow a machine that gets slower

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.steps: deque[float] = deque(maxlen=self.RECENT)
        self.since_line: list[float] = []
        self._extra: dict[str, tuple[float, int]] = {}

    def step(self, seconds: float) -> None:
        self.steps.append(seconds)
        self.since_line.append(seconds)

    def extra(self, phase: str, seconds: float) -> None:
        """An evaluation, checkpoint or sample took this long."""
        total, count = self._extra.get(phase, (0.0, 0))
        self._extra[phase] = total + seconds, count + 1

    @property
    def step_seconds(self) -> float:
        return sum(self.steps) / len(self.steps)

    @property
    def tokens_per_second(self) -> float:
        return self.config.tokens_per_step / self.step_seconds

    def eta_seconds(self, next_step: int) -> float | None:
        """Remaining steps at the recent pace, and the evaluations, checkpoints and samples still to come."""
        if not self.steps:
            return None
        config, last = self.config, self.config.max_iters
        to_come = {"eval": _multiples(config.eval_interval, next_step, last) + (last % config.eval_interval > 0)}
        to_come["checkpoint"] = to_come["eval"]
        to_come["sample"] = _multiples(config.sample_interval, next_step, last) if config.sample_interval else 0
        seconds = max(last - next_step, 0) * self.step_seconds
        for phase, count in to_come.items():
            total, measured = self._extra.get(phase, (0.0, 0))
            seconds += count * total / measured if measured else 0.0
        return seconds

    def line_written(self) -> None:
        self.since_line.clear()


def _multiples(interval: int, first: int, last: int) -> int:
    """How many multiples of interval lie in [first, last]."""
    return max(last // interval - (first - 1) // interval, 0)


def short_duration(seconds: float) -> str:
    """41s, 3m20s, 2h05m, 3d04h: four to six characters."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"


def short_count(number: float) -> str:
    """864, 33.2k, 1.26M."""
    for limit, divisor, unit in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if number < limit:
            return f"{number / divisor:.3g}{unit}" if unit else f"{number:.0f}"
    return f"{number / 1e9:.3g}B"
