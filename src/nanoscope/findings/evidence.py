"""The few tools that verdicts are built of: a slope, a level and a difference, each with its error.

They are plain Python, and are tested by themselves on made-up curves whose truth is known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nanoscope.estimates import median, scatter
from nanoscope.findings.numbers import mean, standard_error
from nanoscope.paired import t_quantile

ROUNDING = 5e-5  # of losses printed with four decimals
SURE, LIKELY = 0.01, 0.05  # how often chance alone may look like a difference
FEWEST_WINDOWS = 8
KNOWN_FREEDOM = 6  # degrees of freedom, for what the noise is known to be besides what a fit leaves
MOST_SHARED = 0.7  # correlation of neighbours
FEW_FOR_SCATTER = 8  # from fewer values, their scatter is not known well enough to rely on


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error."""

    value: float
    error: float

    @property
    def sigmas(self) -> float:
        """How many standard errors it lies from zero, with its sign."""
        if self.error > 0:
            return self.value / self.error
        return math.copysign(math.inf, self.value) if self.value else 0.0

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, self.error)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))

    def times(self, factor: float) -> "Estimate":
        return Estimate(self.value * factor, self.error * abs(factor))


@dataclass(frozen=True)
class Points:
    """A curve: values over steps, with the noise of a single value. Steps rise."""

    steps: Sequence[int]
    values: Sequence[float]
    sigma: float

    def __len__(self) -> int:
        return len(self.steps)

    def part(self, first: int, last: int | None = None) -> "Points":
        """The points from one index to another."""
        return Points(self.steps[first:last], self.values[first:last], self.sigma)

    def since(self, step: float) -> "Points":
        first = next((i for i, at in enumerate(self.steps) if at >= step), len(self.steps))
        return self.part(first)

    @property
    def best(self) -> int:
        """The index of the lowest value."""
        return min(range(len(self.values)), key=self.values.__getitem__)


def slope(points: Points) -> Estimate:
    """The change of a curve per e-fold of the steps, by a straight line over log(step).

    Learning curves are nearly straight over the logarithm. Where the values scatter around the line by more than their
    own noise (the curve bends, or the noise was underestimated), the error grows accordingly.
    """
    xs = [math.log(max(step, 1)) for step in points.steps]
    count = len(xs)
    x_mean, y_mean = sum(xs) / count, sum(points.values) / count
    spread = sum((x - x_mean) ** 2 for x in xs)
    if not spread:
        return Estimate(0.0, math.inf)
    value = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, points.values, strict=True)) / spread
    residual = sum((y - y_mean - value * (x - x_mean)) ** 2 for x, y in zip(xs, points.values, strict=True))
    sigma = max(points.sigma, math.sqrt(residual / (count - 2)) if count > 2 else 0.0)
    return Estimate(value, sigma / math.sqrt(spread))


def change(points: Points) -> Estimate:
    """By how much the curve rose (or fell, below zero) from its first to its last point, by its slope."""
    if len(points) == 2:
        return Estimate(points.values[1] - points.values[0], points.sigma * math.sqrt(2))
    return slope(points).times(math.log(max(points.steps[-1], 1) / max(points.steps[0], 1)))


def level(values: Sequence[float], sigma: float) -> Estimate:
    """The mean of values that stay at one level."""
    return Estimate(sum(values) / len(values), sigma / math.sqrt(len(values)))


def rise_since_best(points: Points) -> Estimate:
    """How far the end of a curve lies above its lowest stretch.

    Both are means of up to three values: the lowest single value is low by chance, too. Of the values after the best,
    the last ones count.
    """
    best = points.best
    around = points.values[max(0, best - 1) : best + 2]
    after = points.values[best + 1 :][-3:]
    if not after:
        return Estimate(0.0, points.sigma)
    if len(points) - best <= 3:  # its neighbours are the values it is held against
        around = points.values[best : best + 1]
    lowest = level(around, points.sigma)
    return level(after, points.sigma) - lowest


