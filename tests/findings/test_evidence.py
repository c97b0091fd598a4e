"""The tools of the verdicts on made-up curves whose truth is known."""

import math
import random

import pytest

from nanoscope.findings.evidence import (
    Estimate,
    Points,
    change,
    flat_end,
    in_blocks,
    noise_of,
    rise_since_best,
    slope,
)


def curve(truth, steps: range, sigma: float, seed: int = 1) -> Points:
    rng = random.Random(seed)
    return Points(list(steps), [truth(step) + rng.gauss(0, sigma) for step in steps], sigma)


def test_a_slope_is_right_within_its_error_in_two_cases_of_three():
    found = [slope(curve(lambda s: 4 - 0.3 * math.log(s), range(100, 2000, 100), 0.02, seed)) for seed in range(200)]
    within = sum(abs(each.value + 0.3) < each.error for each in found) / len(found)
    assert 0.6 < within < 0.85  # the error never falls below the known noise, so it is rather too large
    assert all(each.sigmas < -10 for each in found)


def test_noise_alone_is_hardly_ever_a_trend():
    found = [change(curve(lambda s: 2.0, range(100, 2000, 100), 0.02, seed)) for seed in range(300)]
    assert sum(abs(each.sigmas) > 3 for each in found) <= 3


def test_underestimated_noise_widens_the_error():
    noisy = curve(lambda s: 2.0, range(100, 2000, 100), 0.1)
    assert slope(Points(noisy.steps, noisy.values, 0.001)).error > 0.5 * slope(noisy).error


def test_two_points_differ_by_their_difference():
    found = change(Points([80, 150], [1.888, 1.764], 0.0165))
    assert found.value == pytest.approx(-0.124)
    assert found.error == pytest.approx(0.0165 * math.sqrt(2))


def test_the_rise_since_the_best_is_seen_through_noise():
    rising = curve(lambda s: 1.5 + abs(s - 1000) / 5000, range(100, 2001, 100), 0.01)
    assert rise_since_best(rising).value == pytest.approx(0.18, abs=0.03)
    assert rise_since_best(rising).sigmas > 10
    falling = curve(lambda s: 4 - 0.3 * math.log(s), range(100, 2001, 100), 0.01)
    assert rise_since_best(falling).sigmas < 2


def test_a_curve_that_rests_for_half_of_its_steps_has_a_flat_end():
    resting = curve(lambda s: 2 + max(0.0, 1000 - s) / 500, range(100, 2001, 100), 0.005)
    end = flat_end(resting, 5, 0.3, 0.025)
    assert end is not None
    assert 800 <= end.steps[0] <= 1300


@pytest.mark.parametrize("seed", range(20))
def test_a_curve_that_keeps_falling_has_none(seed):
    falling = curve(lambda s: 4 - 0.1 * math.log(s), range(1000, 20_001, 500), 0.004, seed)
    assert flat_end(falling, 5, 0.3, 0.025) is None


def test_a_noisy_curve_is_not_flat_because_nothing_can_be_seen_in_it():
    hidden = curve(lambda s: 4 - 0.1 * math.log(s), range(1000, 20_001, 2000), 0.2)
    assert flat_end(hidden, 5, 0.3, 0.025) is None


def test_the_noise_of_a_curve_is_found_beside_its_fall():
    falling = curve(lambda s: 2 + 8 * math.exp(-s / 300), range(0, 4000, 50), 0.03)
    assert noise_of(falling.values) == pytest.approx(0.03, rel=0.4)
    assert noise_of(falling.values[:5]) is None


def test_stretches_of_lines_have_the_noise_of_a_mean():
    lines = curve(lambda s: 2.0, range(4000), 0.1)
    blocks = in_blocks(lines.steps, lines.values)
    assert len(blocks) == 40
    assert blocks.sigma == pytest.approx(0.01, rel=0.5)


def test_an_exact_difference_is_any_number_of_sigmas():
    assert Estimate(-1.0, 0.0).sigmas == -math.inf
    assert Estimate(0.0, 0.0).sigmas == 0
