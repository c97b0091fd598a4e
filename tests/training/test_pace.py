import pytest

from nanoscope.config import TrainConfig
from nanoscope.training.pace import Pace, short_count, short_duration


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


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0s"), (41, "41s"), (59.6, "1m00s"), (200, "3m20s"), (7500, "2h05m"), (273600, "3d04h")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(864, "864"), (33_200, "33.2k"), (1_260_000, "1.26M"), (2e9, "2B")])
def test_counts_are_short(number: float, text: str) -> None:
    assert short_count(number) == text
