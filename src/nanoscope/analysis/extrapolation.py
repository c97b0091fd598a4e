"""Where a loss would go, by laws that fit its past."""

import math
from collections.abc import Sequence

from nanoscope.analysis.numbers import line_through, mean

FEWEST_POINTS = 4


def extrapolate(points: Sequence[tuple[int, float]], to_step: int) -> tuple[float, float] | None:
    """The loss at `to_step` by a power law to a floor, and by a line over log(step); None for too few points."""
    steps = [float(step) for step, _ in points if step > 0]
    values = [value for step, value in points if step > 0]
    if len(values) < FEWEST_POINTS or min(values) <= 0:
        return None
    half = max(3, len(values) // 2)
    slope, level = line_through([math.log(step) for step in steps[-half:]], values[-half:])
    power, line = _power_law(steps[-2 * half :], values[-2 * half :], to_step), level + slope * math.log(to_step)
    return min(power, values[-1]), min(line, values[-1])


def _power_law(steps: list[float], values: list[float], to_step: int) -> float:
    """floor + a·step^−b, with the floor that fits best."""
    best, guess = math.inf, values[-1]
    logs = [math.log(step) for step in steps]
    for percent in range(0, 99, 2):
        floor = percent / 100 * min(values)
        slope, level = line_through(logs, [math.log(value - floor) for value in values])
        fitted = [floor + math.exp(level + slope * x) for x in logs]
        miss = mean([(f - value) ** 2 for f, value in zip(fitted, values, strict=True)])
        if miss < best and slope < 0:
            best, guess = miss, floor + math.exp(level + slope * math.log(to_step))
    return guess
