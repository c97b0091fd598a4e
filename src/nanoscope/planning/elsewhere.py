"""Time and memory of a run on a device that is not here, from the table of devices. Nothing is measured.

A step does its arithmetic at the MFU that such runs are known to reach (hardware/assumed_mfu.py), moves what it touches
through memory, and starts its operations one after the other. The slowest of the three is the step; each has a range.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.hardware.assumed_mfu import AssumedMfu, assumed_mfu
from nanoscope.hardware.peaks import KnownDevice
from nanoscope.planning.memory import Memory, training_memory
from nanoscope.planning.work import StepWork, count_work
from nanoscope.training.initial_model import new_shape

Limit = Literal["arithmetic", "memory_bandwidth", "overhead"]

SPARE = 0.10  # of the memory, to be left free
RUNTIME_GB = 0.6  # of device memory that CUDA and its libraries take before the first tensor
MACOS_SHARE = 2 / 3  # of the memory that a Mac lets its GPU use
# What other operations than matmuls move, as a share of what each would move by itself: compiling fuses them.
FUSED = (0.3, 0.5, 0.8)
IN_EAGER_MODE = (0.8, 1.0, 1.2)
BANDWIDTH_REACHED = 0.8  # of the data sheet's
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
class Elsewhere:
    """What a configuration would take on a device."""

    device: KnownDevice
    dtype: str
    compiled: bool
    peak_flops: float | None
    """In that dtype; None if it is not known."""
    mfu: AssumedMfu | None
    """None if no run on such a device is known: then there are no times."""
    step_s: Range | None
    arithmetic_s: Range | None
    memory_s: Range
    overhead_s: Range
    limit: Limit | None
    micro_batch: int
    memory: Memory
    needed_bytes: int
    """At the peak, with what CUDA takes."""
    available_bytes: int
    fits: bool
    """With a tenth of the device's memory to spare."""
    largest_micro_batch: int
    """That fits, a divisor of the sequences of an iteration; 0: not even one sequence does."""

    @property
    def tokens_per_second(self) -> float | None:
        return None if self.step_s is None else self._tokens / self.step_s.expected

    _tokens: int = 0


def elsewhere(config: TrainConfig, vocab_size: int, device: KnownDevice) -> Elsewhere:
    """Estimate one iteration of a configuration on one device of this kind. `auto` is what `train` would choose there."""
    if device.kind == "tpu":
        raise UsageError("nanoscope does not train on TPUs: {device} is known for the logs of other trainers", device=device.name)  # fmt: skip
    dtype, compiled = chosen_dtype(config, device), chosen_compile(config, device)
    shape = new_shape(config, vocab_size)
    work = count_work(shape, config, config.batch_size, device.kind, dtype)
    memories = {n: training_memory(shape, config, n, device.kind, dtype) for n in (1, 2)}
    memory = _extrapolated(memories[1], memories[2], config.batch_size)
    runtime = round(RUNTIME_GB * 2**30) if device.kind == "cuda" else 0
    available = device.memory_gb * 2**30 * (MACOS_SHARE if device.kind == "mps" else 1)
    limit_bytes = (1 - SPARE) * available - runtime
    per_sequence = memories[2].peak - memories[1].peak
    most = int((limit_bytes - memories[1].peak) // per_sequence) + 1 if limit_bytes >= memories[1].peak else 0
    times = step_times(work, config.gradient_accumulation_steps, device, dtype, compiled, memories[1].parameters)
    return Elsewhere(
        device=device, dtype=dtype, compiled=compiled, peak_flops=device.flops(dtype), **times,
        micro_batch=config.batch_size, memory=memory, needed_bytes=memory.peak + runtime,
        available_bytes=round(available), fits=memory.peak <= limit_bytes,
        largest_micro_batch=largest_divisor(config.sequences_per_step, most), _tokens=config.tokens_per_step,
    )  # fmt: skip


def step_times(
    work: StepWork, passes: int, device: KnownDevice, dtype: str, compiled: bool, parameters: int
) -> dict[str, object]:
    """The time of an iteration and of its three parts, and which of them limits it."""
    peak, mfu = device.flops(dtype), assumed_mfu(device, parameters, compiled)
    whole = work.micro_batch * passes + work.update
    slowest = 1 / device.lowest_power
    arithmetic = None
    if peak is not None and mfu is not None:
        arithmetic = Range(*(whole.flops / peak / share for share in (mfu.high, mfu.expected, mfu.low)))
        arithmetic = replace(arithmetic, high=arithmetic.high * slowest)
    moved = whole.bytes / (device.bandwidth_gb_s * 1e9) / BANDWIDTH_REACHED
    memory = Range(*(moved * share for share in (FUSED if compiled else IN_EAGER_MODE)))
    started = whole.operations * (COMPILED_OPERATIONS if compiled else 1)
    overhead = Range(*(started * seconds for seconds in OPERATION_S))
    parts: dict[Limit, Range | None] = {"arithmetic": arithmetic, "memory_bandwidth": memory, "overhead": overhead}
    if arithmetic is None:
        return {"mfu": mfu, "step_s": None, "arithmetic_s": None, "memory_s": memory, "overhead_s": overhead, "limit": None}  # fmt: skip
    known = {name: part for name, part in parts.items() if part is not None}
    step = Range(*(max(getattr(part, end) for part in known.values()) for end in ("low", "expected", "high")))
    # At the assumed MFU, arithmetic includes the waiting for memory of the runs that it was seen in.
    at_peak = {"arithmetic": whole.flops / (peak or 1), "memory_bandwidth": memory.expected, "overhead": overhead.expected}
    limit = max(at_peak, key=lambda name: at_peak[name])
    return {"mfu": mfu, "step_s": step, "arithmetic_s": arithmetic, "memory_s": memory, "overhead_s": overhead, "limit": limit}  # fmt: skip


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


def largest_divisor(sequences: int, most: int) -> int:
    """The largest micro-batch up to `most` that divides the sequences of an iteration evenly."""
    return max((n for n in range(1, min(sequences, most) + 1) if sequences % n == 0), default=0)


def _extrapolated(one: Memory, two: Memory, micro_batch: int) -> Memory:
    """Memory is a constant and so much for each sequence."""
    values = {key: low + (vars(two)[key] - low) * (micro_batch - 1) for key, low in vars(one).items()}
    return Memory(**values)
