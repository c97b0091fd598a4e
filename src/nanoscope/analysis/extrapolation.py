"""Where a loss would go if it went on falling as before: a range, or nothing where its past does not say."""

import math
from collections.abc import Sequence
from itertools import pairwise

from nanoscope.analysis.numbers import line_through, mean
from nanoscope.estimates import GOLDEN, percentile

FEWEST_POINTS = 4
FARTHEST = 2.0  # times the steps so far: nothing is said beyond
MOST_POINTS = 24  # of the later part of the curve, spread evenly over its logarithm
RESAMPLINGS = 30
FLOORS = [percent / 100 for percent in (0, 20, 40, 60, 75, 85, 90, 94, 97, 99)]  # of the lowest loss
DOUBT = 0.35  # of the fall that is foretold: on real runs such laws were off by up to this much either way
UNSTABLE = 0.5  # of the loss: a wider range says nothing


def extrapolate(points: Sequence[tuple[int, float]], to_step: int) -> tuple[float, float] | None:
    """The lowest and the highest loss to expect at `to_step`; None where too few points or unsteady ones say so.

    Two laws are fitted to the later part of the curve and to resampled copies of it: a power law to a floor, and a line
    over log(step). The range holds nine tenths of what they say.
    """
    known = [(float(step), value) for step, value in points if step > 0]
    if len(known) < FEWEST_POINTS or to_step > FARTHEST * known[-1][0] or min(value for _, value in known) <= 0:
        return None
    later = _thinned([point for point in known if point[0] >= known[-1][0] / 8] or known)
    if len(later) < FEWEST_POINTS:
        later = _thinned(known)
    logs, values = [math.log(step) for step, _ in later], [value for _, value in later]
    target = math.log(to_step)
    floor, slope, level = _power_law(logs, values)
    fitted = [floor + math.exp(level + slope * x) for x in logs]
    misses = [value - fit for value, fit in zip(values, fitted, strict=True)]
    guesses = [floor + math.exp(level + slope * target), _line(logs, values, target)]
    for round in range(RESAMPLINGS):
        # Misses drawn as if by chance: the multiples of the golden section are spread evenly (`random` loads slowly).
        drawn = (misses[int((round * len(fitted) + i) * GOLDEN % 1 * len(misses))] for i in range(len(fitted)))
        again = [max(fit + miss, 1e-6) for fit, miss in zip(fitted, drawn, strict=True)]
        other_floor, other_slope, other_level = _power_law(logs, again)
        guesses += [other_floor + math.exp(other_level + other_slope * target), _line(logs, again, target)]
    last, noise = fitted[-1], math.sqrt(mean([miss * miss for miss in misses]))
    low = max(0.0, last - (1 + DOUBT) * (last - percentile(guesses, 5)) - noise)
    high = last - (1 - DOUBT) * (last - percentile(guesses, 95)) + noise
    return (low, high) if high - low <= UNSTABLE * values[-1] else None


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS of them, the means of neighbours."""
    if len(points) <= MOST_POINTS:
        return points
    edges = [len(points) * index // MOST_POINTS for index in range(MOST_POINTS + 1)]
    parts = [points[a:b] for a, b in pairwise(edges)]
    return [(mean([step for step, _ in part]), mean([value for _, value in part])) for part in parts]


def _line(logs: list[float], values: list[float], target: float) -> float:
    """The straight line over log(step) through the later half."""
    half = max(3, len(values) // 2)
    slope, level = line_through(logs[-half:], values[-half:])
    return min(level + slope * target, values[-1])


def _power_law(logs: list[float], values: list[float]) -> tuple[float, float, float]:
    """Floor, slope and level of floor + exp(level + slope·log(step)), with the floor that fits best."""
    best, law = math.inf, (values[-1] * 0.99, 0.0, math.log(values[-1] * 0.01))
    lowest = min(values)
    for part in FLOORS:
        floor = part * lowest
        slope, level = line_through(logs, [math.log(value - floor) for value in values])
        miss = sum((floor + math.exp(level + slope * x) - value) ** 2 for x, value in zip(logs, values, strict=True))
        if miss < best and slope < 0:
            best, law = miss, (floor, slope, level)
    return law
