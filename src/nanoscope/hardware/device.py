"""The device, dtype and mode of a run, and why. Looking at the machine is separate from deciding."""

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from nanoscope.errors import UsageError
from nanoscope.files import cache_folder, write_atomically
from nanoscope.hardware.peaks import find_device
from nanoscope.hardware.probe import cpu_name, fast_bfloat16
from nanoscope.messages import Count, Joined, Text

SAFE = Text("the safe choice")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Facts:
    """What this machine and this build of torch offer."""

    cuda_names: tuple[str, ...] = ()
    cuda_capabilities: tuple[tuple[int, int], ...] = ()
    mps: bool = False
    triton: bool = False
    cpu_name: str = "CPU"
    cpu_threads: int = 1
    torch_has_cuda: bool = False
    cpu_bfloat16: bool = False  # fast
    cpu_dtype_before: str | None = None  # of a run that is resumed
    torchrun: bool = False  # started this process, which sees the GPUs of all


@dataclass(frozen=True)
class Choice:
    """What a run uses; `reasons` explains everything that was chosen automatically."""

    device: str
    device_name: str
    dtype: str
    compile: bool
    reasons: Joined

    @property
    def type(self) -> str:
        return self.device.partition(":")[0]


def look(*, training: bool = False, before: str | None = None) -> Facts:
    """Return what torch and the system report. Only training asks whether the CPU is fast in bfloat16.

    `before`: the dtype that the run, which is resumed, has used on a CPU.
    """
    cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else range(0)
    mps = torch.backends.mps.is_available()
    return Facts(
        cuda_names=tuple(torch.cuda.get_device_name(i) for i in cuda),
        cuda_capabilities=tuple(torch.cuda.get_device_capability(i) for i in cuda),
        mps=mps,
        triton=importlib.util.find_spec("triton") is not None,
        cpu_name=cpu_name(),
        cpu_threads=torch.get_num_threads(),
        torch_has_cuda=torch.version.cuda is not None,
        cpu_bfloat16=training and not cuda and not mps and fast_bfloat16(before),
        cpu_dtype_before=before,
        torchrun="TORCHELASTIC_RUN_ID" in os.environ,
    )


COMPILING_PAYS_AFTER = 300  # iterations on a GPU: compiling takes a minute and saves tenths of a second per iteration


def decide(
    device: str,
    dtype: str,
    compile: bool | str,
    facts: Facts,
    local_rank: int | None = None,
    planned_steps: int = COMPILING_PAYS_AFTER,
) -> Choice:
    """Resolve 'auto'; UsageError for a device that this machine does not have."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", device):
        raise UsageError("invalid device {device!r}: expected auto, cpu, cuda, cuda:N or mps", device=device)
    if dtype not in ("auto", *DTYPES):
        raise UsageError("invalid dtype {dtype!r}: expected auto, {dtypes}", dtype=dtype, dtypes=", ".join(DTYPES))
    device_reason = dtype_reason = compile_reason = ""  # only a choice needs one, a request does not
    kind, _, index = device.partition(":")
    if kind == "auto":
        kind = "cuda" if facts.cuda_names else "mps" if facts.mps else "cpu"
        device_reason = Text("no CUDA or MPS found") if kind == "cpu" else Text("the fastest here")
    number = int(index or 0) if local_rank is None else local_rank  # each process has its own GPU
    if local_rank is not None and len(facts.cuda_names) == 1 and not facts.torchrun:
        number = 0  # SLURM can show each process only its own
    place, name = _find(kind, number, facts)
    capability = facts.cuda_capabilities[number] if kind == "cuda" else (0, 0)
    if dtype == "auto":
        dtype, dtype_reason = _best_dtype(kind, capability, name, facts)
    if compile == "auto":
        compile, compile_reason = _compile_pays(kind, capability, facts.triton, planned_steps)
    mode = Text("compiled") if compile else Text("eager")
    chosen = {place: device_reason, dtype: dtype_reason, mode: compile_reason}
    reasons = Joined(
        ", ",
        (Text("{choice} ({reason})", choice=each, reason=why) if why else each for each, why in chosen.items()),
    )
    return Choice(place, name, dtype, bool(compile), reasons)


def _find(kind: str, number: int, facts: Facts) -> tuple[str, str]:
    """Return torch's name of a device and the name of its model."""
    if kind == "cpu":
        return "cpu", Text("{cpu}, {threads:d} threads", cpu=facts.cpu_name, threads=facts.cpu_threads)
    advice = Text("Use --device=cpu, or omit --device to choose automatically.")
    if kind == "mps":
        if not facts.mps:
            raise UsageError("device=mps: torch finds no Apple GPU\n{advice}", advice=advice)
        return "mps", f"{facts.cpu_name} GPU"
    if not facts.cuda_names:
        driver, torch = Text("its driver is missing or hides it"), Text("this torch is built without CUDA")
        reason = driver if facts.torch_has_cuda else torch
        raise UsageError(
            "device=cuda: this machine has no usable CUDA GPU ({reason})\n{advice}", reason=reason, advice=advice
        )
    if number >= len(facts.cuda_names):
        raise UsageError(
            Count(
                "device=cuda:{number}: this machine has {n} GPU, numbered 0",
                "device=cuda:{number}: this machine has {n} GPUs, numbered from 0",
                len(facts.cuda_names),
                number=number,
            )
        )
    return f"cuda:{number}", facts.cuda_names[number]


