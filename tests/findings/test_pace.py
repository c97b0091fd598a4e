"""How fast a run is, with a range from its own past."""

import random

import pytest

from nanoscope.findings.pace import measure_pace


def test_an_even_past_gives_its_mean_and_a_narrow_range() -> None:
    rng = random.Random(1)
    pace = measure_pace([0.1 * (1 + rng.gauss(0, 0.01)) for _ in range(400)], None, 2.0)

    assert pace.step_s == pytest.approx(0.1, rel=0.01)
    assert (pace.high_s - pace.low_s) / pace.step_s < 0.1


def test_few_lines_give_a_wider_range() -> None:
    few, many = measure_pace([0.1] * 4, None, 2.0), measure_pace([0.1] * 400, None, 2.0)

    assert few.high_s > many.high_s


def test_a_changed_pace_counts_from_its_change_and_may_change_again() -> None:
    pace = measure_pace([0.1] * 200 + [0.2] * 200, None, 1.0)

    assert pace.step_s == pytest.approx(0.2)
    assert pace.high_s > 0.3


def test_times_that_stand_for_many_steps_weigh_more() -> None:
    assert measure_pace([0.1, 0.4] * 96, [3, 1] * 96, 1.0).step_s == pytest.approx(0.175)


def test_the_range_holds_the_truth_nine_times_in_ten_on_runs_that_wander() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(200):
        level, values = 0.1, []
        for _ in range(300):
            level *= 1 + rng.gauss(0, 0.002)
            values.append(level * (1 + rng.gauss(0, 0.02)))
        pace = measure_pace(values[:150], None, 1.0)
        held += pace.low_s <= sum(values[150:]) / 150 <= pace.high_s
    assert held >= 180


def test_the_range_holds_a_steady_drift_that_goes_on() -> None:
    rng = random.Random(3)
    values = [0.1 * (1 + step / 1000) * (1 + rng.gauss(0, 0.005)) for step in range(1200)]
    pace = measure_pace(values[:400], None, 2.0)

    assert pace.low_s <= sum(values[400:]) / 800 <= pace.high_s
