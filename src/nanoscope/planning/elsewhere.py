"""Time and memory of a run on a device that is not here, from the table of devices. Nothing is measured.

A step does its arithmetic at the MFU that such runs are known to reach (hardware/assumed_mfu.py), moves what it touches
through memory, and starts its operations one after the other. The slowest of the three is the step; each has a range.
"""

import math
import re
from dataclasses import dataclass, replace

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.hardware.assumed_mfu import AssumedMfu, assumed_mfu
from nanoscope.hardware.peaks import KnownDevice
from nanoscope.model import ModelConfig
from nanoscope.planning.limits import Limit
from nanoscope.planning.memory import Memory, training_memory
from nanoscope.planning.work import StepWork, count_work
from nanoscope.training.memory import MUCH

CUDA_BYTES = 600 << 20  # of device memory that CUDA and its libraries take before the first tensor
MACOS_SHARE = 2 / 3  # of the memory that a Mac lets its GPU use
# What operations other than matmuls move, as a share of what each would move by itself at the data sheet's bandwidth:
# they reach less than that bandwidth, and compiling fuses them. Assumed, not measured.
FUSED = (0.3, 0.6, 1.0)
IN_EAGER_MODE = (1.0, 1.25, 1.5)
OPERATION_S = (5e-6, 10e-6, 20e-6)  # to start one from Python; assumed, not measured: it depends on the CPU
COMPILED_OPERATIONS = 0.4  # kernels that compiling leaves of them
PASCAL = re.compile(r"\bP\d+\b|GTX 10|TITAN Xp")  # too old for Triton, as `auto` knows


@dataclass(frozen=True)
class Range:
    """Seconds, with the lowest and the highest that the assumptions allow."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True)
class Times:
    """The parts of an iteration, in seconds. Without a known peak and MFU there is only the least that it can take."""

    least_s: float
    """At the device's full peak, bandwidth and speed of starting operations, whichever takes longest."""
    step_s: Range | None
    arithmetic_s: Range | None
    memory_s: Range
    overhead_s: Range
    limit: Limit
    mfu: AssumedMfu | None
    """None if no run on such a device is known."""


@dataclass(frozen=True)
class Elsewhere:
    """What a configuration would take on a device."""

    device: KnownDevice
    dtype: str
    compiled: bool
    peak_flops: float | None
    """In that dtype; None if it is not known."""
    times: Times
    memory: Memory
    process_bytes: int
    """What CUDA and its libraries take besides."""
    available_bytes: int
    fits: bool
    """With a tenth of the device's memory to spare."""
    largest_micro_batch: int
    """That fits and divides the sequences of an iteration; 0: not even one sequence does."""


def elsewhere(config: TrainConfig, shape: ModelConfig, device: KnownDevice) -> Elsewhere:
    """Estimate an iteration on one device of this kind. `auto` is what `train` would choose there."""
    if device.kind == "tpu":
        raise UsageError(
            "nanoscope does not train on TPUs; {device} is known only for logs of other trainers", device=device.name
        )
    dtype, compiled = chosen_dtype(config, device), chosen_compile(config, device)
    config = replace(config, compile=compiled)
    available = round(device.memory_gb * 2**30 * (MACOS_SHARE if device.kind == "mps" else 1))
    process = CUDA_BYTES if device.kind == "cuda" else 0

    def memory(micro_batch: int) -> Memory:
        return training_memory(shape, config, micro_batch, device.kind, dtype)

    def fits(micro_batch: int) -> bool:
        return memory(micro_batch).peak + process <= MUCH * available

    work = count_work(shape, config, config.batch_size, device.kind, dtype)
    own = memory(config.batch_size)
    return Elsewhere(
        device=device,
        dtype=dtype,
        compiled=compiled,
        peak_flops=device.flops(dtype),
        times=step_times(work, config.gradient_accumulation_steps, device, dtype, compiled),
        memory=own,
        process_bytes=process,
        available_bytes=available,
        fits=fits(config.batch_size),
        largest_micro_batch=next((n for n in divisors(config.sequences_per_step) if fits(n)), 0),
    )


def step_times(work: StepWork, passes: int, device: KnownDevice, dtype: str, compiled: bool) -> Times:
    """The time of an iteration with so many forward and backward passes."""
    peak, mfu = device.flops(dtype), assumed_mfu(device, work.multiplied_parameters, compiled)
    whole = work.micro_batch * passes + work.update
    moved = whole.bytes / (device.bandwidth_gb_s * 1e9)
    memory = Range(*(moved * share for share in (FUSED if compiled else IN_EAGER_MODE)))
    started = whole.operations * (COMPILED_OPERATIONS if compiled else 1)
    overhead = Range(*(started * seconds for seconds in OPERATION_S))
    at_peak = whole.flops / peak if peak else 0.0
    slow = at_peak / device.lowest_power
    arithmetic = Range(at_peak / mfu.high, at_peak / mfu.expected, slow / mfu.low) if peak and mfu else None
    return Times(
        least_s=max(at_peak, memory.low, overhead.low),
        step_s=arithmetic and _slowest(arithmetic, memory, overhead),
        arithmetic_s=arithmetic,
        memory_s=memory,
        overhead_s=overhead,
        mfu=mfu,
        # At the assumed MFU, arithmetic includes what the runs that it was seen in waited for.
        limit=_largest({"arithmetic": at_peak, "memory": memory.expected, "overhead": overhead.expected}),
    )


def _slowest(*parts: Range) -> Range:
    return Range(max(p.low for p in parts), max(p.expected for p in parts), max(p.high for p in parts))


def _largest(seconds: dict[Limit, float]) -> Limit:
    return max(seconds, key=lambda name: seconds[name])


def chosen_dtype(config: TrainConfig, device: KnownDevice) -> str:
    """What `auto` means there; a dtype that was asked for stays."""
    if config.dtype != "auto":
        return config.dtype
    if device.kind == "mps":
        return "float32"
    return "bfloat16" if device.bf16_tflops else "float16" if device.fp16_tflops else "float32"


def chosen_compile(config: TrainConfig, device: KnownDevice) -> bool:
    """What `auto` means there for a run that is long enough to repay compiling."""
    if config.compile != "auto":
        return config.compile
    return device.kind == "cuda" and PASCAL.search(device.name) is None


def divisors(sequences: int) -> list[int]:
    """Micro-batches that divide the sequences of an iteration evenly, the largest first."""
    small = [n for n in range(1, math.isqrt(sequences) + 1) if sequences % n == 0]
    return sorted({*small, *(sequences // n for n in small)}, reverse=True)
