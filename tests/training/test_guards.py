import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoscope.estimates import median
from nanoscope.findings.numbers import is_slow, robust_sigma
from nanoscope.runs.events import Asleep, SlowStep
from nanoscope.training import guards
from nanoscope.training.guards import SlowStepWatch, SpikeWatch


def noisy_losses(count: int, seed: int, *, falling: float = 0.0) -> list[float]:
    chooser = random.Random(seed)
    return [4.0 * 0.98 ** (falling * i) + chooser.gauss(0, 0.1) for i in range(count)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("falling", [0.0, 1.0])
def test_ordinary_noise_is_no_spike(seed: int, falling: float) -> None:
    watch = SpikeWatch()
    assert [loss for loss in noisy_losses(2000, seed, falling=falling) if watch.notice(0, loss)] == []


def test_a_jump_is_reported_once_with_what_is_usual() -> None:
    watch = SpikeWatch()
    spikes = [watch.notice(0, loss) for loss in [*noisy_losses(100, 1), 6.5, 6.6, *noisy_losses(5, 2)]]
    (spike,) = spikes[100]
    assert [*spikes[:100], *spikes[101:]] == [[]] * 106
    assert spike.loss == 6.5
    assert spike.usual == pytest.approx(4, abs=0.1)
    assert spike.score is not None
    assert spike.score > 8


def test_a_jump_long_after_another_is_reported_again() -> None:
    watch = SpikeWatch()
    losses = [*noisy_losses(60, 1), 6.5, *noisy_losses(60, 2), 9.0]
    assert [i for i, loss in enumerate(losses) if watch.notice(0, loss)] == [60, 121]


def test_losses_that_are_all_the_same_are_no_reason_for_an_alarm_at_the_next_digit() -> None:
    watch = SpikeWatch()
    assert [watch.notice(0, loss) for loss in [2.0] * 60 + [2.001]] == [[]] * 61


class Machine:
    """A machine whose clocks are set by hand."""

    cpu = asleep = 0.0

    def step(self, seconds: float, cpu: float | None = None, data: float = 0.0, asleep: float = 0.0) -> str | None:
        self.cpu += seconds if cpu is None else cpu
        self.asleep += asleep
        slow = [event for event in self.watch.notice(0, seconds, data) if isinstance(event, SlowStep)]
        return slow[0].cause if slow else None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guards.time, "process_time", lambda: self.cpu)
        monkeypatch.setattr(guards, "seconds_asleep", lambda: self.asleep)
        self.watch = SlowStepWatch()
        for _ in range(20):
            assert self.step(0.1) is None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_step_of_ten_times_the_usual_is_noticed_and_one_of_nine_times_is_not(machine: Machine) -> None:
    assert machine.step(0.9) is None
    assert machine.step(1.1) == "unknown"


def test_a_step_of_milliseconds_is_never_worth_a_line() -> None:
    watch = SlowStepWatch()
    assert all(watch.notice(step, 0.001, 0) == [] for step in range(20))
    assert watch.notice(20, 0.3, 0) == []


@pytest.mark.parametrize(
    ("clocks", "cause"),
    [
        ({"data": 4.5}, "data"),
        ({"cpu": 0.4}, "busy"),
        ({"cpu": 0.1, "asleep": 4.8}, "asleep"),
        ({}, "unknown"),
    ],
)
def test_a_cause_is_named_if_something_points_to_it(machine: Machine, clocks: dict[str, float], cause: str) -> None:
    assert machine.step(5, **clocks) == cause


def test_a_burst_of_slow_steps_is_reported_once_and_a_later_one_again(machine: Machine) -> None:
    burst = [5.0, 5.0, 0.1, 0.2, 5.0]
    assert [machine.step(seconds) for seconds in burst] == ["unknown", None, None, None, None]
    assert [machine.step(0.1) for _ in range(SlowStepWatch.AT_LEAST)] == [None] * SlowStepWatch.AT_LEAST
    assert machine.step(5) == "unknown"


@given(st.lists(st.floats(1e-3, 10), min_size=SlowStepWatch.AT_LEAST, max_size=50), st.floats(10, 1000))
def test_what_is_reported_is_slow_by_the_rule_of_the_analysis(times: list[float], factor: float) -> None:
    usual = median(times)
    assert is_slow(factor * usual, usual, robust_sigma(times) / usual)


def test_sleep_that_the_steps_clock_did_not_count_is_reported_all_the_same(machine: Machine) -> None:
    machine.asleep += 7200
    assert machine.watch.notice(5, 0.1, 0) == [Asleep(step=5, seconds=7200)]
    assert machine.watch.notice(6, 0.1, 0) == []


def test_the_first_steps_have_nothing_to_be_compared_with() -> None:
    assert SlowStepWatch().notice(0, 60, 0) == []
