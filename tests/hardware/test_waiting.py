"""How torch's threads wait: what is chosen from which load, and that choosing works."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from nanoscope.hardware import load, openmp
from nanoscope.hardware.waiting import VARIABLES, Waiting, set_threads

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    for variable in (*VARIABLES, "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    yield
    torch.set_num_threads(before)


class Machine:
    """Two cores, of which others use `others`. Every look is 5 seconds after the last one, long before the present."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.others, self.seconds, self.used = 0.0, -1e6, 0.0
        monkeypatch.setattr(load, "read", self.read)
        monkeypatch.setattr(load, "usable_cpus", lambda: {0, 1})

    def read(self) -> load.Reading:
        self.seconds += 5.0
        self.used += 5.0 * self.others
        return load.Reading(self.seconds, self.used, 0.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.close()


def begin(waiting: Waiting, setting: str = "auto", device_type: str = "cpu") -> list[str]:
    load.begin()
    return [str(text) for text in waiting.begin(setting, device_type)]


def test_threads_sleep_from_the_start_on_a_busy_machine(machine: Machine, waiting: Waiting) -> None:
    machine.others = 1.3
    assert begin(waiting) == ["the machine is busy (other processes use 1.3 of 2 cores): threads sleep while they wait"]
    assert waiting.sleeping


def test_threads_spin_on_a_quiet_machine_and_nothing_is_said(machine: Machine, waiting: Waiting) -> None:
    assert begin(waiting) == []
    assert not waiting.sleeping


def test_threads_follow_a_machine_that_becomes_busy_and_quiet_again(machine: Machine, waiting: Waiting) -> None:
    begin(waiting)
    machine.others = 1.0
    assert [str(text) for _ in range(4) for text in waiting.check()] == [
        "the machine has become busy (other processes use 1.0 of 2 cores): threads now sleep while they wait"
    ]
    assert waiting.sleeping
    machine.others = 0.1
    assert [str(text) for _ in range(8) for text in waiting.check()] == [
        "the machine has become quiet (other processes use 0.1 of 2 cores): threads now spin while they wait"
    ]
    assert not waiting.sleeping


@pytest.mark.parametrize(("setting", "sleeping"), [("sleep", True), ("spin", False)])
def test_a_setting_holds_whatever_the_machine_does(
    setting: str, sleeping: bool, machine: Machine, waiting: Waiting
) -> None:
    machine.others = 0.0 if sleeping else 2.0
    assert begin(waiting, setting) == []
    assert [text for _ in range(100) for text in waiting.check()] == []
    assert waiting.sleeping is sleeping


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_of_the_user_wins(
    variable: str, monkeypatch: pytest.MonkeyPatch, machine: Machine, waiting: Waiting
) -> None:
    monkeypatch.setenv(variable, "0")
    machine.others = 2.0
    assert begin(waiting) == []
    assert begin(waiting, "sleep") == [f"waiting=sleep has no effect: {variable} is set"]
    assert [text for _ in range(100) for text in waiting.check()] == []
    assert not waiting.sleeping


def test_a_gpu_and_a_single_thread_need_no_choice(machine: Machine, waiting: Waiting) -> None:
    machine.others = 2.0
    assert begin(waiting, device_type="cuda") == []
    torch.set_num_threads(1)
    assert begin(waiting) == []
    assert not waiting.sleeping


def test_threads_still_spin_where_the_system_refuses_new_ones(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, waiting: Waiting
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    if not hasattr(openmp.Switch()._library, "kmp_set_blocktime"):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        machine.others = 2.0
        assert begin(waiting) == []
        assert not waiting.sleeping


def test_a_container_gets_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "cpu_quota", lambda: 1.5)
    assert [str(text) for text in set_threads()] == ["this container may use 1.5 cores: threads reduced from 2 to 1"]
    assert torch.get_num_threads() == 1


def test_threads_that_someone_asked_for_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "cpu_quota", lambda: 1.0)
    assert set_threads(2) == []
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert set_threads() == []
    assert torch.get_num_threads() == 2


# Between two operations of two threads there is a pause. Prints how often the second thread fell asleep meanwhile, and
# whether the children of this process would notice.
CHILD = """
import os, sys, time, torch
from nanoscope.hardware.waiting import Waiting
torch.set_num_threads(2)
x, before = torch.ones(1 << 20), dict(os.environ)
def threads():
    return set(os.listdir("/proc/self/task"))
x.add(1)
second = max(map(int, threads()))
def naps():
    with open(f"/proc/self/task/{second}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary"))
waiting = Waiting()
waiting.begin(sys.argv[1])
start = naps()
for _ in range(100):
    x.add(1)
    time.sleep(0.0005)
print(naps() - start, dict(os.environ) == before, flush=True)
waiting.close()
"""


@linux_only
@pytest.mark.slow
def test_threads_really_sleep_and_children_inherit_nothing() -> None:
    environment = {key: value for key, value in os.environ.items() if key not in (*VARIABLES, "OMP_NUM_THREADS")}
    found = subprocess.run(
        [sys.executable, "-c", CHILD, "sleep"], env=environment, capture_output=True, text=True, check=True, timeout=240
    )
    naps, same = found.stdout.split()
    assert int(naps) >= 90
    assert same == "True"
