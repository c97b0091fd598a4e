"""The child process of steps.py: reads a job from standard input, trains for some seconds, prints what it measured.

It sets up what `nanoscope train` sets up, in the same order: what must be set before torch is imported, the machine,
the model, the optimizer, the warm-up. Its run folder is temporary, and its parent's.
"""

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import psutil

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, UsageError
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.planning.steps import Job, StepTimes
from nanoscope.training.phases import seconds_since_process_start

if TYPE_CHECKING:
    import torch

    from nanoscope.data.dataset import Dataset
    from nanoscope.data.loader import BatchLoader
    from nanoscope.training.engine import Engine, WarmUp
    from nanoscope.training.evaluate import Evaluator
    from nanoscope.training.machine import Machine
    from nanoscope.training.run_folder import RunFolder

RANDOM_TOKENS = 2**20  # of each split, if there is no data
ROUND_SHARE = 0.3  # of the time for steps: the micro-batches before one update, so that there are several updates
LONGEST_SHARE = 0.8  # a micro-batch that takes longer is measured with fewer sequences
LONG_PASS_SECONDS = 1.0  # starting operations takes no part of such a pass that could be told
EVAL_SHARE = 0.3


def main() -> None:
    job, config = begin(sys.stdin.buffer.read())
    try:
        found = _measured(job, config)
    except (JobError, UsageError, RuntimeError, MemoryError) as error:
        problem, out_of_memory = problem_of(error)
        found = StepTimes(problem=problem, out_of_memory=out_of_memory)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(found) + b"\n")
    sys.stdout.flush()
    os._exit(0)  # nothing to clean up, and a thread of torch's may not end by itself


def begin(line: bytes) -> tuple[Job, TrainConfig]:
    """Read the job, and do what has to happen before torch is imported."""
    job = msgspec.json.decode(line, type=Job)
    threading.Thread(target=_end_with_parent, args=(job,), daemon=True).start()
    config = job.train_config()
    make_cpu_ready(config.device, config.dtype, training=True)
    return job, config


def problem_of(error: Exception) -> tuple[str, bool]:
    """Why the settings can't be measured, and whether memory is the reason. Raises what is no such reason."""
    from nanoscope.hardware.memory import DoesNotFitError, is_out_of_memory

    if isinstance(error, JobError | UsageError):
        return str(error).splitlines()[0], isinstance(error, DoesNotFitError)
    if not is_out_of_memory(error):
        raise error
    return "out of memory", True


def _end_with_parent(job: Job) -> None:
    """End this process if its parent is gone without having ended it."""
    while os.getppid() == job.parent:
        time.sleep(0.5)
    shutil.rmtree(job.folder, ignore_errors=True)
    os._exit(1)


@dataclass(frozen=True)
class Session:
    config: TrainConfig
    machine: "Machine"
    engine: "Engine"
    loader: "BatchLoader"
    evaluator: "Evaluator"
    folder: "RunFolder"


@dataclass(frozen=True)
class SetUp:
    """A session that is ready for its first iteration, and what it took to get there."""

    session: "Session"
    warmed_up: "WarmUp"
    notes: list[str]
    process_bytes: int
    model_bytes: int
    warm_up_seconds: float
    startup_seconds: float


def set_up(job: Job, config: TrainConfig) -> SetUp:
    import torch

    from nanoscope.model.checkpoint import TrainingState
    from nanoscope.training.data import Data
    from nanoscope.training.distributed import Processes
    from nanoscope.training.engine import Engine
    from nanoscope.training.initial_model import initial_model
    from nanoscope.training.machine import choose_machine
    from nanoscope.training.run_folder import RunFolder
    from nanoscope.training.startup import check_tokens

    machine, notes = choose_machine(config, Processes())
    dataset = _dataset(job, config)
    check_tokens(dataset, config.block_size)
    process_bytes = used(machine.device)
    torch.manual_seed(config.seed)
    model, config, more = initial_model(config, dataset, machine)
    engine = Engine(config, model, machine)
    model_bytes = used(machine.device)
    data = Data(config, dataset, machine, model.config.vocab_size, TrainingState())
    session = Session(config, machine, engine, data.loader, data.evaluator, RunFolder(Path(job.folder)))
    began = time.perf_counter()
    warmed_up = engine.warm_up()
    return SetUp(
        session,
        warmed_up,
        [str(note) for note in [*notes, *more]],
        process_bytes,
        model_bytes,
        time.perf_counter() - began,
        seconds_since_process_start(),
    )


