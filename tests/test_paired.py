"""Paired statistics against tables, and their rates of error on simulated pairs."""

import math
import random
from collections.abc import Iterator

import pytest

from nanoscope.paired import paired, t_quantile


@pytest.mark.parametrize(
    ("confidence", "freedom", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 3, 3.1824),
        (0.975, 4, 2.7764),
        (0.975, 9, 2.2622),
        (0.975, 30, 2.0423),
        (0.95, 1, 6.3138),
        (0.95, 5, 2.0150),
        (0.99, 2, 6.9646),
        (0.99, 4, 3.7469),
        (0.995, 3, 5.8409),
        (0.995, 120, 2.6174),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, expected: float) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(expected, abs=1e-4)


def test_the_mean_difference_has_the_standard_error_of_the_pairs() -> None:
    found = paired([0.1, 0.2, 0.3])
    assert [found.mean, found.error] == pytest.approx([0.2, 0.1 / math.sqrt(3)])
    assert found.pairs == 3
    assert found.mean - found.margin(0.975) == pytest.approx(0.2 - 4.3027 * 0.1 / math.sqrt(3), abs=1e-4)
    assert found.mean + found.margin(0.975) == pytest.approx(0.2 + 4.3027 * 0.1 / math.sqrt(3), abs=1e-4)


def test_a_single_pair_shows_nothing() -> None:
    assert paired([5.0]).verdict(worth=0.1, confidence=0.95) == "unclear"


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.10, 0.11, 0.09], "better"),
        ([0.010, 0.011, 0.009], "too_small"),
        ([0.001, -0.001, 0.0], "too_small"),
        ([-0.10, -0.11, -0.09], "worse"),
        ([0.3, -0.1, 0.1], "unclear"),
    ],
)
def test_verdicts(differences: list[float], verdict: str) -> None:
    assert paired(differences).verdict(worth=0.05, confidence=0.95) == verdict


def simulated(effect: float, pairs: int, times: int = 20_000) -> Iterator[list[float]]:
    chooser = random.Random(pairs)
    return ([chooser.gauss(effect, 1.0) for _ in range(pairs)] for _ in range(times))


@pytest.mark.parametrize("pairs", [2, 3, 5, 8])
def test_false_alarms_are_as_rare_as_the_confidence_promises(pairs: int) -> None:
    found = [paired(each) for each in simulated(0.0, pairs)]
    for confidence in (0.95, 0.99):
        verdicts = [each.verdict(0.0, confidence) for each in found]
        for alarm in ("better", "worse"):
            share, promised = verdicts.count(alarm) / len(verdicts), 1 - confidence
            assert abs(share - promised) < 4 * math.sqrt(promised / len(verdicts))


def test_a_difference_of_three_times_the_noise_is_mostly_found_in_five_pairs() -> None:
    verdicts = [paired(each).verdict(0.1, 0.99) for each in simulated(3.0, 5, times=2000)]
    assert verdicts.count("better") > 0.9 * len(verdicts)
