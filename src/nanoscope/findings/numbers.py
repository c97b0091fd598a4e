"""Statistics that the analyses share beyond those of estimates.py, in plain Python as well."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from nanoscope.estimates import MAD_TO_SIGMA, median, sample_of, spread_indices

ENOUGH_TO_SEE = 2_000
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
