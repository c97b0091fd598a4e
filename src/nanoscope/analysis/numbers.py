"""Robust statistics that the analyses share, in plain Python: numpy alone would take a third of `explain`'s start."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

MAD_TO_SIGMA = 1.4826  # of normally distributed values
ENOUGH = 30_000  # values: more do not change a median, and only cost time
ENOUGH_IN_BLOCK = 1_000
GOLDEN = 0.6180339887498949


def spread_indices(count: int, enough: int = ENOUGH) -> Sequence[int]:
    """All indices; of very many, a part that keeps step with no period (multiples of the golden section)."""
    return range(count) if count <= enough else [int(part * count) for part in _spread_parts(enough)]


@cache
def _spread_parts(enough: int) -> list[float]:
    return sorted(i * GOLDEN % 1.0 for i in range(enough))


def _ordered(values: Sequence[float]) -> list[float]:
    return sorted(values) if len(values) <= ENOUGH else sorted(values[i] for i in spread_indices(len(values)))


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return percentile(values, 50)


def percentile(values: Sequence[float], per_cent: float) -> float:
    """The value below which so many per cent lie, between neighbours by a line."""
    ordered = _ordered(values)
    place = (len(ordered) - 1) * per_cent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The mean, of values that count as much as their weights."""
    if weights is None:
        return sum(values) / len(values)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def robust_sigma(values: Sequence[float]) -> float:
    """Standard deviation as the bulk of the values has it, whatever the outliers do."""
    if not values:
        return 0.0
    some = [values[index] for index in spread_indices(len(values))]
    middle = median(some)
    return MAD_TO_SIGMA * median([abs(value - middle) for value in some])


def scatter(values: Sequence[float]) -> float:
    """Noise of a series around its own trend, from second differences (a smooth curve has none)."""
    if len(values) < 3:
        return 0.0
    inner = spread_indices(len(values) - 2)
    bends = [abs(values[i + 2] - 2 * values[i + 1] + values[i]) for i in inner]
    return float(MAD_TO_SIGMA * median(bends) / 6**0.5)


def blocks(count: int, at_least: int, at_most_blocks: int = 64) -> list[tuple[int, int]]:
    """Equal stretches of `count` values, each with `at_least` of them."""
    number = max(1, min(at_most_blocks, count // at_least))
    return list(pairwise(count * edge // number for edge in range(number + 1)))


def common_gap(steps: Iterable[int]) -> int | None:
    """The usual distance between steps; None for fewer than two."""
    gaps = Counter(b - a for a, b in pairwise(steps) if b > a)
    return min(gaps, key=lambda gap: (-gaps[gap], gap)) if gaps else None


def line_through(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept of the straight line that fits best."""
    x_mean, y_mean = mean(xs), mean(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
    return slope, y_mean - slope * x_mean


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
        for number, sample in enumerate(samples):
            levels = (level for level, _ in self.along(places[i] for i in sample))
            self._sigmas[number] = robust_sigma([values[i] - level for i, level in zip(sample, levels, strict=True)])

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
