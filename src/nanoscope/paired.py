"""Paired statistics: the mean difference of a few pairs, its standard error, and what that shows. Pure Python.

Two measurements of a pair have everything in common but the change: seed and batches, or the same seconds on the same
machine. So their difference is judged, by Student's t. No spread is assumed beforehand: two pairs need a
difference 12.7 times its standard error to be 95 % sure, three pairs one of 4.3 times.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean
from typing import Literal

Verdict = Literal["better", "worse", "too_small", "unclear"]


@dataclass(frozen=True)
class Difference:
    """The mean difference of some pairs: positive where the change is better."""

    mean: float
    error: float
    """The standard error of the mean; infinite for a single pair."""
    pairs: int

    def margin(self, confidence: float) -> float:
        """The true difference is larger than the mean less this, and smaller than the mean plus this, with this
        one-sided confidence."""
        return math.inf if self.pairs < 2 else t_quantile(confidence, self.pairs - 1) * self.error

    def verdict(self, worth: float, confidence: float) -> Verdict:
        """better: more than chance, and at least `worth`. too_small: surely not worth a change, or more than chance
        but less than `worth`. unclear: more pairs might decide it."""
        margin = self.margin(confidence)
        if self.mean < -margin:
            return "worse"
        if self.mean > margin:
            return "better" if self.mean >= worth else "too_small"
        return "too_small" if self.mean + margin < worth else "unclear"


def paired(differences: Sequence[float]) -> Difference:
    """From the difference of each pair, at least one."""
    count, mean = len(differences), fmean(differences)
    squares = sum((each - mean) ** 2 for each in differences)
    return Difference(mean, math.sqrt(squares / (count - 1) / count) if count > 1 else math.inf, count)


def settle(pair: Callable[[int], float], looks: Sequence[int], worth: float, confidence: float) -> Difference:
    """Measure pairs, by their number, until the verdict is clear: after as many as each of the `looks`, at most."""
    differences: list[float] = []
    for look in looks:
        differences += [pair(number) for number in range(len(differences), look)]
        if paired(differences).verdict(worth, confidence) != "unclear":
            break
    return paired(differences)


@cache
def t_quantile(confidence: float, freedom: int | None) -> float:
    """The value that Student's t stays below with this probability, between 0.5 and 1. Exact to 12 digits.

    Without a number of degrees of freedom, the normal distribution.
    """
    if freedom is None:
        return NormalDist().inv_cdf(confidence)
    low, high = 0.0, math.pi / 2
    while high - low > 1e-14:
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _probability(angle: float, freedom: int) -> float:
    """That Student's t stays below √freedom · tan(angle): a finite sum for whole degrees of freedom."""
    cosine, odd = math.cos(angle), freedom % 2
    term = total = (cosine if odd else 1.0) * (freedom > 1)
    for power in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (power - 1) / power
        total += term
    inside = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return (1 + inside) / 2
