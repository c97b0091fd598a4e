"""What a step takes, from a few seconds of real ones: `plan`, `tune` and `bench` measure with this.

Each micro-batch and each update is timed by itself, so a long accumulation needn't be measured to its end.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

import msgspec
import psutil
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.optim.schedule import learning_rate
from nanoscope.training.engine import Engine, split

ROUND_SHARE = 0.3  # of the time: the micro-batches before one update, so that there are several updates


class Timing(msgspec.Struct, frozen=True):
    """Seconds of each repetition, in order."""

    micro_batch: int
    """Sequences of each micro-batch."""
    first: list[float] = []
    """Forward and backward pass of the first micro-batch of a step."""
    later: list[float] = []
    """The same of the others, which add their gradients to the first one's."""
    update: list[float] = []
    data: list[float] = []
    """Waiting for the batches of a step."""

    def step_seconds(self, config: TrainConfig) -> float:
        """The median step, with all of its micro-batches."""
        first = median(self.first)
        later = median(self.later) if self.later else first
        count = config.sequences_per_step / self.micro_batch
        return median(self.data) + first + (count - 1) * later + median(self.update)


def measure(engine: Engine, next_batches: Callable[[], list[Batch]], seconds: float) -> Timing:
    """Train for about so many seconds, at least one step. Weights change.

    The first step of an engine is slower, because it makes the optimizer's state: call this with 0 seconds before.
    """
    found, most, step = Timing(engine.micro_batch), 2, 0
    until = time.perf_counter() + seconds
    while step == 0 or time.perf_counter() < until:
        began = time.perf_counter()
        batches = next_batches()
        found.data.append(time.perf_counter() - began)
        whole = [part for part in split(batches, engine.micro_batch) if len(part[0]) == engine.micro_batch]
        done = engine.step(whole[:most], step, learning_rate(step, engine.config), timed=True)
        assert done is not None
        assert done.update_seconds is not None
        found.first.append(done.passes[0])
        found.later.extend(done.passes[1:])
        found.update.append(done.update_seconds)
        most = max(2, int(ROUND_SHARE * seconds / median(done.passes)))
        step += 1
    return found


def peak_bytes(device: torch.device) -> int:
    """The most memory of the device that this process had; of a CPU, its own."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    if device.type == "mps":  # keeps what it once had
        return torch.mps.driver_allocated_memory()
    with suppress(OSError, IndexError):  # not ru_maxrss, which a process has from the one that started it
        status = Path("/proc/self/status").read_text("ascii", errors="replace")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))  # only Windows knows the most