def turned(points: Points) -> float:
    """How many standard errors say that a curve rises again after its best value.

    Two curves are fitted: one that only falls, and one that falls to the best value and rises from there. What the
    second explains better is held against what it leaves unexplained, so the noise is that of all values, and that the
    best one is low by chance counts for both. Where neighbours share their noise, a fit follows it: the correlation
    that is left is too small by about 3/√n.
    """
    values, after, count = points.values, points.best + 1, len(points)
    fitted = falling(values[:after]) + falling(values[after:][::-1])[::-1]
    left = [value - fit for value, fit in zip(values, fitted, strict=True)]
    unexplained = sum(error**2 for error in left)
    gained = sum((value - fit) ** 2 for value, fit in zip(values, falling(values), strict=True)) - unexplained
    freedom = sum(map(bool, left)) - len({fit for fit, error in zip(fitted, left, strict=True) if error}) / 2
    variance = (unexplained + KNOWN_FREEDOM * points.sigma**2) / (freedom + KNOWN_FREEDOM)
    shared = sum(a * b for a, b in pairwise(left)) / unexplained + 3 / math.sqrt(count) if unexplained else 0.0
    shared = min(MOST_SHARED, max(0.0, shared))
    if gained <= 0 or not variance:
        return 0.0 if gained <= 0 else math.inf
    return math.sqrt(gained / variance * (1 - shared) / (1 + shared))


def falling(values: Sequence[float]) -> list[float]:
    """The nearest curve that never rises: values that do are replaced by their mean (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while blocks and blocks[-1][0] * count <= total * blocks[-1][1]:
            before, more = blocks.pop()
            total, count = total + before, count + more
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def flat_end(points: Points, at_least: int, least_share: float, most_per_doubling: float) -> Points | None:
    """The longest stretch at the end of a curve over which it no longer falls; None if there is none.

    It has `at_least` points and covers `least_share` of the steps. Its slope is none within its error (a fall of more
    than 1.5 sigmas may be one), known to the share `most_per_doubling` of its level per doubling of the steps, and
    flatter than the curve before it. A curve may rest for a while and fall again, so a shorter stretch (a third of that
    share) only counts where it has settled: its values lie closer together than their noise, as they do once the
    learning rate is low.
    """
    steps = points.steps
    for first in range(len(points) - at_least + 1):
        end = points.part(first)
        share = (steps[-1] - steps[first]) / steps[-1]
        if share < least_share / 3:
            break
        settled = max(end.values) - min(end.values) < points.sigma
        found = slope(end)
        may_fall = 2 * found.error - min(0.0, found.value)
        known = may_fall * math.log(2) < most_per_doubling * abs(median(end.values))
        if not -1.5 < found.sigmas < 2 or not (known or settled):
            continue
        before = points.part(max(0, first - 3 * len(end)), first + 1)
        flatter = first == 0 or (len(before) >= 3 and (found - slope(before)).sigmas > 3)
        if flatter and (settled or share >= least_share):
            return end
    return None


def noise_of(values: Sequence[float], *, relative_floor: float = 1e-3) -> float | None:
    """The noise of single values around their own curve, without its steep beginning; None for too few values."""
    if len(values) < FEW_FOR_SCATTER:
        return None
    calm = values[len(values) // 3 :]
    return max(scatter(calm), relative_floor * abs(median(calm)))


def in_blocks(steps: Sequence[int], values: Sequence[float], most: int = 40) -> Points:
    """A noisy curve as the means of equal stretches, with the noise of such a mean."""
    size = max(1, math.ceil(len(values) / most))
    if size == 1:
        return Points(steps, values, noise_of(values) or 0.0)
    firsts = range(0, len(values) - size + 1, size)
    means = [sum(values[i : i + size]) / size for i in firsts]
    middles = [steps[i + size // 2] for i in firsts]
    expected = scatter(values) / math.sqrt(size)
    return Points(middles, means, max(expected, scatter(means) if len(means) >= FEW_FOR_SCATTER else 0.0))


def beyond_chance(chance: float, pairs: int = 1, freedom: int | None = None) -> float:
    """How many standard errors a difference has to be, up or down, before chance alone explains it so rarely.

    `pairs`: of how many it is the largest, as the best of k values against the worst is of k (k - 1) / 2. `freedom`:
    of the spread that the error rests on; None if that is known. One degree needs 12.7 errors for 5 %, not 2.
    """
    return t_quantile(1 - chance / 2 / pairs, freedom)


def mean_difference(one: Sequence[float], two: Sequence[float]) -> tuple[float, float] | None:
    """How much higher the first losses are than the second, window by window in the order of the text, and the
    standard error of that; None for too few windows. What is hard in the text is hard for both, so it cancels out.
    """
    if len(one) < FEWEST_WINDOWS:
        return None
    differences = [a - b for a, b in zip(one, two, strict=True)]
    return mean(differences), standard_error(differences) or 0.0
