import pytest

from nanoscope.config import TrainConfig
from nanoscope.runs.events import Forecast
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


def test_what_was_not_measured_yet_is_taken_from_the_forecast() -> None:
    pace = Pace(TrainConfig(max_iters=10, eval_interval=10))
    pace.complete(Forecast(step_seconds=1.0, eval_seconds=5.0, checkpoint_seconds=13.0))
    assert pace.forecast.seconds == pytest.approx(10 * 1.0 + 5.0 + 13.0)
    pace.step(2.0)
    assert pace.eta_seconds(1) == pytest.approx(9 * 2.0 + 5.0 + 13.0)
    pace.extra("checkpoint", 3.0)
    assert pace.eta_seconds(1) == pytest.approx(9 * 2.0 + 5.0 + 3.0)


def after_five_steps(seconds: float, *, max_iters: int = 1000) -> list[Forecast]:
    """What is said after five steps of that length where one second was expected."""
    pace = Pace(TrainConfig(max_iters=max_iters, eval_interval=max_iters))
    pace.complete(Forecast(steps=max_iters, step_seconds=1.0, eval_seconds=10.0, checkpoint_seconds=1.0))
    found = []
    for step in range(1, 8):
        pace.step(seconds)
        found += pace.revise_forecast(step)
    return found


def test_a_forecast_that_was_wrong_is_corrected_once() -> None:
    (found,) = after_five_steps(3.0)
    assert (found.step, found.steps, found.measured, found.step_seconds) == (5, 995, 5, 3.0)
    assert found.eval_seconds == pytest.approx(30)
    assert found.seconds == pytest.approx(995 * 3 + 30 + 1)  # steps, an evaluation and a checkpoint


def test_a_forecast_that_was_right_or_does_not_matter_is_left_alone() -> None:
    assert after_five_steps(1.5) == []
    assert after_five_steps(3.0, max_iters=10) == []
