import pytest

from nanoscope.config import TrainConfig
from nanoscope.training.pace import Pace, evaluation_due, left_to_do
from nanoscope.training.phases import PhaseClock


def test_the_time_left_is_steps_at_the_recent_pace_plus_the_evaluations_and_checkpoints_to_come() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=25, sample_interval=50))
    for _ in range(10):
        pace.add("step", 0.5)
    pace.add("eval", 3.0)
    pace.add("checkpoint", 1.0)
    pace.add("sample", 2.0)
    # from step 60: 40 steps, evaluations with checkpoints at 75 and 100, a sample at 100
    assert pace.eta_seconds(60) == pytest.approx(40 * 0.5 + 2 * 3.0 + 2 * 1.0 + 2.0)


def test_the_last_evaluation_counts_also_where_the_interval_does_not_divide_the_run() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=30))
    pace.add("step", 1.0)
    pace.add("eval", 10.0)
    assert pace.eta_seconds(95) == pytest.approx(5 + 10)


def test_a_finished_run_has_nothing_left_but_what_the_last_step_demands() -> None:
    pace = Pace(TrainConfig(max_iters=100, eval_interval=1000))
    pace.add("step", 1.0)
    assert pace.eta_seconds(100) == pytest.approx(0.0)
    assert Pace(TrainConfig()).eta_seconds(0) is None


def test_only_recent_steps_count() -> None:
    pace = Pace(TrainConfig(max_iters=1000))
    for _ in range(200):
        pace.add("step", 9.0)
    for _ in range(Pace.RECENT):
        pace.add("step", 1.0)
    assert pace.expected("step") == pytest.approx(1.0)


def test_a_slow_first_step_and_a_stall_are_not_extrapolated_but_count_in_the_speed() -> None:
    pace = Pace(TrainConfig(max_iters=1000, eval_interval=1000))
    for seconds in (3.0, 1.0, 1.0, 40.0, 1.0):
        pace.add("step", seconds)
    assert pace.eta_seconds(5) == pytest.approx(995 * 1.0)
    assert pace.tokens_per_second == pytest.approx(pace.config.tokens_per_step * 5 / 46)


def test_a_moment_in_which_the_machine_was_busy_is_not_extrapolated() -> None:
    pace = Pace(TrainConfig(max_iters=1000, eval_interval=1000))
    for step in range(40):
        pace.add("step", 5.0 if 20 <= step < 30 else 1.0)
    assert pace.expected("step") == pytest.approx(1.0)


def test_slow_steps_that_come_again_and_again_are_extrapolated() -> None:
    pace = Pace(TrainConfig(max_iters=1100))
    for step in range(100):
        pace.add("step", 5.0 if step % 10 == 9 else 1.0)
    assert pace.expected("step") == pytest.approx(1.4)


def test_what_lies_between_the_phases_is_part_of_each_iteration() -> None:
    clock = PhaseClock()
    pace = Pace(TrainConfig(max_iters=1000, eval_interval=1000), clock)
    clock._seconds["other"] = 3.0
    for _ in range(10):
        pace.add("step", 1.0)
    assert pace.eta_seconds(10) == pytest.approx(990 * 1.3)


def limited(minutes: float) -> Pace:
    """Ten hours of iterations, with a time limit, half a minute after the start."""
    config = TrainConfig(max_iters=36000, eval_interval=36000, max_minutes=minutes)
    return Pace(config, PhaseClock(started_ago=30.0), step=1.0, checkpoint=4.0)


def test_a_time_limit_ends_the_run_with_a_checkpoint() -> None:
    pace = limited(2.5)
    assert pace.eta_seconds(0) == pytest.approx(120 + 4.0, abs=1)
    assert pace.forecast(0).seconds_high == pytest.approx(120 + 4.0, abs=1)
    assert pace.forecast(0).steps == pytest.approx(124, abs=1)
    assert limited(0.4).eta_seconds(0) == pytest.approx(4.0)  # over already
    assert limited(0).eta_seconds(0) == limited(10_000).eta_seconds(0) == 36004.0


def test_figures_since_the_last_line_are_handed_over_once() -> None:
    pace = Pace(TrainConfig())
    for seconds in (1.0, 2.0, 6.0):
        pace.add("step", seconds)
    assert pace.since_last_line() == (3, 3.0, 6.0)
    pace.add("step", 5.0)
    assert pace.since_last_line() == (1, 5.0, 5.0)


def test_what_was_not_measured_yet_is_taken_from_the_forecast() -> None:
    pace = Pace(TrainConfig(max_iters=10, eval_interval=10), step=1.0, eval=5.0, checkpoint=13.0)
    assert pace.forecast(0).seconds == pytest.approx(10 * 1.0 + 5.0 + 13.0)
    pace.add("step", 2.0)
    assert pace.eta_seconds(1) == pytest.approx(9 * 2.0 + 5.0 + 13.0)
    pace.add("checkpoint", 3.0)
    assert pace.eta_seconds(1) == pytest.approx(9 * 2.0 + 5.0 + 3.0)


# --- what is left to do after any number of iterations, counted from the configuration alone ---


def by_walking(config: TrainConfig, done: int) -> tuple[int, int, float, int]:
    """The same by going through the run as the loop does."""
    evals = [step for step in range(done, config.max_iters + 1) if evaluation_due(step, config)]
    samples = [
        s
        for s in range(max(done, 1), config.max_iters + 1)
        if config.sample_interval and s % config.sample_interval == 0
    ]
    return config.max_iters - done, len(evals), float(sum(step > 0 for step in evals)), len(samples)


@pytest.mark.parametrize("recipe", ["modern", "classic"])
@pytest.mark.parametrize("interval", [1, 7, 10, 50, 300])
def test_what_is_left_is_what_the_loop_will_do_wherever_it_stands(recipe: str, interval: int) -> None:
    config = TrainConfig(recipe=recipe, max_iters=50, eval_interval=interval, sample_interval=6)  # type: ignore[arg-type]
    for done in range(51):
        assert tuple(left_to_do(config, done).values()) == by_walking(config, done), done


def test_a_resumed_run_does_not_repeat_the_evaluation_of_its_checkpoint() -> None:
    config = TrainConfig(max_iters=100, eval_interval=30)
    assert left_to_do(config, 30)["eval"] == 4  # at 30, 60, 90 and the end
    assert left_to_do(config, 30, evaluated=True)["eval"] == 3
    assert left_to_do(config, 31, evaluated=True)["eval"] == 3  # none was due there


def test_fine_tuning_is_evaluated_before_it_begins() -> None:
    config = TrainConfig(recipe="modern", init_from="runs/other", max_iters=100, eval_interval=100)
    assert left_to_do(config, 0)["eval"] == 2
    assert left_to_do(config, 0)["checkpoint"] == 1
