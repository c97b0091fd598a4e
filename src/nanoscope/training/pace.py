"""How fast a run is and how long it will take: from what was measured so far, before that from its forecast."""

from collections import deque
from itertools import pairwise

from msgspec.structs import replace

from nanoscope.config import TrainConfig
from nanoscope.estimates import median, time_left
from nanoscope.runs.events import Forecast
from nanoscope.training.agenda import left_to_do
from nanoscope.training.phases import PhaseClock

# Times the expected seconds: where the truth lies nine times in ten (benchmarks/LOG.md).
UNSURE = 0.5, 2.0  # from the warm-up alone
SURE = 0.8, 1.3  # from some iterations
STRETCHES = 10  # of the recent steps
OTHER_LOAD = 1.5  # an iteration takes so many times what was expected, or less: an evaluation will, too


class Pace:
    """Recent times of steps, evaluations, checkpoints and samples, and what is left of each."""

    RECENT = 100  # steps: long enough for a steady figure, short enough to follow a machine that gets slower
    JUDGED_STEPS = 5  # the forecast is compared with these
    WORTH_SECONDS = 60.0  # of a run: shorter ones are over before a better forecast is of use

    def __init__(self, config: TrainConfig, clock: PhaseClock | None = None) -> None:
        self.config, self.clock = config, clock or PhaseClock()
        self.forecast = Forecast()
        self._seconds: dict[str, deque[float]] = {}
        self._since_line: list[float] = []
        self._steps = 0
        self._bests: list[bool] = []

    def step(self, seconds: float) -> None:
        self.extra("step", seconds)
        self._since_line.append(seconds)
        self._steps += 1

    def extra(self, phase: str, seconds: float) -> None:
        """Count an evaluation, a checkpoint or a sample."""
        self._seconds.setdefault(phase, deque(maxlen=self.RECENT)).append(seconds)

    def evaluation(self, step: int, seconds: float, *, best: bool) -> None:
        self.extra("eval", seconds)
        self._bests += [best] if step else []

    @property
    def tokens_per_second(self) -> float:
        recent = self._seconds["step"]
        return self.config.tokens_per_step * len(recent) / sum(recent)

    @property
    def saved_share(self) -> float:
        """Of the evaluations to come, how many will save: the share of the best so far, as if one more had been."""
        return 1.0 if self.config.always_save_checkpoint else (1 + sum(self._bests)) / (1 + len(self._bests))

    def expected(self, phase: str) -> float | None:
        """Seconds of the next step, evaluation, checkpoint or sample: as until now, else as forecast."""
        seen = self._seconds.get(phase)
        return _usual(seen) if seen else getattr(self.forecast, f"{phase}_seconds", None)

    def eta_seconds(self, done: int, *, evaluated: bool = False) -> float | None:
        """The rest of the run after `done` iterations; `evaluated`: the evaluation that is due there is done."""
        seconds = self._seconds_left(done, evaluated)
        return None if seconds is None else self._until_limit(seconds)

    def _seconds_left(self, done: int, evaluated: bool) -> float | None:
        """The steps left, with the evaluations, checkpoints and samples still to come.

        Each step also has its share of what lies between the phases: logging above all.
        """
        step_seconds = self.expected("step")
        if step_seconds is None:
            return None
        between = self.clock.seconds()["other"] / max(self._steps, 1)
        left = left_to_do(self.config, done, evaluated=evaluated, saved_share=self.saved_share)
        extras = [(getattr(left, phase), self.expected(phase)) for phase in ("eval", "checkpoint", "sample")]
        return time_left(left.step, step_seconds + between, extras)

    def _until_limit(self, seconds: float) -> float:
        """At most what max_minutes leaves, and the checkpoint at its end."""
        if not self.config.max_minutes:
            return seconds
        left = max(60 * self.config.max_minutes - self.clock.wall_seconds, 0.0)
        return min(seconds, left + (self.expected("checkpoint") or 0.0))

    def complete(self, forecast: Forecast, *, evaluated: bool = False) -> Forecast:
        """Expect this from now on: a forecast, to which the time of the rest of the run and its range are added.

        Where max_minutes end the run, it counts the iterations that fit in.
        """
        self.forecast = forecast
        low, high = SURE if forecast.measured else UNSURE
        whole = self._seconds_left(forecast.step, evaluated) or 0.0
        longest = self._until_limit(high * whole)
        if (seconds := self._until_limit(whole)) < whole:
            longest += self.expected("eval") or 0.0  # one that has begun is finished
            forecast = replace(forecast, steps=int(forecast.steps * seconds / whole))
            if forecast.epochs_per_step is not None:
                forecast = replace(forecast, epochs=(forecast.step + forecast.steps) * forecast.epochs_per_step)
        self.forecast = replace(
            forecast, seconds=seconds, seconds_low=self._until_limit(low * whole), seconds_high=longest
        )
        return self.forecast

    def revise_forecast(self, done: int) -> list[Forecast]:
        """After the first iterations, once: a new forecast if the old one was wrong, and is worth a line."""
        expected = self.forecast
        if expected.measured or expected.seconds is None or self._steps < self.JUDGED_STEPS:
            return []
        real = median(list(self._seconds["step"]))
        times = real / max(expected.step_seconds or 0.0, 1e-9)
        as_expected = 1 / OTHER_LOAD <= times <= OTHER_LOAD
        slower = 1.0 if as_expected else times
        revised = self.complete(
            Forecast(
                step=done,
                steps=self.config.max_iters - done,
                measured=self._steps,
                step_seconds=real,
                eval_seconds=slower * (expected.eval_seconds or 0.0),
                checkpoint_seconds=expected.checkpoint_seconds,
                sample_seconds=slower * (expected.sample_seconds or 0.0),
            )
        )
        wrong = not UNSURE[0] <= times <= UNSURE[1]
        return [revised] if wrong and max(expected.seconds, revised.seconds or 0.0) > self.WORTH_SECONDS else []

    def since_last_line(self) -> tuple[int, float, float]:
        """Count, mean and maximum of the steps since this was last called, in seconds."""
        seconds, self._since_line = self._since_line, []
        return len(seconds), sum(seconds) / len(seconds), max(seconds)


def _usual(seconds: deque[float]) -> float:
    """The median of the means of some stretches: it follows what comes again and again, and ignores what came once.

    The first steps are often slow, and another program may slow down a few of them for a moment.
    """
    values, count = list(seconds), min(STRETCHES, len(seconds))
    edges = [len(values) * edge // count for edge in range(count + 1)]
    return median([sum(values[a:b]) / (b - a) for a, b in pairwise(edges)])
