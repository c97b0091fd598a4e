"""How busy the machine is, from made-up figures and from the system's own."""

import subprocess
import sys
import time

import psutil
import pytest

from nanoscope.hardware.load import Load, Reading, load_between, read


@pytest.mark.parametrize(
    ("cores", "others", "threads", "busy"),
    [
        (2, 0.0, 2, False),
        (2, 0.3, 2, False),  # a browser, a shell: no reason to give up a third of the speed
        (2, 0.7, 2, True),  # one other busy process, of which three share two cores
        (2, 1.3, 2, True),
        (8, 1.0, 8, False),
        (8, 4.0, 8, True),
        (16, 4.0, 8, False),  # there is room for all
        (16, 14.0, 8, True),
    ],
)
def test_a_machine_is_busy_if_others_leave_our_threads_too_few_cores(
    cores: int, others: float, threads: int, busy: bool
) -> None:
    assert Load(cores, others).is_busy(threads) is busy


def test_what_this_process_uses_is_not_the_load_of_others() -> None:
    found = load_between(Reading(10.0, 100.0, 5.0), Reading(14.0, 107.0, 11.0))
    assert found.others == pytest.approx(0.25)


def test_rounding_does_not_make_the_load_negative() -> None:
    assert load_between(Reading(0.0, 0.0, 0.0), Reading(1.0, 1.9, 2.0)).others == 0.0


def test_the_load_of_another_process_is_seen() -> None:
    """Whatever else the machine does: others use at least what this one process used."""
    burner = psutil.Popen([sys.executable, "-c", "while True: pass"], stderr=subprocess.DEVNULL)
    try:
        before, used = read(), sum(burner.cpu_times()[:2])
        deadline = time.monotonic() + 60
        while sum(burner.cpu_times()[:2]) < used + 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        after = read()
    finally:
        burner.kill()
        burner.wait()
    assert load_between(before, after).others * (after.seconds - before.seconds) > 0.15  # both are counted in ticks
