"""What is left to do after any number of iterations, counted from the configuration alone."""

import pytest

from nanoscope.config import TrainConfig
from nanoscope.training.agenda import evaluation_due, left_to_do


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
        assert tuple(left_to_do(config, done)) == by_walking(config, done), done


def test_a_resumed_run_does_not_repeat_the_evaluation_of_its_checkpoint() -> None:
    config = TrainConfig(max_iters=100, eval_interval=30)
    assert left_to_do(config, 30).eval == 4  # at 30, 60, 90 and the end
    assert left_to_do(config, 30, evaluated=True).eval == 3
    assert left_to_do(config, 31, evaluated=True).eval == 3  # none was due there


def test_fine_tuning_is_evaluated_before_it_begins() -> None:
    config = TrainConfig(recipe="modern", init_from="runs/other", max_iters=100, eval_interval=100)
    assert left_to_do(config, 0).eval == 2
    assert left_to_do(config, 0).checkpoint == 1


def test_the_last_evaluation_is_saved_even_if_no_other_is() -> None:
    config = TrainConfig(max_iters=100, eval_interval=10)
    assert left_to_do(config, 1, saved_share=0.0).checkpoint == 1
    assert left_to_do(config, 1, saved_share=0.5).checkpoint == pytest.approx(1 + 9 / 2)
