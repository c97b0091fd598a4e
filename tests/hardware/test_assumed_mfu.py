"""Which MFU is assumed for a run elsewhere, and how sure that is."""

import pytest

from nanoscope.hardware.assumed_mfu import AssumedMfu, KnownRun, assumed_mfu, family_of, known_runs
from nanoscope.hardware.peaks import find_device, named_device


def assumed(device: str, parameters: float, compiled: bool = True, runs: list[KnownRun] | None = None) -> AssumedMfu:
    found = assumed_mfu(named_device(device), parameters, compiled, runs)
    assert found is not None
    return found


@pytest.mark.parametrize("run", known_runs(), ids=lambda run: f"{run.device}, {run.parameters / 1e6:.0f}M")
def test_a_known_run_is_of_a_known_device_and_within_what_is_possible(run: KnownRun) -> None:
    device = find_device(run.device)
    assert device is not None
    assert family_of(device) == run.family
    assert 0.05 < run.mfu < 0.85
    assert run.source


@pytest.mark.parametrize("run", known_runs(), ids=lambda run: f"{run.device}, {run.parameters / 1e6:.0f}M")
def test_each_known_run_lies_in_the_range_that_the_others_give(run: KnownRun) -> None:
    found = assumed(run.device, run.parameters, run.compiled, [each for each in known_runs() if each is not run])
    assert found.low <= run.mfu <= found.high


def test_the_less_alike_the_known_runs_are_the_wider_the_range() -> None:
    def width(found: AssumedMfu) -> float:
        return found.high / found.low

    alike = assumed("RTX 3060", 124e6)
    assert alike.low < alike.expected < alike.high
    assert width(assumed("RTX 3060", 2e6)) > width(alike)  # a model of another size
    assert width(assumed("RTX 3060", 124e6, compiled=False)) > width(alike)  # known only compiled
    assert width(assumed("T4", 124e6)) > width(alike)  # no run on such a device is known


def test_small_models_and_eager_mode_are_assumed_to_use_less() -> None:
    assert assumed("A100", 1e6).expected < assumed("A100", 10e6).expected < assumed("A100", 124e6).expected
    assert assumed("RTX 4090", 124e6, compiled=False).expected < assumed("RTX 4090", 124e6).expected


def test_the_basis_is_said() -> None:
    assert assumed("RTX 4090", 124e6).basis == "2 such runs on RTX 4090"
    assert assumed("RTX 4090", 1e6).basis == "2 runs of other sizes on RTX 4090"
    assert assumed("RTX 4090", 124e6, compiled=False).basis == "2 runs in the other mode on RTX 4090"
    assert assumed("T4", 124e6).basis == "4 runs on other devices: A100, H100, RTX 4090"
    assert len(assumed("T4", 124e6).sources) == 4


@pytest.mark.parametrize("device", ["Apple M2", "TPU v4"])
def test_where_nothing_is_known_nothing_is_assumed(device: str) -> None:
    assert assumed_mfu(named_device(device), 124e6, compiled=False) is None
