"""How fast a run is and how long it will take: from what was measured so far, before that from its forecast."""

from collections import deque

from msgspec.structs import replace

from nanoscope.config import TrainConfig
from nanoscope.estimates import median, multiples_between, time_left
from nanoscope.runs.events import Forecast

# Times the expected seconds: where the truth lies nine times in ten (benchmarks/LOG.md).
UNSURE = 0.5, 2.0  # from the warm-up alone
SURE = 0.8, 1.3  # from some iterations


class Pace:
    """Recent step times, and what an evaluation, a checkpoint and a sample have cost so far."""

    RECENT = 100  # steps: long enough for a steady figure, short enough to follow a machine that gets slower
    JUDGED_STEPS = 5  # the forecast is compared with these
    WORTH_SECONDS = 60.0  # of a run: shorter ones are over before a better forecast is of use

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.forecast = Forecast()
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

    def expected(self, phase: str) -> float | None:
        """Seconds of the next step, evaluation, checkpoint or sample: the mean so far, else the forecast's."""
        if phase == "step":
            return self.step_seconds if self._steps else self.forecast.step_seconds
        total, count = self._extras.get(phase, (0.0, 0))
        return total / count if count else getattr(self.forecast, f"{phase}_seconds", None)

    def eta_seconds(self, next_step: int) -> float | None:
        """Remaining steps at the recent pace, and the evaluations, checkpoints and samples still to come."""
        step_seconds = self.expected("step")
        if step_seconds is None:
            return None
        config, last = self.config, self.config.max_iters
        evals = multiples_between(next_step - 1, last, config.eval_interval) + (last % config.eval_interval > 0)
        samples = multiples_between(next_step - 1, last, config.sample_interval)
        counts = {"eval": evals, "checkpoint": evals, "sample": samples}
        extras = [(count, self.expected(phase)) for phase, count in counts.items()]
        return time_left(max(last - next_step, 0), step_seconds, extras)

    def complete(self, forecast: Forecast) -> Forecast:
        """Expect this from now on: a forecast, to which the time of the rest of the run and its range are added."""
        self.forecast = forecast
        low, high = SURE if forecast.measured else UNSURE
        seconds = (self.expected("step") or 0.0) + (self.eta_seconds(forecast.step + 1) or 0.0)
        if forecast.step == 0 and self.config.recipe == "classic":  # which is evaluated before it is trained
            seconds += self.expected("eval") or 0.0
        self.forecast = replace(forecast, seconds=seconds, seconds_low=low * seconds, seconds_high=high * seconds)
        return self.forecast

    def revise_forecast(self, next_step: int) -> list[Forecast]:
        """After the first iterations, once: a new forecast if the old one was wrong, and is worth a line."""
        expected = self.forecast
        if expected.measured or expected.seconds is None or len(self._steps) < self.JUDGED_STEPS:
            return []
        real, left = median(list(self._steps)), self.config.max_iters - next_step
        times = real / max(expected.step_seconds or 0.0, 1e-9)
        revised = self.complete(
            Forecast(
                step=next_step, steps=left, measured=len(self._steps), step_seconds=real,
                eval_seconds=times * (expected.eval_seconds or 0.0), checkpoint_seconds=expected.checkpoint_seconds,
            )
        )  # fmt: skip
        wrong = not UNSURE[0] <= times <= UNSURE[1]
        return [revised] if wrong and max(expected.seconds, revised.seconds or 0.0) > self.WORTH_SECONDS else []

    def since_last_line(self) -> tuple[int, float, float]:
        """Count, mean and maximum of the steps since this was last called, in seconds."""
        seconds, self._since_line = self._since_line, []
        return len(seconds), sum(seconds) / len(seconds), max(seconds)
