"""What a run trains on: the device, how it is used, and the processes that share the work."""

import os
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psutil
import torch

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.files import cache_folder
from nanoscope.hardware import device as hardware
from nanoscope.messages import Shown
from nanoscope.training.distributed import Processes


@dataclass(frozen=True)
class Machine:
    choice: hardware.DeviceConfig
    processes: Processes

    @property
    def device(self) -> torch.device:
        return torch.device(self.choice.device)

    @cached_property
    def peak(self) -> tuple[float | None, Shown]:
        """The peak FLOPS of all processes together, None if unknown, and where the figure is from."""
        flops, source = hardware.peak_flops(self.choice)
        return flops * self.processes.world if flops else None, source

    def autocast(self) -> AbstractContextManager[object]:
        return hardware.autocast(self.choice)

    def sampling(self) -> AbstractContextManager[object]:
        """As `autocast`, to write text. On a CPU in float32: all weights would be converted for each token."""
        return nullcontext() if self.choice.type == "cpu" else self.autocast()

    def synchronize(self) -> None:
        hardware.synchronize(self.device)


def choose_machine(
    config: TrainConfig, processes: Processes, cpu_dtype: str | None = None
) -> tuple[Machine, list[Shown]]:
    """Choose device, dtype and compilation, and connect the processes. Also returns notes on what does not work.

    `cpu_dtype`: what a run that is resumed has used on a CPU.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))  # compile once, not every time
    choice, notes = hardware.set_up_device(
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
        hardware.keep_freed_memory()
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
