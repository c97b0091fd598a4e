"""Waiting for data, and memory that grows."""

import random
from collections.abc import Callable

import pytest

from nanoscope.findings.pressure import memory_growth, waiting_for_data
from nanoscope.runs.run import Run, Series


@pytest.fixture
def run_with(read_run, nanogpt_log) -> Callable[..., Run]:
    """A run of 0.1 s a step that prints one more number."""

    def make(name: str, value: Callable[[int], float]) -> Run:
        run = read_run(nanogpt_log(eval_every=None, startup_s=0))
        run.series[name] = Series()
        run.series[name].steps.extend(run.steps.step)
        run.series[name].values.extend(map(value, run.steps.step))
        return run

    return make


def test_a_step_that_waits_half_its_time_for_data_is_said_to(run_with) -> None:
    verdict = waiting_for_data(run_with("data_s", lambda step: 0.05))

    assert verdict is not None
    assert verdict.share == pytest.approx(0.5, rel=0.02)
    assert verdict.confidence == "sure"


def test_a_short_wait_and_a_long_one_at_the_start_are_nothing(run_with) -> None:
    assert waiting_for_data(run_with("data_s", lambda step: 3.0 if step == 0 else 0.005)) is None


def test_our_own_runs_tell_how_long_they_waited(read_run, nanogpt_log) -> None:
    run = read_run(nanogpt_log(eval_every=None, startup_s=0))
    run.phases = {"data": 60.0, "step": 140.0}
    verdict = waiting_for_data(run)

    assert verdict is not None
    assert verdict.share == pytest.approx(0.3)


def test_memory_that_grows_to_the_end_is_said_to(run_with) -> None:
    rng = random.Random(1)
    verdict = memory_growth(run_with("memory_gb", lambda step: 4 + step / 1000 + rng.gauss(0, 0.05)))

    assert verdict is not None
    assert verdict.last_gb > verdict.first_gb
    assert verdict.confidence == "likely"


@pytest.mark.parametrize(
    "memory",
    [
        lambda step: 8.0,
        lambda step: min(8.0, 4 + step / 100),  # finds its size
        lambda step: 8 - 3 * 0.998**step,  # a running maximum
        lambda step: 8 + 0.4 * ((step * 7919) % 13) / 13,  # batches of different sizes
    ],
)
def test_memory_that_settles_or_scatters_does_not_grow(run_with, memory) -> None:
    assert memory_growth(run_with("memory_gb", memory)) is None
