"""The time that a search may take, and what its parts are expected to take."""

from collections.abc import Callable

from nanoscope.config import TrainConfig
from nanoscope.planning.tuning_candidates import COMPILE_SECONDS, Kind, Settings

ROUND_SECONDS = 0.5  # of one measurement; one micro-batch and one update at least
LONG_SECONDS = 15.0  # a pair that takes longer is not repeated: the confirmation does that
FEWEST_PAIRS = 3
FRESH_PAIRS = 3  # of processes, to confirm
FEWEST_FRESH_PAIRS = 2  # where each takes long
ROUNDS = 3  # of each process in the confirmation


class Budget:
    def __init__(self, config: TrainConfig, seconds: float, now: Callable[[], float]) -> None:
        self.seconds, self._config, self._now, self._began = seconds, config, now, now()
        self._costs: dict[tuple[str, Kind], float] = {}
        self.open_seconds = 0.0
        self.threads = 1

    @property
    def spent(self) -> float:
        return self._now() - self._began

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def took(self, settings: Settings, kind: Kind, seconds: float) -> None:
        self._costs[name_of(settings), kind] = seconds

    def cost(self, settings: Settings, kind: Kind) -> float:
        """Of one measurement: as long as the last one, or by its size, if a micro-batch takes longer than a round."""
        if (known := self._costs.get((name_of(settings), kind))) is not None:
            return known
        seconds = self._costs.get((name_of({}), kind), ROUND_SECONDS)
        if kind == "step" and seconds > 2 * ROUND_SECONDS:
            seconds *= settings.get("batch_size", self._config.batch_size) / self._config.batch_size
            seconds *= self.threads / min(settings.get("threads", self.threads), self.threads)
        return max(seconds, ROUND_SECONDS)

    def is_long(self, *both: Settings) -> bool:
        """Whether a measurement of each takes so long that there is time for one pair only."""
        return sum(self.cost(settings, "step") for settings in both) > LONG_SECONDS

    def rounds(self, settings: Settings) -> int:
        return 1 if self.is_long({}, settings) else ROUNDS

    def to_try(self, best: Settings, candidate: Settings) -> float:
        """Comparing a candidate, at least, and confirming it."""
        pairs = 1 if self.is_long(best, candidate) else FEWEST_PAIRS
        own = self.cost(candidate, "step") + (0.0 if pairs == 1 else self.cost(best, "step"))  # which was measured
        return self.open_seconds + _compiling(candidate) + pairs * own + self.to_confirm(candidate)

    def to_confirm(self, settings: Settings) -> float:
        pairs = FEWEST_FRESH_PAIRS if self.is_long({}, settings) else FRESH_PAIRS
        return pairs * self.of_a_fresh_pair(settings)

    def of_a_fresh_pair(self, settings: Settings) -> float:
        rounds = self.rounds(settings)
        each = (rounds * self.cost(one, "step") + self.cost(one, "eval") for one in ({}, settings))
        return 2 * self.open_seconds + _compiling(settings) + sum(each)


def name_of(settings: Settings) -> str:
    return repr(sorted(settings.items()))


def _compiling(settings: Settings) -> float:
    return COMPILE_SECONDS if settings.get("compile") is True else 0.0
