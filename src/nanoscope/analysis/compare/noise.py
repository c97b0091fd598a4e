"""How large a difference of losses has to be before it is more than noise."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nanoscope.analysis.compare.losses import Levels
from nanoscope.analysis.findings import NoiseSource
from nanoscope.analysis.numbers import mean

ROUNDING = 5e-5  # of losses printed with four decimals
SURE_SIGMAS, DOUBT_SIGMAS = 3.0, 2.0
# How many standard deviations hold 95 % of the repeats, if these were estimated from one repeat, two, three, …
T_QUANTILES = {1: 6.0, 2: 4.3, 3: 3.2, 4: 2.8, 5: 2.6}

Judgement = Literal["differs", "within_noise", "unclear"]


@dataclass(eq=False)
class Noise:
    """The spread of runs that were repeated: pooled over groups of equal settings; `freedom` is 0 without repeats."""

    spread: float = 0.0
    freedom: int = 0

    @classmethod
    def of_repeats(cls, groups: Iterable[Sequence[float]]) -> "Noise":
        squares, freedom = 0.0, 0
        for losses in groups:
            finite = [loss for loss in losses if math.isfinite(loss)]
            if len(finite) > 1:
                middle = mean(finite)
                squares += sum((loss - middle) ** 2 for loss in finite)
                freedom += len(finite) - 1
        return cls(math.sqrt(squares / freedom), freedom) if freedom else cls()


@dataclass(eq=False)
class Doubt:
    """The standard error of a difference, and how many of them are beyond chance."""

    error: float | None
    source: NoiseSource | None
    threshold: float = DOUBT_SIGMAS

    def judge(self, difference: float) -> Judgement:
        """Whether a difference is more than noise; unclear if it is close to it, or if the noise is unknown."""
        if not math.isfinite(difference):
            return "differs"
        if self.error is None:
            return "unclear"
        sigmas = abs(difference) / self.error
        if sigmas < self.threshold:
            return "within_noise"
        return "differs" if sigmas >= max(SURE_SIGMAS, self.threshold) else "unclear"


def doubt(levels: Levels, one: Sequence[int], two: Sequence[int], noise: Noise) -> Doubt:
    """The error of the difference between the mean losses of two groups of runs."""
    errors = [levels.of[place].error for place in (*one, *two)]
    known = [error for error in errors if error is not None]
    measured = None
    source: NoiseSource | None = None
    if len(known) == len(errors):
        measured = math.sqrt(max(known[: len(one)]) ** 2 + max(known[len(one) :]) ** 2)
        source = "errors" if all(levels.of[place].source == "errors" for place in (*one, *two)) else "scatter"
    if noise.freedom:
        repeated = noise.spread * math.sqrt(1 / len(one) + 1 / len(two))
        # Two runs alone say little about a spread: the evaluations' own error is then its least.
        if noise.freedom == 1 and measured is not None:
            repeated = max(repeated, measured)
        return Doubt(max(repeated, ROUNDING), "repeats", T_QUANTILES.get(noise.freedom, DOUBT_SIGMAS))
    return Doubt(None if measured is None else max(measured, ROUNDING), source)
