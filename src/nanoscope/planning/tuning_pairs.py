"""How much faster one way of training is than another, from pairs of measurements that took turns.

A machine gets slower and faster by itself. Two measurements side by side see much the same of it, so the ratio within
a pair says more than either figure, and the spread of the ratios says how far it can be trusted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

# Student's t: one time in twenty the truth lies below the interval, one time in twenty above. By degrees of freedom.
STUDENT = (math.inf, 6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)


@dataclass(frozen=True)
class Gain:
    """The share of the time that is saved: 0.1 is a tenth. Negative: it takes longer."""

    share: float
    low: float
    high: float
    pairs: int

    @property
    def error(self) -> float:
        return (self.high - self.low) / 2


def gain_of(pairs: Sequence[tuple[float, float]]) -> Gain:
    """What the second of each pair saves of the first, with the range that holds the truth nine times in ten."""
    logs = [math.log(before / after) for before, after in pairs]
    middle, count = mean(logs), len(logs)
    error = STUDENT[min(count, len(STUDENT)) - 1] * stdev(logs) / math.sqrt(count) if count > 1 else math.inf
    return Gain(-math.expm1(-middle), -math.expm1(-(middle - error)), -math.expm1(-(middle + error)), count)


Verdict = Literal["faster", "not faster", "unsure"]


def verdict(gain: Gain, margin: float) -> Verdict:
    """Faster is what saves more than the noise of the pairs, and at least the margin."""
    if gain.low > 0 and gain.share >= margin:
        return "faster"
    return "not faster" if gain.high < margin else "unsure"
