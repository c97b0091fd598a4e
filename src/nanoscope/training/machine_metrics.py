"""What training uses of the machine: memory, processor and GPU, sampled now and then between two steps."""

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
        with suppress(Exception):  # without NVIDIA's package nvidia-ml-py, torch cannot tell
            if self._device.type == "cuda":
                found["gpu_share"] = torch.cuda.utilization(self._device) / 100
        return found
