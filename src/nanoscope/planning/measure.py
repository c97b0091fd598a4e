"""What a step takes, from a few seconds of real ones: `plan`, `tune` and `bench` measure with this.

Each micro-batch and each update is timed by itself, so a long accumulation needn't be measured to its end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec
import numpy as np
import psutil
import torch

from nanoscope.config import TrainConfig, build
from nanoscope.config_sources import Resolved
from nanoscope.data.dataset import Dataset, TokenSplit, open_dataset
from nanoscope.data.loader import Batch, BatchLoader
from nanoscope.data.tokenizer import dtype_for
from nanoscope.hardware.memory import available_bytes
from nanoscope.model.checkpoint import TrainingState
from nanoscope.optim.schedule import learning_rate
from nanoscope.planning.request import with_shape_of_weights
from nanoscope.planning.rig import Facts, Figures, Job
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine, split
from nanoscope.training.evaluate import Evaluator, open_loader
from nanoscope.training.initial_model import initial_model
from nanoscope.training.machine import choose_machine
from nanoscope.training.pace import left_to_do
from nanoscope.training.phases import seconds_since_process_start
from nanoscope.training.resume import open_weights

ROUND_SHARE = 0.3  # of the time: the micro-batches before one update, so that there are several updates
RANDOM_TOKENS = 2**20  # of each split, if there is no data


class Workplace:
    """What `train` sets up before its first step, without a run: the machine, the data, and the initial weights.

    `data`: the folder of a prepared dataset; '': random tokens of a vocabulary of `vocab_size`.
    """

    def __init__(self, config: TrainConfig, data: str, vocab_size: int = 0) -> None:
        self.machine, _ = choose_machine(config, Processes())
        self.dataset = open_dataset(data) if data else random_tokens(vocab_size, config.block_size)
        self.weights = open_weights(config) if config.init_from != "scratch" else None

    def set_up(self, config: TrainConfig) -> tuple[Engine, BatchLoader]:
        """A new model with its engine and batches, as `train` would start with. The loader has to be closed."""
        torch.manual_seed(config.seed)
        model, config, _ = initial_model(config, self.dataset, self.machine, weights=self.weights)
        return Engine(config, model, self.machine), open_loader(config, self.dataset, TrainingState(), self.machine)

    def evaluator(self, engine: Engine, windows: int | None, *splits: Literal["train", "val"]) -> Evaluator:
        """Of both splits, or of those named."""
        return Evaluator(
            {name: self.dataset.split(name) for name in splits or ("train", "val")},
            block_size=engine.config.block_size,
            windows=windows,
            vocab_size=engine.plain_model.config.vocab_size,
            machine=self.machine,
            batch=engine.config.eval_batch_size,
        )


def random_tokens(vocab_size: int, block_size: int) -> Dataset:
    count = max(RANDOM_TOKENS, 2 * block_size + 2)
    ids = np.random.default_rng(0).integers(vocab_size, size=count).astype(dtype_for(vocab_size))
    split = TokenSplit({"random tokens": ids}, vocab_size)
    return Dataset(Path("random"), None, vocab_size, "random", {"train": split, "val": split})


@dataclass
class Timing:
    """Seconds of each repetition, in order."""

    micro_batch: int
    """Sequences of each micro-batch."""
    passes: list[float] = field(default_factory=list)
    """Forward and backward pass of a micro-batch."""
    update: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    """Waiting for the batches of a step."""

    def step_seconds(self, config: TrainConfig) -> float:
        """The median step, with all of its micro-batches."""
        count = config.sequences_per_step / self.micro_batch
        return median(self.data) + count * median(self.passes) + median(self.update)


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
        found.passes += done.passes
        found.update.append(done.update_seconds)
        most = max(2, int(ROUND_SHARE * seconds / median(done.passes)))
        step += 1
    return found


def serve(questions: Iterator[Any]) -> Iterator[Facts | Figures]:
    """The child of rig.py. The first question is the job, every other the seconds of a measurement."""
    job = msgspec.convert(next(questions), Job)
    config = build(job.config)
    left = left_to_do(config, 0)
    config = replace(with_shape_of_weights(Resolved(config, "", typed={}, given=job.config)), init_from="scratch")
    place = Workplace(config, job.data, job.vocab_size)
    engine, loader = place.set_up(config)
    evaluator = place.evaluator(engine, config.eval_windows)
    began = time.perf_counter()
    fastest = engine.warm_up().fastest
    compiling = time.perf_counter() - began if engine.compiled else 0.0
    startup = seconds_since_process_start()
    used = {"batch_size": engine.micro_batch, "dtype": place.machine.choice.dtype, "compile": engine.compiled}
    used |= {"threads": torch.get_num_threads(), "eval_batch_size": evaluator.batch}
    if job.limit_seconds and not engine.compiled:  # else compiled for whole micro-batches
        most = int(job.limit_seconds * fastest.sequences / fastest.seconds)
        engine.micro_batch = min(engine.micro_batch, max(most, 1))
    measure(engine, loader.next, 0.0)  # makes the optimizer's state
    device = place.machine.device
    crowded = 2 * peak_bytes(device) > available_bytes(device)
    yield Facts(device.type, str(place.machine.choice.device_name), used, startup, crowded)
    for seconds in questions:
        timing = measure(engine, loader.next, seconds)
        step, window = timing.step_seconds(config), window_seconds(evaluator, engine, seconds)
        run = compiling + left["step"] * step + left["eval"] * evaluator.windows * window
        yield Figures(step, window, run, len(timing.update), timing.micro_batch, peak_bytes(device))


def window_seconds(evaluator: Evaluator, engine: Engine, seconds: float) -> float:
    """The time of a window in an evaluation, from some seconds of one."""
    began, done = time.perf_counter(), 0

    def enough(batches: int, total: int) -> bool:
        nonlocal done
        done = batches
        return done > 0 and time.perf_counter() - began > seconds

    evaluator.evaluate(engine.plain_model, enough)
    return (time.perf_counter() - began) * evaluator.batches / done / evaluator.windows


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
