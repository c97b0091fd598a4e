import random

import pytest

from nanoscope.estimates import (
    is_spike,
    median,
    multiples_between,
    percentile,
    scatter,
    spike_height,
)
from nanoscope.findings.numbers import is_slow, robust_sigma, standard_error


@pytest.mark.parametrize(
    ("last", "end", "interval", "count"),
    [(0, 100, 25, 4), (25, 100, 25, 3), (24, 25, 25, 1), (-1, 100, 50, 3), (100, 100, 25, 0), (0, 100, None, 0)],
)
def test_multiples_come_after_the_last_step_up_to_the_end(
    last: int, end: int, interval: int | None, count: int
) -> None:
    assert multiples_between(last, end, interval) == count


def test_a_spike_stands_out_of_the_noise_and_of_the_losses_before_it() -> None:
    calm = [2.0, 2.01] * 20
    assert spike_height(calm) == pytest.approx(0.3)
    assert is_spike(2.4, calm, spike_height(calm))
    assert not is_spike(2.2, calm, spike_height(calm))
    noisy = [2.0, 2.5, 1.9, 2.6] * 10
    assert not is_spike(3.2, noisy, spike_height(noisy))


def test_a_step_is_slow_beyond_a_share_and_beyond_the_noise_and_sooner_if_explained() -> None:
    assert is_slow(1.4, 1.0, 0.01)
    assert not is_slow(1.4, 1.0, 0.1)
    assert not is_slow(1.2, 1.0, 0.01)
    assert is_slow(1.2, 1.0, 0.01, explained=True)


def test_robust_statistics_ignore_outliers() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 1000.0]
    assert median(values) == 3
    assert percentile(values, 25) == 2
    assert robust_sigma(values) == pytest.approx(1.4826)
    assert scatter([0.1 * i for i in range(50)]) == pytest.approx(0, abs=1e-9)


def test_the_error_of_a_mean_of_independent_values_is_the_usual_one() -> None:
    chooser = random.Random(1)
    errors = [standard_error([chooser.gauss(0, 1) for _ in range(1024)]) for _ in range(200)]
    assert sum(error or 0 for error in errors) / 200 == pytest.approx(1 / 32, rel=0.1)


def test_the_error_of_a_mean_of_neighbours_that_are_alike_is_larger() -> None:
    chooser = random.Random(2)
    means, errors = [], []
    for _ in range(200):
        values = [level for _ in range(128) for level in [chooser.gauss(0, 1)] * 8]  # eight alike in a row
        means.append(sum(values) / len(values))
        errors.append(standard_error(values) or 0)
    spread = (sum(mean**2 for mean in means) / 200) ** 0.5
    assert sum(errors) / 200 == pytest.approx(spread, rel=0.2)
    assert spread > 2 * (1 / 32)  # what independent values would have


def test_that_neighbours_are_alike_counts_for_few_windows_too() -> None:
    """Every fourth window of a text has no smaller error than all of them: what its passages share is not averaged."""
    chooser = random.Random(4)
    part, whole = [], []
    for _ in range(200):
        passages = [chooser.gauss(0, 1) for _ in range(20)]
        values = [level + chooser.gauss(0, 0.5) for level in passages for _ in range(16)]
        part.append(standard_error(values[::4]) or 0)
        whole.append(standard_error(values) or 0)
    assert sum(part) / 200 == pytest.approx((1 / 20 + 0.25 / 80) ** 0.5, rel=0.1)
    assert sum(part) > sum(whole)


def test_a_single_value_has_no_error() -> None:
    assert standard_error([1.0]) is None
    assert standard_error([1.0, 1.0]) == 0
