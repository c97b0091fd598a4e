"""The learning rate at hand-computed iterations."""

import math

import pytest

from nanoscope.config import TrainConfig, build
from nanoscope.optim.schedule import learning_rate


def config(**changes: object) -> TrainConfig:
    usual = {
        "recipe": "classic",
        "learning_rate": 1e-3,
        "min_lr": 1e-4,
        "warmup_iters": 100,
        "lr_decay_iters": 5000,
        "max_iters": 5000,
    }
    return build({**usual, **changes})


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 1e-3 * 1 / 101),
        (49, 1e-3 * 50 / 101),
        (99, 1e-3 * 100 / 101),
        (100, 1e-3),
        (100 + 1225, 1e-4 + 0.5 * (1 + math.sqrt(0.5)) * 9e-4),  # a quarter of the way: cos 45°
        (100 + 2450, 5.5e-4),  # halfway: the mean of the two
        (5000, 1e-4),
        (5001, 1e-4),
        (10**9, 1e-4),
    ],
)
def test_the_rate_is_nanogpts_at_hand_computed_iterations(step: int, rate: float) -> None:
    assert learning_rate(step, config()) == pytest.approx(rate, rel=1e-12)


def test_a_constant_rate_has_no_warm_up() -> None:
    assert {learning_rate(step, config(decay_lr=False)) for step in (0, 50, 2000, 9999)} == {1e-3}


def test_without_warm_up_the_first_iteration_has_the_highest_rate() -> None:
    assert learning_rate(0, config(warmup_iters=0)) == 1e-3


def test_auto_decays_to_a_tenth_at_the_last_iteration() -> None:
    settings = config(min_lr="auto", lr_decay_iters="auto", max_iters=300)
    assert learning_rate(300, settings) == pytest.approx(1e-4)
    assert learning_rate(200, settings) == pytest.approx(5.5e-4)


def test_the_rate_rises_to_its_peak_and_then_only_falls() -> None:
    rates = [learning_rate(step, config(lr_decay_iters=500)) for step in range(600)]
    assert rates[:101] == sorted(rates[:101])
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert max(rates) == rates[100] == 1e-3
    assert min(rates[100:]) == 1e-4


@pytest.mark.parametrize("decay", [1, 100, 101])
def test_a_decay_that_ends_within_the_warm_up_is_no_error(decay: int) -> None:
    settings = config(lr_decay_iters=decay)
    assert learning_rate(99, settings) == pytest.approx(1e-3 * 100 / 101)
    assert learning_rate(102, settings) == 1e-4


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 1e-2), (399, 1e-2), (400, 1e-2), (700, 5e-3), (940, 1e-3), (1000, 0.0), (2000, 0.0)],
)
def test_the_modern_rate_stays_constant_and_then_decays_linearly(step: int, rate: float) -> None:
    settings = build({"recipe": "modern", "max_iters": 1000, "cooldown": 0.6})
    assert learning_rate(step, settings) == pytest.approx(rate)


def test_the_modern_rate_can_warm_up() -> None:
    settings = build({"recipe": "modern", "max_iters": 1000, "warmup_iters": 9})
    assert [learning_rate(step, settings) for step in (0, 4, 9)] == pytest.approx([1e-3, 5e-3, 1e-2])
