"""What a step takes, from a few seconds of real ones: `plan` and `tune` measure with this."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import psutil
import torch

from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.data.dataset import Dataset, TokenSplit, open_dataset
from nanoscope.data.loader import Batch
from nanoscope.data.tokenizer import dtype_for
from nanoscope.hardware.memory import available_bytes
from nanoscope.model.checkpoint import TrainingState
from nanoscope.optim.schedule import learning_rate
from nanoscope.planning.request import with_shape_of_weights
from nanoscope.planning.rig import Facts, Figures, Job
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine, split
from nanoscope.training.evaluate import Data, Evaluator
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

    def set_up(self, config: TrainConfig) -> tuple[Engine, Data]:
        """A new model with its engine and data, as `train` would start with. The data has to be closed."""
        torch.manual_seed(config.seed)
        model, config, _ = initial_model(config, self.dataset, self.machine, weights=self.weights)
        data = Data(config, self.dataset, self.machine, model.config.vocab_size, TrainingState())
        return Engine(config, model, self.machine), data


def random_tokens(vocab_size: int, block_size: int) -> Dataset:
    count = max(RANDOM_TOKENS, 2 * block_size + 2)
    ids = np.random.default_rng(0).integers(vocab_size, size=count).astype(dtype_for(vocab_size))
    split = TokenSplit({"random tokens": ids}, vocab_size)
    return Dataset(Path("random"), None, vocab_size, "random", {"train": split, "val": split})


def measure(engine: Engine, next_batches: Callable[[], list[Batch]], seconds: float) -> tuple[float, int]:
    """Train for about so many seconds, at least one step. Returns the seconds of a step and how many there were.

    Each wait for data, micro-batch and update counts by its median, so a long accumulation needn't be measured to its
    end. Weights change. The first step of an engine is slower, because it makes the optimizer's state: call this with 0
    seconds before.
    """
    waits: list[float] = []
    passes: list[float] = []
    updates: list[float] = []
    most, until = 2, time.perf_counter() + seconds
    while not updates or time.perf_counter() < until:
        began = time.perf_counter()
        batches = next_batches()
        waits.append(time.perf_counter() - began)
        whole = [part for part in split(batches, engine.micro_batch) if len(part[0]) == engine.micro_batch]
        rate = learning_rate(len(updates), engine.config)
        done = engine.step(whole[:most], len(updates), rate, timed=True)
        assert done is not None
        passes += done.passes
        updates.append(done.update_seconds)
        most = max(2, int(ROUND_SHARE * seconds / median(done.passes)))
    count = engine.config.sequences_per_step / engine.micro_batch
    return median(waits) + count * median(passes) + median(updates), len(updates)


def serve(questions: Iterator[Any]) -> Iterator[Facts | Figures]:
    """The child of rig.py. The first question is the job, every other the seconds of a measurement."""
    job = msgspec.convert(next(questions), Job)
    left = left_to_do(job.config, 0)
    shaped = with_shape_of_weights(Resolved(job.config, "", typed={}, given=vars(job.config)))
    config = replace(shaped, init_from="scratch")
    place = Workplace(config, job.data, job.vocab_size)
    engine, data = place.set_up(config)
    evaluator = data.evaluator
    began = time.perf_counter()
    seconds_each = engine.warm_up().seconds
    compiling = time.perf_counter() - began if engine.compiled else 0.0
    startup = seconds_since_process_start()
    used = {"batch_size": engine.micro_batch, "dtype": place.machine.choice.dtype, "compile": engine.compiled}
    used |= {"threads": torch.get_num_threads(), "eval_batch_size": evaluator.batch}
    if job.limit_seconds and not engine.compiled:  # else compiled for whole micro-batches
        most = int(job.limit_seconds / seconds_each)
        engine.micro_batch = min(engine.micro_batch, max(most, 1))
    measure(engine, data.loader.next, 0.0)  # makes the optimizer's state
    device = place.machine.device
    crowded = 2 * peak_bytes(device) > available_bytes(device)
    yield Facts(device.type, str(place.machine.choice.device_name), used, startup, crowded)
    for seconds in questions:
        step, steps = measure(engine, data.loader.next, seconds)
        window = window_seconds(evaluator, engine, seconds)
        run = compiling + left["step"] * step + left["eval"] * evaluator.windows * window
        yield Figures(step, window, run, steps, engine.micro_batch, peak_bytes(device))


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
