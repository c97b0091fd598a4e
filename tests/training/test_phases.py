import time

from nanoscope.training.phases import PHASES, PhaseClock, seconds_since_process_start


def test_every_second_belongs_to_one_phase_and_all_add_up_to_the_wall_time() -> None:
    clock = PhaseClock(started_ago=2.0)
    clock.enter("other")
    with clock.phase("data"):
        time.sleep(0.02)
    with clock.phase("step"):
        time.sleep(0.03)
    seconds = clock.seconds()
    assert set(seconds) == set(PHASES)
    assert seconds["startup"] >= 2.0
    assert seconds["data"] >= 0.02
    assert seconds["step"] >= 0.03
    assert abs(sum(seconds.values()) - clock.wall_seconds) < 0.01


def test_a_phase_inside_another_takes_its_time_from_it() -> None:
    clock = PhaseClock()
    clock.enter("other")
    with clock.phase("eval") as outer, clock.phase("checkpoint") as inner:
        time.sleep(0.05)
    assert inner.seconds >= 0.05
    assert clock.seconds()["checkpoint"] >= 0.05
    assert clock.seconds()["eval"] < 0.05
    assert outer.seconds >= inner.seconds  # a span is the whole passage


def test_the_clock_goes_on_after_an_exception() -> None:
    clock = PhaseClock()
    clock.enter("other")
    try:
        with clock.phase("eval"):
            raise ValueError
    except ValueError:
        pass
    before = clock.seconds()["eval"]
    time.sleep(0.01)
    assert clock.seconds()["eval"] == before
    assert clock.seconds()["other"] >= 0.01


def test_start_up_reaches_back_to_the_start_of_the_process() -> None:
    assert 0 <= seconds_since_process_start() < 600
