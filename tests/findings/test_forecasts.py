"""How often the time left is right, and its range holds the truth, on made-up runs whose rest is known."""

import random
from collections.abc import Callable, Iterator
from itertools import accumulate

import pytest

from nanoscope.findings.eta import Eta

STEPS, EVERY, EVAL_EVERY = 2000, 10, 100
SEEDS, CUTS = 15, (0.15, 0.4, 0.7)

Seconds = Callable[[int, random.Random], float]


def periodic_evaluations(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + rng.gauss(0, 0.03)) + (5 * (1 + rng.gauss(0, 0.05)) if step % EVAL_EVERY == 0 else 0)


def warm_up(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + rng.gauss(0, 0.03)) + (60 if step == 0 else 0.4 if step < 8 else 0)


def drift(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + step / 6000) * (1 + rng.gauss(0, 0.03))


def bursts_of_stalls(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + rng.gauss(0, 0.03)) + (2 if step % 480 in range(100, 121) else 0)


def regular_extra_work(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + rng.gauss(0, 0.03)) + (2 if step and step % 50 == 0 else 0)


def another_level(step: int, rng: random.Random) -> float:
    return (0.2 if step < 250 else 0.3) * (1 + rng.gauss(0, 0.03))


def restless(step: int, rng: random.Random) -> float:
    return 0.2 * (1 + rng.expovariate(4))


def forecasts(seconds: Seconds, explain, restart: bool = False) -> Iterator[tuple[Eta, float]]:
    """What is said after each part of a run, and what the rest took."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        took = [seconds(step, rng) for step in range(STEPS + 1)]
        passed = list(accumulate(took))
        evaluates = seconds is periodic_evaluations
        lines: list[str] = []
        cuts = [int(cut * STEPS) // EVERY * EVERY for cut in CUTS]
        for step in range(0, max(cuts) + 1, EVERY):
            if evaluates and step % EVAL_EVERY == 0:
                lines.append(f"step {step}: train loss {3 - step / 999:.4f}, val loss {3.1 - step / 999:.4f}")
            extra = 30 if restart and step == 200 else 0
            if extra:
                lines.append("Resuming training from out")
            loss, shown = 3 - step / 999 + rng.gauss(0, 0.02), took[step] + extra
            lines.append(f"iter {step}: loss {loss:.4f}, time {1000 * shown:.2f}ms, mfu 12.00%")
            if step in cuts:
                eta = explain("\n".join(lines), max_iters=STEPS).eta
                assert isinstance(eta, Eta)
                yield eta, passed[-1] - passed[step]


@pytest.mark.parametrize(
    ("seconds", "near", "held"),
    [
        (periodic_evaluations, 0.97, 0.9),
        (warm_up, 0.97, 0.9),
        (drift, 0.5, 0.85),  # what goes on after the last line is only in the range
        (regular_extra_work, 0.85, 0.9),  # a line every 10 steps, so few of the slow ones at the first cut
        (another_level, 0.9, 0.9),
        (restless, 0.9, 0.9),
    ],
)
def test_the_time_left_is_near_and_its_range_holds_the_truth_nine_times_in_ten(explain, seconds, near, held) -> None:
    found = list(forecasts(seconds, explain))
    assert sum(abs(eta.expected_s / truth - 1) < 0.1 for eta, truth in found) >= near * len(found)
    assert sum(eta.low_s <= truth <= eta.high_s for eta, truth in found) >= held * len(found)


def test_stalls_that_come_in_bursts_are_within_the_range(explain) -> None:
    found = list(forecasts(bursts_of_stalls, explain))
    assert sum(eta.low_s <= truth <= eta.high_s for eta, truth in found) >= 0.9 * len(found)


def test_a_restart_does_not_move_the_forecast(explain) -> None:
    found = list(forecasts(warm_up, explain, restart=True))
    assert sum(abs(eta.expected_s / truth - 1) < 0.1 for eta, truth in found) >= 0.97 * len(found)


def test_a_line_every_ten_steps_and_two_seconds_more_every_250(explain) -> None:
    """The truth is 141 s; all lines weighted alike say 310."""
    rng = random.Random(1)
    took = [0.2 * (1 + rng.gauss(0, 0.01)) + (2 if step and step % 250 == 0 else 0) for step in range(1501)]
    text = "\n".join(
        f"iter {step}: loss {3 - step / 999:.4f}, time {1000 * took[step]:.2f}ms, mfu 12.00%"
        for step in range(0, 1501, 10)
    )
    eta = explain(text, max_iters=2155).eta
    assert eta.expected_s == pytest.approx(655 * 0.2 + 2 * 2 + 6, abs=8)
    assert eta.low_s < 141 < eta.high_s