def _measured(job: Job, config: TrainConfig) -> StepTimes:
    import torch

    from nanoscope.training.forecast import first_seconds

    ready = set_up(job, config)
    session, fastest = ready.session, ready.warmed_up.fastest
    machine, learner = session.machine, session.engine
    began = time.perf_counter()
    expected = first_seconds(learner, session.evaluator, ready.warmed_up)
    startup_seconds = ready.startup_seconds + time.perf_counter() - began
    steps = _Steps(session, job.seconds, fastest.seconds / fastest.sequences)
    steps.run(halves=job.halves)
    eval_seconds = _evaluate(session, EVAL_SHARE * job.seconds, fastest.seconds / fastest.sequences / 3)
    save_seconds, checkpoint_bytes = _save(session) if job.save else (None, None)
    session.loader.close()
    return StepTimes(
        device=machine.choice.device,
        device_name=str(machine.choice.device_name),
        dtype=machine.choice.dtype,
        compiled=learner.model is not learner.plain_model,
        threads=torch.get_num_threads(),
        notes=ready.notes,
        peak_flops=machine.peak[0],
        peak_source=str(machine.peak[1]),
        parameters=learner.plain_model.parameter_count(),
        flops_per_token=learner.flops_per_token,
        micro_batch=steps.micro_batch,
        first_seconds=steps.first,
        later_seconds=steps.later,
        half_seconds=steps.halves,
        update_seconds=steps.updates,
        data_seconds=steps.data,
        eval_batch=session.evaluator.batch,
        eval_seconds=eval_seconds,
        save_seconds=save_seconds,
        checkpoint_bytes=checkpoint_bytes,
        startup_seconds=startup_seconds,
        sample_seconds=expected["sample"],
        warm_up_seconds=ready.warm_up_seconds,
        process_bytes=ready.process_bytes,
        model_bytes=ready.model_bytes,
        trained_bytes=steps.trained_bytes,
        peak_bytes=peak(machine.device),
    )


def _dataset(job: Job, config: TrainConfig) -> "Dataset":
    """The prepared dataset, or random tokens."""
    import numpy as np

    from nanoscope.data.dataset import Dataset, TokenSplit, open_dataset
    from nanoscope.data.tokenizer import dtype_for

    if job.data is not None:
        return open_dataset(job.data)
    count = max(RANDOM_TOKENS, 2 * config.block_size + 2)
    ids = np.random.default_rng(0).integers(job.vocab_size, size=count).astype(dtype_for(job.vocab_size))
    split = TokenSplit.in_memory(ids, job.vocab_size, "random tokens")
    return Dataset(Path("random"), None, job.vocab_size, "random", {"train": split, "val": split})


