"""How busy the machine is, from made-up figures and from the system's own."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nanoscope.hardware.load import Load, Reading, Watch, cpu_quota, load_between, read


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


def test_a_load_in_between_changes_nothing() -> None:
    between = Load(2, 0.3)
    assert between.is_busy(2, was_busy=True)
    assert not between.is_busy(2, was_busy=False)


def seen(watch: Watch, others: float, looks: int, seconds: float = 5.0) -> list[int]:
    """At which of so many looks the state changes."""
    return [look for look in range(1, looks + 1) if watch.see(Load(2, others), seconds)]


def test_a_change_counts_only_if_it_lasts() -> None:
    watch = Watch(threads=2)
    assert seen(watch, 1.0, looks=2) == []
    assert seen(watch, 0.0, looks=1) == []  # it was over: counting begins again
    assert seen(watch, 1.0, looks=4) == [3]
    assert watch.busy


def test_one_long_look_is_not_enough_for_a_change() -> None:
    assert seen(Watch(threads=2), 1.0, looks=2, seconds=600) == [2]


def test_a_machine_that_changes_all_the_time_changes_threads_ever_less_often() -> None:
    watch = Watch(threads=2)
    needed = [seen(watch, others, looks=100)[0] for others in (1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)]
    assert needed == [3, 6, 12, 24, 48, 60, 60]  # looks of 5 seconds: at most 5 minutes


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


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_a_container_is_read_in_cores(files: dict[str, str], cores: float | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cores
