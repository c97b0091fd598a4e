"""How often verdicts are right over simulated runs whose truth is known (benchmarks/rates.py has more)."""

import math

import pytest

from benchmarks.rates import CURVES, SEEDS, four_errors, told_apart, verdicts

RUNS = 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "most"),  # the bound, and the error of so few runs
    [("flat, white noise", 2), ("flat, AR(0.5)", 4), ("flat, AR(0.5), training falls", 8)],
)
def test_noise_around_a_flat_validation_loss_is_hardly_ever_called_a_rise(curve, most):
    assert verdicts(CURVES[curve], RUNS)["bad"] <= most


@pytest.mark.slow
@pytest.mark.parametrize("curve", ["power law", "power law, AR(0.5)"])
def test_a_power_law_is_improving(curve):
    assert verdicts(CURVES[curve], RUNS)["improving"] >= 0.93 * RUNS


@pytest.mark.slow
@pytest.mark.parametrize(("curve", "least"), [("overfitting by 4 errors", 0.8), ("overfitting by 8 errors", 0.97)])
def test_overfitting_is_seen(curve, least):
    assert verdicts(CURVES[curve], RUNS)["bad"] >= least * RUNS


@pytest.mark.parametrize("by_window", [True, False])
@pytest.mark.parametrize(("values", "experiments"), [(2, 40), (5, 20), (10, 8), (20, 4)])
def test_a_setting_that_does_nothing_is_not_named_without_repeats(values, experiments, by_window):
    assert told_apart(values, 1, experiments, by_window=by_window)["differs"] == 0


def test_with_repeats_a_setting_that_does_nothing_is_rarely_named_and_hardly_ever_for_sure():
    found = told_apart(2, 4, 120)

    assert found["differs"] <= 0.1  # 5 %, and the error of 120 experiments
    assert found["sure"] <= 0.03


def test_with_repeats_an_effect_of_four_standard_errors_is_found():
    assert told_apart(2, 6, 100, four_errors(6))["differs"] >= 0.9
    assert four_errors(2) == pytest.approx(4 * SEEDS * math.sqrt(1))
