"""Where a loss would go: made-up curves whose future is known."""

import math
import random

import pytest

from nanoscope.analysis.extrapolation import extrapolate


def power_law(step: int) -> float:
    return 2.9 + 30 * step**-0.5


def curve(law, until: int, every: int = 100, noise: float = 0.0, seed: int = 0) -> list[tuple[int, float]]:
    chance = random.Random(seed)
    return [(step, law(step) + chance.gauss(0, noise)) for step in range(every, until + 1, every)]


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_the_range_holds_the_future_of_a_power_law_nine_times_in_ten(noise):
    ranges = [extrapolate(curve(power_law, 3000, noise=noise, seed=seed), 5000) for seed in range(20)]
    held = sum(ends is not None and ends[0] <= power_law(5000) <= ends[1] for ends in ranges)
    assert held >= 18


def test_the_range_is_narrow_where_the_past_is_smooth():
    low, high = extrapolate(curve(power_law, 3000), 5000)
    assert high - low < 0.2


def test_nothing_is_said_beyond_twice_the_steps_nor_from_few_points():
    assert extrapolate(curve(power_law, 3000), 6000) is not None
    assert extrapolate(curve(power_law, 3000), 6100) is None
    assert extrapolate(curve(power_law, 300), 500) is None


def test_nothing_is_said_about_a_curve_that_jumps_about():
    wild = [(step, 3 + 2 * math.sin(step)) for step in range(100, 2001, 100)]
    assert extrapolate(wild, 3000) is None
