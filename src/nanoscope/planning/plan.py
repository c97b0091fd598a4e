"""What a run will take on this machine: memory by part for each batch split, time, disk, and what limits its speed.

Memory is counted on fake tensors (memory.py); if that fits, a few seconds of real steps are measured (steps.py), and
correct it. The rest of the run follows by the rules that `train` uses for its own forecast.
"""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec
import torch

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError
from nanoscope.hardware.device import MEASURED, Choice, set_up_device
from nanoscope.hardware.memory import available_bytes
from nanoscope.messages import Text
from nanoscope.model.flops import mfu
from nanoscope.planning.advice import advice
from nanoscope.planning.elsewhere import divisors
from nanoscope.planning.figures import DiskPlan, MemoryPlan, Plan, Split, TimePlan
from nanoscope.planning.limits import judge
from nanoscope.planning.memory import Memory, training_memory
from nanoscope.planning.request import Request
from nanoscope.planning.steps import StepTimes, measure_steps
from nanoscope.training.forecast import save_seconds
from nanoscope.training.memory import MUCH, PROCESS_BYTES
from nanoscope.training.pace import Pace, left_to_do

SECONDS = 6.0  # of steps that are measured
LOADED_BYTES = 135 << 20  # of libraries and buffers that the first iterations load (benchmarks/LOG.md)
STALL = 1.25  # times the median
LONGEST_SAVE = 4e9  # bytes of a checkpoint that is written to measure it
# What the measuring process does not do (benchmarks/LOG.md): print and log an iteration; load the command line, open
# the files of the run, and end. The latter as a share of its own start-up without the warm-up.
LINE_SECONDS, COMMAND_SHARE = 0.0005, 0.2

Report = Callable[[Text], None]


def plan_here(request: Request, *, seconds: float = SECONDS, report: Report) -> Plan:
    """Plan for this machine."""
    config = request.config
    choice, notes = set_up_device(
        config.device,
        config.dtype,
        config.compile,
        threads=config.threads,
        training=True,
        planned_steps=config.max_iters,
    )
    report(Text("counting the memory of an iteration"))
    counted = memory_of_splits(request, choice)
    available = available_bytes(torch.device(choice.device))
    process = Process(PROCESS_BYTES if choice.type == "cpu" else 0)
    memory = memory_plan(config, counted, process, available, measured=False)
    if not memory.fits:
        most = int(MUCH * available) - process.fixed
        sizes = (size for size in divisors(config.sequences_per_step) if _counted(request, choice, size).peak <= most)
        if (largest := next(sizes, None)) is not None:
            counted = {size: _counted(request, choice, size) for size in sorted({*counted, largest})}
            memory = memory_plan(config, counted, process, available, measured=False)
        return assemble(request, choice, counted, memory, None, notes)
    report(Text("measuring {seconds:.0f} seconds of real steps in a process of their own", seconds=seconds))
    times = measure_steps(
        config,
        vocab_size=request.data.vocab_size,
        data=request.data.folder,
        seconds=seconds,
        halves=True,
        save_in=_disk(config) if _can_save(config, counted) else None,
    )
    if times.out_of_memory:
        return assemble(request, choice, counted, msgspec.structs.replace(memory, fits=False), None, notes)
    if not times.works:
        raise JobError("can't measure steps of this configuration: {problem}", problem=times.problem)
    if times.save_seconds is None:  # too large to try: as the latest saves to this disk
        size = counted[config.batch_size].weights + counted[config.batch_size].optimizer
        times = msgspec.structs.replace(times, save_seconds=save_seconds(size))
    process = Process.measured(times, _counted(request, choice, times.micro_batch))
    memory = memory_plan(config, counted, process, available, measured=True)
    return assemble(request, choice, counted, memory, times, notes)


@dataclass(frozen=True)
class Process:
    """What a process takes besides its tensors: a fixed part, and what it loses between tensors of many sizes."""

    fixed: int
    share: float = 0.0

    @classmethod
    def measured(cls, times: StepTimes, counted: Memory) -> "Process":
        """By what was measured with the micro-batch that was counted."""
        besides = max(times.peak_bytes - counted.peak, 0)
        fixed = min(besides, times.process_bytes + LOADED_BYTES)
        return cls(fixed, (besides - fixed) / counted.peak)

    def bytes(self, memory: Memory) -> int:
        return self.fixed + round(self.share * memory.peak)


def splits(config: TrainConfig) -> list[int]:
    """Micro-batches that divide the sequences of an iteration: the configured one, half, twice, … and one sequence."""
    size, possible = config.batch_size, divisors(config.sequences_per_step)
    wanted = [1, size / 4, size / 2, size, 2 * size, 4 * size]
    return sorted({min(possible, key=lambda each: abs(math.log(each / max(near, 1)))) for near in wanted})


def memory_of_splits(request: Request, choice: Choice) -> dict[int, Memory]:
    return {size: _counted(request, choice, size) for size in splits(request.config)}


def _counted(request: Request, choice: Choice, micro_batch: int) -> Memory:
    config = replace(request.config, compile=choice.compile)
    return training_memory(request.shape, config, micro_batch, choice.type, choice.dtype)


