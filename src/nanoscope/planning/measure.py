"""What a step takes, from a few seconds of real ones: `plan`, `tune` and `bench` measure with this.

Each micro-batch and each update is timed by itself, so a long accumulation needn't be measured to its end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psutil
import torch

from nanoscope.config import TrainConfig, build
from nanoscope.data.loader import Batch
from nanoscope.optim.schedule import learning_rate
from nanoscope.planning.set_up import Workplace
from nanoscope.training.engine import Engine, split
from nanoscope.training.forecast import first_seconds
from nanoscope.training.phases import seconds_since_process_start

ROUND_SHARE = 0.3  # of the time: the micro-batches before one update, so that there are several updates
LONGEST_SHARE = 0.8  # of the time: a micro-batch that takes longer is measured with fewer sequences


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


class Job(msgspec.Struct):
    """`data`: the folder of a prepared dataset; '': random tokens of a vocabulary of `vocab_size`."""

    config: dict[str, Any]
    data: str
    vocab_size: int
    seconds: float


class Measured(msgspec.Struct, frozen=True):
    """What a child found out about a configuration."""

    timing: Timing
    seconds: dict[str, float | None]
    """Expected of a checkpoint and a sample."""
    window_seconds: float
    """Of an evaluation."""
    startup_seconds: float
    compiled: bool
    peak_bytes: int
    flops_per_token: int
    peak_flops: float | None
    peak_source: str


def serve(questions: Iterator[Any]) -> Iterator[Measured]:
    """For child.py: set up what `train` sets up, train for a few seconds, and keep nothing."""
    job = msgspec.convert(next(questions), Job)
    config = build(job.config | {"init_from": "scratch"})
    workplace = Workplace(config, job.data, job.vocab_size)
    parts = workplace.set_up(config)
    engine, next_batches = parts.engine, parts.loader.next
    engine.notify = _out_of_memory
    evaluator = workplace.evaluator(engine, None, "train", "val")
    warm = engine.warm_up()
    seconds = first_seconds(engine, evaluator, warm)
    startup, began = seconds_since_process_start(), time.perf_counter()
    if not engine.compiled:  # else compiled for whole micro-batches
        most = int(LONGEST_SHARE * job.seconds * warm.fastest.sequences / warm.fastest.seconds)
        engine.micro_batch = min(engine.micro_batch, max(most, 1))
    timing = measure(engine, next_batches, 0)
    if time.perf_counter() - began < job.seconds:
        timing = measure(engine, next_batches, job.seconds)
    yield Measured(
        timing,
        seconds,
        (seconds["eval"] or 0.0) / sum(evaluator.shares),
        startup,
        engine.compiled,
        peak_bytes(engine.machine.device),
        engine.flops_per_token,
        *engine.machine.peak,
    )


def _out_of_memory(before: int, now: int) -> None:
    raise MemoryError


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
