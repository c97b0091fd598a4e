"""What training uses of the machine: memory, processor and GPU, sampled now and then between two steps."""

import importlib
import time
from contextlib import suppress
from typing import Any

import psutil
import torch

INTERVAL_SECONDS = 1.0  # a sample takes 0.15 ms (benchmarks/LOG.md), and is no part of a step's time
GIGABYTE = 1e9


class MachineMetrics:
    """Fields of an `iter` event. Between two samples there are none, so that fast steps don't pay for them."""

    def __init__(self, device: torch.device) -> None:
        self._process = psutil.Process()
        self._cores = psutil.cpu_count() or 1
        self._device = device
        self._gpu = _nvml_handle(device) if device.type == "cuda" else None
        self._sampled = 0.0
        with suppress(psutil.Error):
            self._process.cpu_percent()  # the next call counts from here

    def sample(self) -> dict[str, Any]:
        """The figures, if the last ones are old enough; without those that this machine can't tell."""
        now = time.monotonic()
        if now - self._sampled < INTERVAL_SECONDS:
            return {}
        self._sampled = now
        found = {}
        with suppress(psutil.Error, OSError), self._process.oneshot():
            found["process_gb"] = self._process.memory_info().rss / GIGABYTE
            used = self._process.cpu_percent() / 100 / self._cores
            found["cpu_share"] = min(used, 1.0)  # the system counts in ticks: over a moment it may be more
        with suppress(RuntimeError):
            if self._device.type == "cuda":
                # Between two steps there are only the weights and the optimizer's state: what counts is the peak.
                found["gpu_peak_gb"] = torch.cuda.max_memory_allocated(self._device) / GIGABYTE
                torch.cuda.reset_peak_memory_stats(self._device)
            elif self._device.type == "mps":  # has no peak, but keeps what it once had
                found["gpu_peak_gb"] = torch.mps.driver_allocated_memory() / GIGABYTE
        if self._gpu is not None:
            nvml, handle = self._gpu
            with suppress(nvml.NVMLError):
                found["gpu_share"] = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        return found


def _nvml_handle(device: torch.device) -> tuple[Any, Any] | None:
    """NVIDIA's management library with this GPU, if its Python package (nvidia-ml-py) is installed."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        # torch counts the visible GPUs, NVML all of them: only the UUID is the same for both.
        return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    except (nvml.NVMLError, RuntimeError, AttributeError):
        return None