class _Steps:
    """Iterations as the trainer does them, but with each micro-batch and each update timed by itself."""

    def __init__(self, session: "Session", seconds: float, seconds_per_sequence: float) -> None:
        self.session, self.seconds = session, seconds
        config, learner = session.config, session.engine
        compiled = learner.model is not learner.plain_model  # for whole micro-batches
        most = max(1, int(LONGEST_SHARE * seconds / seconds_per_sequence))
        self.micro_batch = config.batch_size if compiled else min(config.batch_size, most)
        self.first: list[float] = []
        self.later: list[float] = []
        self.halves: list[float] = []
        self.updates: list[float] = []
        self.data: list[float] = []
        self.trained_bytes = 0

    def run(self, *, halves: bool) -> None:
        until = time.perf_counter() + (0.75 if halves else 1.0) * self.seconds
        step = 0
        while step < 2 or time.perf_counter() < until:
            self._iterate(step)
            if step == 0:
                self.trained_bytes = used(self.session.machine.device)
                if time.perf_counter() > until + self.seconds:
                    break
                # The first iteration made the optimizer's state and filled caches: it counts if it is the only one.
                self.first, self.later, self.updates, self.data = [], [], [], []
            step += 1
        if halves and self.micro_batch > 1 and median(self.first) < LONG_PASS_SECONDS:
            self._measure_halves(time.perf_counter() + 0.25 * self.seconds)

    def _iterate(self, step: int) -> None:
        from nanoscope.training.engine import split

        learner = self.session.engine
        began = time.perf_counter()
        batches = self.session.loader.next()
        self.data.append(time.perf_counter() - began)
        until = began + ROUND_SHARE * self.seconds
        for number, batch in enumerate(split(batches, self.micro_batch)):
            if number >= 2 and time.perf_counter() > until:
                break
            before = time.perf_counter()
            learner.passes([batch], step)
            self.session.machine.synchronize()
            if len(batch[0]) == self.micro_batch:
                (self.later if number else self.first).append(time.perf_counter() - before)
        before = time.perf_counter()
        update(self.session, step)
        self.session.machine.synchronize()
        self.updates.append(time.perf_counter() - before)

    def _measure_halves(self, until: float) -> None:
        from nanoscope.training.engine import split

        learner = self.session.engine
        while len(self.halves) < 3 or time.perf_counter() < until:
            for batch in split(self.session.loader.next(), self.micro_batch // 2):
                before = time.perf_counter()
                learner.passes([batch], 0)
                self.session.machine.synchronize()
                if len(batch[0]) == self.micro_batch // 2:
                    self.halves.append(time.perf_counter() - before)
                learner.zero_grad()
                if time.perf_counter() > until and len(self.halves) >= 3:
                    break


def update(session: "Session", step: int) -> None:
    """Clip and step, as the trainer does."""
    from nanoscope.optim.schedule import learning_rate

    session.engine.update(learning_rate(step, session.config))


def _evaluate(session: "Session", seconds: float, seconds_per_sequence: float) -> list[float]:
    """The seconds of each whole batch of an evaluation, for some time. If these are long, the batches are smaller."""
    import torch

    model, evaluator, found = session.engine.plain_model, session.evaluator, [0.0]
    evaluator.batch = min(evaluator.batch, max(1, int(seconds / seconds_per_sequence)))
    model.eval()
    until = time.perf_counter() + seconds
    with torch.no_grad():
        before = time.perf_counter()
        for losses in evaluator.window_losses(model, "train"):
            session.machine.synchronize()
            now = time.perf_counter()
            if len(losses) == evaluator.batch or len(found) == 1:
                found.append((now - before) * evaluator.batch / len(losses))
            if now > until and len(found) > 2:
                break
            before = now
    model.train()
    return found[2:] or found[1:]  # the first one also allocates


def _save(session: "Session") -> tuple[float, int]:
    """The seconds of a save, as the trainer does it, and the size of what it has written."""
    from nanoscope.model.checkpoint import TrainingState
    from nanoscope.training.checkpoint import CheckpointWriter, take_snapshot

    before, engine = time.perf_counter(), session.engine
    snapshot = take_snapshot(
        engine.plain_model, engine.optimizer, TrainingState(step=1), scaler={}, tokenizer=None, run={}, settings={}
    )
    CheckpointWriter(session.folder, 1).save(snapshot)
    seconds = time.perf_counter() - before
    files = session.folder.checkpoints.rglob("*")
    return seconds, sum(file.stat().st_size for file in files if file.is_file())


def used(device: "torch.device") -> int:
    """The memory that this process has now: of the device, which for a CPU is the process's own."""
    import torch

    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    return int(psutil.Process().memory_info().rss)


def peak(device: "torch.device") -> int:
    """The most memory that this process had."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    with suppress(OSError, StopIteration):  # ru_maxrss may be the parent's: it outlives exec
        status = Path("/proc/self/status").read_text("ascii", errors="replace")
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):
        return int(memory.peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


if __name__ == "__main__":
    main()
