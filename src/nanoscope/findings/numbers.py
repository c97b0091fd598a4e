"""Statistics that the analyses share beyond those of estimates.py, in plain Python as well."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from nanoscope.estimates import MAD_TO_SIGMA, median, sample_of, spread_indices

ENOUGH_IN_BLOCK = 1_000
ENOUGH_TO_SEE = 2_000
MANY = 10_000  # places that numpy finds so much faster that loading it pays
FEWEST_STRETCHES, STRETCHES, FEWEST_IN_A_STRETCH = 8, 32, 4

SLOW_SHARE, SLOW_SIGMAS = 0.3, 6.0  # over the usual time, for a step that nothing explains
EXPLAINED_SHARE, EXPLAINED_SIGMAS = 0.15, 4.0  # where it is known that there was more work


def is_slow(seconds: float, usual: float, noise: float, *, explained: bool = False) -> bool:
    """Whether a step takes longer than usual by more than the noise, the robust sigma of such steps as a share.

    Neither a fixed ratio nor a fixed number of sigmas alone tells a stall from a noisy machine. A step is `explained`
    if it is known that there was more work.
    """
    share, sigmas = (EXPLAINED_SHARE, EXPLAINED_SIGMAS) if explained else (SLOW_SHARE, SLOW_SIGMAS)
    return seconds / usual - 1 > max(share, sigmas * noise)


def robust_sigma(values: Sequence[float]) -> float:
    """The standard deviation of the bulk of the values, whatever the outliers do."""
    if not values:
        return 0.0
    values = sample_of(values)
    middle = median(values)
    return MAD_TO_SIGMA * median([abs(value - middle) for value in values])


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean of values in the order in which they stand in a text; None for a single value.

    Neighbours in a text are alike, so many of them tell less than as many independent values. The means of 32 stretches
    of neighbours (of fewer, if there are few values) are nearly independent: their spread counts if it says more than
    that of the single values.
    """
    count = len(values)
    if count < 2:
        return None
    errors = [_error_of_mean(values)]
    stretches = min(STRETCHES, count // FEWEST_IN_A_STRETCH)
    if stretches >= FEWEST_STRETCHES:
        ends = [count * number // stretches for number in range(stretches + 1)]
        means = [sum(values[a:b]) / (b - a) for a, b in pairwise(ends)]
        errors.append(_error_of_mean(means))
    return max(errors)


def _error_of_mean(values: Sequence[float]) -> float:
    middle = sum(values) / len(values)
    variance = sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return float((variance / len(values)) ** 0.5)


def is_printed(column: Sequence[float]) -> bool:
    """Whether a column, NaN where nothing was printed, holds anything; of very many lines a part is looked at."""
    return any(column[i] == column[i] for i in spread_indices(len(column), ENOUGH_TO_SEE))


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The mean, of values that count as much as their weights."""
    if weights is None:
        return sum(values) / len(values)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def sample_deviation(values: Sequence[float]) -> float:
    """The standard deviation that two or more values suggest."""
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def blocks(count: int, at_least: int, at_most_blocks: int = 64) -> list[tuple[int, int]]:
    """Equal stretches of `count` values, each with `at_least` of them."""
    number = max(1, min(at_most_blocks, count // at_least))
    return list(pairwise(count * edge // number for edge in range(number + 1)))


def common_gap(steps: "Sequence[int] | array[int]") -> int | None:
    """The usual distance between steps; of distances that are equally frequent, the one whose grid holds most steps."""
    places = spread_indices(len(steps) - 1)
    gaps = Counter(gap for i in places if (gap := steps[i + 1] - steps[i]) > 0)
    if not gaps:
        return None
    most = max(gaps.values())
    usual = [gap for gap in gaps if gaps[gap] == most]
    if len(usual) == 1:
        return usual[0]
    # The first and the last distance may be cut short: a run ends when it ends.
    return max(usual, key=lambda gap: (sum(step % gap in (0, gap - 1) for step in steps), gap))


def between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """The value at x of the lines that join the points; the ends reach on."""
    right = bisect_right(xs, x)
    if right == 0 or right == len(xs):
        return ys[min(right, len(ys) - 1)]
    part = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + part * (ys[right] - ys[right - 1])


class Baseline:
    """Median and robust sigma of the values around a place, following slow drifts: blocks, joined by lines."""

    def __init__(self, places: Sequence[int], values: Sequence[float], at_least: int = 15) -> None:
        parts = blocks(len(values), at_least)
        self._middles = [(places[a] + places[b - 1]) / 2 for a, b in parts]
        samples = [[a + i for i in spread_indices(b - a, ENOUGH_IN_BLOCK)] for a, b in parts]
        self._medians = [median([values[i] for i in sample]) for sample in samples]
        self._sigmas = [0.0] * len(parts)
        self.lowest = min(self._medians)
        levels = iter(self.levels([places[i] for sample in samples for i in sample]))
        for number, sample in enumerate(samples):
            self._sigmas[number] = robust_sigma([values[i] - level for i, level in zip(sample, levels, strict=False)])

    def levels(self, places: Sequence[int]) -> Sequence[float]:
        """The median at each of the places, which must rise."""
        if len(places) < MANY:
            return [level for level, _ in self.along(places)]
        import numpy as np

        at, middles, medians = np.asarray(places, float), np.asarray(self._middles), np.asarray(self._medians)
        right = np.searchsorted(middles, at, side="right")
        inner = np.clip(right, 1, len(middles) - 1)
        part = (at - middles[inner - 1]) / (middles[inner] - middles[inner - 1])
        found = medians[inner - 1] + part * (medians[inner] - medians[inner - 1])
        found[right == 0], found[right == len(middles)] = medians[0], medians[-1]
        return found.tolist()  # type: ignore[no-any-return]

    def along(self, places: Iterable[int]) -> Iterator[tuple[float, float]]:
        """Median and sigma at each of the places, which must rise."""
        middles, medians, sigmas = self._middles, self._medians, self._sigmas
        right, last = 0, len(middles)
        for place in places:
            while right < last and middles[right] <= place:
                right += 1
            if right == 0 or right == last:
                edge = min(right, last - 1)
                yield medians[edge], sigmas[edge]
            else:
                part = (place - middles[right - 1]) / (middles[right] - middles[right - 1])
                yield (
                    medians[right - 1] + part * (medians[right] - medians[right - 1]),
                    sigmas[right - 1] + part * (sigmas[right] - sigmas[right - 1]),
                )
