import pytest

from nanoscope.config import TrainConfig
from nanoscope.training.pace import Pace


def test_the_time_left_is_steps_at_the_recent_pace_plus_the_evaluations_and_checkpoints_to_come() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=25, sample_interval=50))
    for _ in range(10):
        pace.step(0.5)
    pace.extra("eval", 3.0)
    pace.extra("checkpoint", 1.0)
    pace.extra("sample", 2.0)
    # from step 60: 40 steps, evaluations with checkpoints at 75 and 100, a sample at 100
    assert pace.eta_seconds(60) == pytest.approx(40 * 0.5 + 2 * 3.0 + 2 * 1.0 + 2.0)


def test_the_last_evaluation_counts_also_where_the_interval_does_not_divide_the_run() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=30))
    pace.step(1.0)
    pace.extra("eval", 10.0)
    assert pace.eta_seconds(95) == pytest.approx(5 + 10)


def test_a_finished_run_has_nothing_left_but_what_the_last_step_demands() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=1000))
    pace.step(1.0)
    assert pace.eta_seconds(100) == pytest.approx(0.0)
    assert Pace(TrainConfig()).eta_seconds(0) is None


def test_only_recent_steps_count() -> None:
    pace = Pace(TrainConfig(max_iters=1000))
    for _ in range(200):
        pace.step(9.0)
    for _ in range(Pace.RECENT):
        pace.step(1.0)
    assert pace.step_seconds == pytest.approx(1.0)


def test_figures_since_the_last_line_are_handed_over_once() -> None:
    pace = Pace(TrainConfig())
    for seconds in (1.0, 2.0, 6.0):
        pace.step(seconds)
    assert pace.since_last_line() == (3, 3.0, 6.0)
    pace.step(5.0)
    assert pace.since_last_line() == (1, 5.0, 5.0)
