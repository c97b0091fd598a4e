"""What a run trains on: the device, how it is used, and the processes that share the work."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
import torch

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.files import cache_folder
from nanoscope.hardware.device import DeviceConfig, keep_freed_memory, set_up_device
from nanoscope.messages import Shown
from nanoscope.training.distributed import Processes


@dataclass(frozen=True)
class Machine:
    choice: DeviceConfig
    processes: Processes

    @property
    def device(self) -> torch.device:
        return torch.device(self.choice.device)


def choose_machine(
    config: TrainConfig, processes: Processes, cpu_dtype: str | None = None
) -> tuple[Machine, list[Shown]]:
    """Choose device, dtype and compilation, and connect the processes. Also returns notes on what does not work.

    `cpu_dtype`: what a run that is resumed has used on a CPU.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))  # compile once, not every time
    choice, notes = set_up_device(
        config.device,
        config.dtype,
        False if config.eval_only else config.compile,
        threads=config.threads,
        training=True,
        previous_dtype=cpu_dtype,
        local_rank=processes.local_rank if processes.world > 1 else None,
        planned_steps=config.max_iters,  # not those that are left: a resumed run must choose as it did before
    )
    if choice.type == "cuda":
        torch.cuda.set_device(choice.device)
        torch.set_float32_matmul_precision("high")  # TF32, as nanoGPT
    if choice.type == "cpu":
        keep_freed_memory()
    processes.connect(config.backend, choice.type)
    if config.sequences_per_step < processes.world:
        raise UsageError(
            "{processes} processes cannot share {sequences} sequences an iteration",
            processes=processes.world,
            sequences=config.sequences_per_step,
        )
    return Machine(choice, processes), notes


INTERVAL_SECONDS = 1.0  # a sample takes 0.15 ms (benchmarks/LOG.md), and is no part of a step's time
GIGABYTE = 1e9


class MachineMetrics:
    """Fields of an `iter` event. Between two samples there are none, so that fast steps don't pay for them."""

    def __init__(self, device: torch.device) -> None:
        self._process, self._device, self._sampled = psutil.Process(), device, 0.0
        self._process.cpu_percent()  # the next call counts from here

    def sample(self) -> dict[str, Any]:
        """The figures, if the last ones are old enough; without those that this machine can't tell."""
        now = time.monotonic()
        if now - self._sampled < INTERVAL_SECONDS:
            return {}
        self._sampled = now
        found = {"process_gb": self._process.memory_info().rss / GIGABYTE}
        used = self._process.cpu_percent() / 100 / (psutil.cpu_count() or 1)
        found["cpu_share"] = min(used, 1.0)  # the system counts in ticks: over a moment it may be more
        if self._device.type == "cuda":
            # Between two steps there are only the weights and the optimizer's state: what counts is the peak.
            found["gpu_peak_gb"] = torch.cuda.max_memory_allocated(self._device) / GIGABYTE
            torch.cuda.reset_peak_memory_stats(self._device)
            with suppress(Exception):  # without NVIDIA's package nvidia-ml-py, torch cannot tell
                found["gpu_share"] = torch.cuda.utilization(self._device) / 100
        elif self._device.type == "mps":  # has no peak, but keeps what it once had
            found["gpu_peak_gb"] = torch.mps.driver_allocated_memory() / GIGABYTE
        return found
