"""What a run says about the machine it trains on."""

import pytest
import torch

from nanoscope.runs.events import Iter
from nanoscope.runs.own import OwnRun
from nanoscope.training import machine
from nanoscope.training.machine import MachineMetrics
from small_runs import Folder


@pytest.mark.slow
def test_a_run_records_its_memory_and_processor_use_as_series(folder: Folder) -> None:
    folder.train()
    (run,) = OwnRun(folder.path / "run").read().runs
    memory, cpu = run.series["process_gb"], run.series["cpu_pct"]
    assert memory.steps[0] == cpu.steps[0] == 0
    assert 0.01 < memory.values[0] < 1000
    assert 0 <= cpu.values[0] <= 100


def test_between_two_samples_there_are_no_figures() -> None:
    metrics = MachineMetrics(torch.device("cpu"))
    assert metrics.sample()
    assert metrics.sample() == {}


def test_every_figure_is_a_field_of_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "INTERVAL_SECONDS", 0.0)
    assert (
        set(MachineMetrics(torch.device("cpu")).sample()) == {"process_gb", "cpu_share"} <= set(Iter.__struct_fields__)
    )


def test_the_memory_of_a_gpu_is_its_peak_since_the_last_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps 2 GB are allocated, and 10 GB in each of them."""
    peak = 10e9

    def reset(device: torch.device) -> None:
        nonlocal peak
        peak = 2e9

    monkeypatch.setattr(machine, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2e9)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: peak)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    metrics = MachineMetrics(torch.device("cuda"))
    assert [metrics.sample()["gpu_peak_gb"] for _ in range(2)] == [10, 2]
    assert "gpu_peak_gb" in Iter.__struct_fields__