def _best_dtype(kind: str, capability: tuple[int, int], name: str, facts: Facts) -> tuple[str, str]:
    if kind == "cpu":
        dtype, reason = ("bfloat16", Text("fast on this CPU")) if facts.cpu_bfloat16 else ("float32", SAFE)
        return dtype, Text("as before") if dtype == facts.cpu_dtype_before else reason
    if kind != "cuda":
        return "float32", SAFE
    known = find_device(name)
    if known is not None and known.bf16_tflops is None and known.fp16_tflops is None and known.fp32_tflops is not None:
        return "float32", Text("this GPU has no fast 16-bit arithmetic")  # GTX 10 and 16
    # torch reports bfloat16 as supported even where it is emulated, very slowly; the hardware generation is reliable.
    if capability >= (8, 0):
        return "bfloat16", Text("this GPU has it")
    return "float16", Text("this GPU is too old for bfloat16")


def _compile_pays(kind: str, capability: tuple[int, int], triton: bool, planned_steps: int) -> tuple[bool, str]:
    if kind != "cuda":  # with model/kernels.py eager mode is at least as fast (benchmarks/LOG.md)
        return False, Text("compiling rarely pays here")
    if planned_steps < COMPILING_PAYS_AFTER:
        return False, Text("too few iterations to repay compiling")
    if not triton:
        return False, Text("torch.compile needs Triton")
    if capability >= (7, 0):
        return True, Text("it pays on a GPU")
    return False, Text("this GPU is too old for Triton")


MEASURED = Text("measured by a short matmul on this device, the highest so far")


def peak_flops(choice: Choice) -> tuple[float | None, str]:
    """Return the peak FLOP/s of the device in the chosen dtype, and the source of the number."""
    known = find_device(choice.device_name) if choice.type == "cuda" else None
    if known is not None and (flops := known.flops(choice.dtype)) is not None:
        return flops, known.source
    seen, key = _peaks_seen(), f"{platform.node()} {choice.device_name} {choice.dtype} torch-{torch.__version__}"
    seconds = SHORT_SECONDS if key in seen else LONG_SECONDS
    measured = measure_peak(torch.device(choice.device), DTYPES[choice.dtype], seconds)
    if measured is None:
        return None, Text("not measured")
    if measured > seen.get(key, 0.0):  # being busy does not lower the peak of a machine
        with contextlib.suppress(OSError):  # the next run measures again
            write_atomically(_peaks_file(), json.dumps({**seen, key: measured}, indent=1))
    highest = max(measured, seen.get(key, 0.0))
    return highest, MEASURED


LONG_SECONDS, SHORT_SECONDS = 0.15, 0.03  # for the first measurement on a machine, and for one that rarely raises it


def _peaks_seen() -> dict[str, float]:
    """The highest peaks of earlier measurements."""
    try:
        return {key: float(flops) for key, flops in json.loads(_peaks_file().read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _peaks_file() -> Path:
    return cache_folder() / "peaks-seen.json"


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float = LONG_SECONDS) -> float | None:
    """Return the FLOP/s of the fastest of several square matmuls: an upper bound for a training step."""
    size = 1024 if device.type == "cpu" else 4096
    try:
        a = torch.ones(size, size, device=device, dtype=dtype)
        best, began = float("inf"), time.perf_counter()
        a @ a  # warm-up: thread pool, library handles
        while best == float("inf") or time.perf_counter() - began < seconds:
            synchronize(device)
            start = time.perf_counter()
            a @ a
            synchronize(device)
            best = min(best, time.perf_counter() - start)
    except RuntimeError:  # out of memory
        return None
    return 2 * size**3 / best


def autocast(choice: Choice) -> contextlib.AbstractContextManager[object]:
    """Return the context in which matmuls use the chosen dtype; float32 needs none."""
    if choice.dtype == "float32":
        return contextlib.nullcontext()
    return torch.autocast(choice.type, dtype=DTYPES[choice.dtype])


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def keep_freed_memory() -> None:
    """Make the C library keep the memory of freed tensors instead of returning it to the system.

    Each step allocates the same tensors. With glibc's defaults each of them costs page faults, which are expensive on
    virtual machines (benchmarks/LOG.md). With other C libraries this has no effect.
    """
    if sys.platform != "linux":
        return
    mmap_threshold, trim_threshold, top_pad = -3, -1, -2  # constants of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(mmap_threshold, 32 << 20)  # the maximum of glibc
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 << 20)
