import random

import pytest

from nanoscope.training import guards
from nanoscope.training.guards import SlowStepWatch, SpikeWatch


def noisy_losses(count: int, seed: int, *, falling: float = 0.0) -> list[float]:
    chooser = random.Random(seed)
    return [4.0 * 0.98 ** (falling * i) + chooser.gauss(0, 0.1) for i in range(count)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("falling", [0.0, 1.0])
def test_ordinary_noise_is_no_spike(seed: int, falling: float) -> None:
    watch = SpikeWatch()
    assert [loss for loss in noisy_losses(2000, seed, falling=falling) if watch.notice(loss)] == []


def test_a_jump_is_told_once_with_what_is_usual() -> None:
    watch = SpikeWatch()
    spikes = [watch.notice(loss) for loss in [*noisy_losses(100, 1), 6.5, 6.6, *noisy_losses(5, 2)]]
    found = [spike for spike in spikes if spike]
    assert len(found) == 1
    assert spikes[100] is found[0]
    assert found[0].loss == 6.5
    assert found[0].usual == pytest.approx(4, abs=0.1)
    assert found[0].score > 8


def test_a_jump_long_after_another_is_told_again() -> None:
    watch = SpikeWatch()
    losses = [*noisy_losses(60, 1), 6.5, *noisy_losses(60, 2), 9.0]
    assert [i for i, loss in enumerate(losses) if watch.notice(loss)] == [60, 121]


def test_losses_that_are_all_the_same_are_no_reason_for_an_alarm_at_the_next_digit() -> None:
    watch = SpikeWatch()
    assert [watch.notice(loss) for loss in [2.0] * 60 + [2.001]] == [None] * 61


class Machine:
    """A machine whose clocks are set by hand."""

    cpu = asleep = 0.0

    def step(
        self, seconds: float, cpu: float | None = None, data: float = 0.0, asleep: float = 0.0, saving: bool = False
    ) -> str | None:
        self.cpu += seconds if cpu is None else cpu
        self.asleep += asleep
        slow = self.watch.notice(seconds, data, saving=saving)
        return None if slow is None else slow.cause

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


def test_a_step_of_milliseconds_is_never_worth_a_word(machine: Machine) -> None:
    watch = SlowStepWatch()
    assert all(watch.notice(0.001, 0, saving=False) is None for _ in range(20))
    assert watch.notice(0.3, 0, saving=False) is None


def test_the_cause_is_told_where_it_can_be_known(machine: Machine) -> None:
    assert machine.step(5, data=4.5) == "data"
    assert machine.step(5, saving=True) == "checkpoint"
    assert machine.step(5, cpu=0.4) == "busy"
    assert machine.step(5, cpu=0.1, asleep=4.8) == "asleep"


def test_sleep_that_the_steps_clock_did_not_count_is_known_all_the_same(machine: Machine) -> None:
    assert machine.step(0.1, asleep=7200) is None
    assert machine.watch.asleep == 7200
    machine.step(0.1)
    assert machine.watch.asleep == 0


def test_the_first_steps_have_nothing_to_be_compared_with() -> None:
    watch = SlowStepWatch()
    assert watch.notice(60, 0, saving=False) is None