def memory_plan(
    config: TrainConfig, counted: dict[int, Memory], process: Process, available: int, *, measured: bool
) -> MemoryPlan:
    """What was counted, with what the process takes besides, against what there is."""

    def fits(memory: Memory) -> bool:
        return memory.peak + process.bytes(memory) <= MUCH * available

    own = counted[config.batch_size]
    return MemoryPlan(
        weight_bytes=own.weights,
        gradient_bytes=own.gradients,
        optimizer_bytes=own.optimizer,
        activation_bytes=own.activations,
        logit_bytes=own.logits,
        process_bytes=process.bytes(own),
        peak_bytes=own.peak + process.bytes(own),
        available_bytes=available,
        fits=fits(own),
        measured=measured,
        splits=[
            Split(
                batch_size=size,
                gradient_accumulation_steps=config.sequences_per_step // size,
                activation_bytes=each.activations,
                logit_bytes=each.logits,
                peak_bytes=each.peak + process.bytes(each),
                fits=fits(each),
            )
            for size, each in counted.items()
        ],
    )


def time_plan(request: Request, times: StepTimes) -> TimePlan:
    """The whole command, by the rules of the forecast that `train` prints."""
    config = request.config
    step, usual_step = times.step_seconds(config), times.step_seconds(config, without_stalls)
    evaluation = request.eval_windows * times.eval_seconds_per_sequence
    left = left_to_do(config, request.done)
    startup = times.startup_seconds + COMMAND_SHARE * (times.startup_seconds - times.warm_up_seconds)
    pace = Pace(
        config,
        step=usual_step + LINE_SECONDS / config.log_interval,
        eval=evaluation,
        checkpoint=times.save_seconds,
        sample=times.sample_seconds,
    )
    expected = pace.forecast(request.done, measured=len(times.update_seconds))
    judged = judge(times, step, config.block_size)
    speed = config.tokens_per_step / step
    source = MEASURED if times.peak_source == MEASURED else times.peak_source
    return TimePlan(
        step_seconds=step,
        tokens_per_second=speed,
        mfu=mfu(speed, times.flops_per_token, times.peak_flops),
        mfu_peak_flops=times.peak_flops,
        mfu_source=source,
        evaluation_seconds=evaluation,
        evaluations=left.eval,
        checkpoint_seconds=times.save_seconds,
        checkpoints=math.ceil(left.checkpoint),
        sample_seconds=times.sample_seconds,
        samples=left.sample,
        startup_seconds=startup,
        seconds=startup + (expected.seconds or 0.0),
        seconds_low=startup + (expected.seconds_low or 0.0),
        seconds_high=startup + (expected.seconds_high or 0.0),
        measured=True,
        limit=judged.limit,
        limit_reason=judged.reason,
    )


def without_stalls(seconds: Sequence[float]) -> float:
    """The mean, without repetitions that stand out: something else had the processor then."""
    most = STALL * median(seconds)
    return mean(each for each in seconds if each <= most)


def disk_plan(config: TrainConfig, checkpoint_bytes: int, saves: int, free: int | None) -> DiskPlan:
    kept = saves if config.keep_checkpoints == 0 else min(saves, config.keep_checkpoints + 1)  # and the best
    needed = checkpoint_bytes * (kept + (saves > kept))
    fits = free is None or needed <= free
    return DiskPlan(checkpoint_bytes=checkpoint_bytes, bytes=needed, free_bytes=free, fits=fits)


def assemble(
    request: Request,
    choice: Choice,
    counted: dict[int, Memory],
    memory: MemoryPlan,
    times: StepTimes | None,
    notes: list[str],
) -> Plan:
    config, own = request.config, counted[request.config.batch_size]
    time = time_plan(request, times) if times else None
    size = (times and times.checkpoint_bytes) or own.weights + own.optimizer
    saves = math.ceil(left_to_do(config, request.done).checkpoint)
    disk = disk_plan(config, size, saves, shutil.disk_usage(_disk(config)).free)
    return Plan(
        **common(request, own.parameters),
        device=choice.device,
        device_name=choice.device_name,
        here=True,
        dtype=times.dtype if times else choice.dtype,
        compiled=times.compiled if times else choice.compile,
        threads=times.threads if times and choice.type == "cpu" else None,
        memory=memory,
        time=time,
        disk=disk,
        notes=notes,
        advice=advice(request, memory, disk, time, times),
    )


def common(request: Request, parameters: int) -> dict[str, Any]:
    """The figures that depend on the configuration alone."""
    config, data = request.config, request.data
    tokens = config.max_iters * config.tokens_per_step
    return {
        "name": request.name,
        "recipe": request.shape.recipe,
        "parameters": parameters,
        "batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "tokens_per_step": config.tokens_per_step,
        "done": request.done,
        "steps": max(config.max_iters - request.done, 0),
        "tokens": tokens,
        "tokens_per_parameter": tokens / parameters,
        "data": data.name,
        "prepared": data.folder is not None,
        "vocab_size": data.vocab_size,
        "train_tokens": data.train_tokens,
        "epochs": tokens / data.train_tokens if data.train_tokens else None,
    }


def _can_save(config: TrainConfig, counted: dict[int, Memory]) -> bool:
    own = counted[config.batch_size]
    size, folder = own.weights + own.optimizer, _disk(config)
    return size < min(LONGEST_SAVE, shutil.disk_usage(folder).free / 2) and os.access(folder, os.W_OK)


def _disk(config: TrainConfig) -> Path:
    """The nearest folder that exists above the one that the run will have."""
    path = Path(config.out_dir or "runs").absolute()
    return next(folder for folder in (path.parent, *path.parents) if folder.is_dir())
