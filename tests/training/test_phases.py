import pytest

from nanoscope.training import phases
from nanoscope.training.phases import PHASES, PhaseClock, seconds_since_process_start


class Time:
    """A clock that is set by hand."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(phases.time, "perf_counter", time.perf_counter)
    return time


def test_every_second_belongs_to_one_phase_and_all_add_up_to_the_wall_time(time: Time) -> None:
    clock = PhaseClock(started_ago=2.0)
    time.sleep(1)
    clock.enter("other")
    with clock.phase("data"):
        time.sleep(4)
    time.sleep(16)
    with clock.phase("step"):
        time.sleep(8)
    expected = dict.fromkeys(PHASES, 0.0) | {"startup": 3.0, "data": 4.0, "step": 8.0, "other": 16.0}
    assert clock.seconds() == expected
    assert clock.wall_seconds == 31


def test_a_phase_inside_another_takes_its_time_from_it(time: Time) -> None:
    clock = PhaseClock()
    clock.enter("other")
    with clock.phase("eval") as outer:
        time.sleep(1)
        with clock.phase("checkpoint") as inner:
            time.sleep(2)
    assert (clock.seconds()["eval"], clock.seconds()["checkpoint"]) == (1, 2)
    assert (outer.seconds, inner.seconds) == (3, 2)  # a span is the whole passage


def test_the_clock_continues_after_an_exception(time: Time) -> None:
    clock = PhaseClock()
    clock.enter("other")
    try:
        with clock.phase("eval"):
            time.sleep(1)
            raise ValueError
    except ValueError:
        pass
    time.sleep(2)
    assert (clock.seconds()["eval"], clock.seconds()["other"]) == (1, 2)


def test_start_up_reaches_back_to_the_start_of_the_process() -> None:
    assert 0 <= seconds_since_process_start() < 600
