"""Which device, number format and compilation a run gets, and why. Looking is kept apart from deciding."""

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

import torch

from nanoscope.data.corpora import cache_folder
from nanoscope.errors import UsageError
from nanoscope.hardware.peaks import find_peak
from nanoscope.hardware.probe import cpu_name

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Facts:
    """What this machine and this torch offer."""

    cuda_names: tuple[str, ...] = ()
    cuda_capabilities: tuple[tuple[int, int], ...] = ()
    mps: bool = False
    triton: bool = False
    cpu_name: str = "CPU"
    cpu_threads: int = 1
    torch_has_cuda: bool = False


@dataclass(frozen=True)
class Choice:
    """What a run uses; `reasons` explains whatever was chosen for the person."""

    device: str
    device_name: str
    dtype: str
    compile: bool
    reasons: str

    @property
    def type(self) -> str:
        return self.device.partition(":")[0]


def look() -> Facts:
    """Ask torch and the system."""
    cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else range(0)
    return Facts(
        cuda_names=tuple(torch.cuda.get_device_name(i) for i in cuda),
        cuda_capabilities=tuple(torch.cuda.get_device_capability(i) for i in cuda),
        mps=torch.backends.mps.is_available(),
        triton=importlib.util.find_spec("triton") is not None,
        cpu_name=cpu_name(),
        cpu_threads=torch.get_num_threads(),
        torch_has_cuda=torch.version.cuda is not None,
    )


COMPILING_PAYS_AFTER = 300  # iterations on a GPU: a minute of compiling, against some tenths of a second each


def decide(
    device: str,
    dtype: str,
    compile: bool | str,
    facts: Facts,
    local_rank: int | None = None,
    planned_steps: int = COMPILING_PAYS_AFTER,
) -> Choice:
    """Resolve 'auto'; UsageError where a device is asked for that is not there."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", device):
        raise UsageError(f"device={device}: it is one of auto, cpu, cuda, cuda:N, mps")
    if dtype not in ("auto", *DTYPES):
        raise UsageError(f"dtype={dtype}: it is one of auto, {', '.join(DTYPES)}")
    kind, _, index = device.partition(":")
    device_reason = "as asked"
    if kind == "auto":
        kind = "cuda" if facts.cuda_names else "mps" if facts.mps else "cpu"
        device_reason = "no CUDA or MPS found" if kind == "cpu" else "the fastest here"
    if kind == "cuda":
        number = int(index or 0) if local_rank is None else local_rank  # under torchrun each process has its own
        if not facts.cuda_names:
            raise UsageError(
                f"device={device}: this machine has no usable CUDA GPU{_why_no_cuda(facts)}\n"
                "Use --device=cpu, or leave it out: it is chosen."
            )
        if number >= len(facts.cuda_names):
            raise UsageError(f"device=cuda:{number}: there are only {len(facts.cuda_names)} GPUs, numbered from 0")
        name, place = facts.cuda_names[number], f"cuda:{number}"
    elif kind == "mps":
        if not facts.mps:
            raise UsageError(
                "device=mps: torch finds no Apple GPU here\nUse --device=cpu, or leave it out: it is chosen."
            )
        name, place, number = f"{facts.cpu_name} GPU", "mps", 0
    else:
        name, place, number = f"{facts.cpu_name}, {facts.cpu_threads} threads", "cpu", 0
    dtype_reason = "as asked"
    if dtype == "auto":
        dtype, dtype_reason = _best_dtype(kind, facts.cuda_capabilities[number] if kind == "cuda" else (0, 0))
    compile_reason = "as asked"
    if compile == "auto":
        compile, compile_reason = _compile_pays(kind, facts, number, planned_steps)
    mode = "compiled" if compile else "eager"
    reasons = f"{place} ({device_reason}), {dtype} ({dtype_reason}), {mode} ({compile_reason})".replace(
        " (as asked)", ""
    )
    return Choice(place, name, dtype, bool(compile), reasons)


def _best_dtype(kind: str, capability: tuple[int, int]) -> tuple[str, str]:
    if kind != "cuda":
        return "float32", "the safe choice"
    # torch says that bfloat16 is 'supported' where it is only emulated, very slowly: ask the hardware's generation.
    return ("bfloat16", "this GPU has it") if capability >= (8, 0) else ("float16", "this GPU is too old for bfloat16")


def _compile_pays(kind: str, facts: Facts, number: int, planned_steps: int) -> tuple[bool, str]:
    if kind != "cuda":  # with model/kernels.py eager steps were as fast as compiled ones or faster (LOG.md)
        return False, "compiling rarely pays here"
    if planned_steps < COMPILING_PAYS_AFTER:
        return False, "so few iterations are done before a compiler is"
    if not facts.triton:
        return False, "no Triton for torch.compile here"
    old = facts.cuda_capabilities[number] < (7, 0)
    return (False, "this GPU is too old for Triton") if old else (True, "it pays on a GPU")


def _why_no_cuda(facts: Facts) -> str:
    return " (the driver is missing, or hides it)" if facts.torch_has_cuda else " (this torch is built without CUDA)"


def peak_flops(choice: Choice) -> tuple[float | None, str]:
    """FLOP/s of this device in this dtype, and where the number comes from."""
    known = find_peak(choice.device_name) if choice.type == "cuda" else None
    if known is not None and (flops := known.flops(choice.dtype)) is not None:
        return flops, known.source
    measured = measure_peak(torch.device(choice.device), DTYPES[choice.dtype])
    if measured is None:
        return None, "not measured"
    return _highest_seen(choice, measured), "measured by a short matmul on this device, the highest so far"


def _highest_seen(choice: Choice, measured: float) -> float:
    """The best of this and earlier measurements: a machine that is busy now has no lower peak for it."""
    file = cache_folder() / "peaks-seen.json"
    key = f"{platform.node()} {choice.device_name} {choice.dtype} torch-{torch.__version__}"
    try:
        seen = json.loads(file.read_text("utf-8"))
        highest = max(measured, float(seen.get(key, 0)))
    except (OSError, ValueError, AttributeError, TypeError):
        seen, highest = {}, measured
    if measured == highest:
        with contextlib.suppress(OSError):  # then it is measured anew next time
            file.parent.mkdir(parents=True, exist_ok=True)
            aside = file.with_name(f".peaks.{os.getpid()}.tmp")
            aside.write_text(json.dumps({**seen, key: measured}, indent=1), "utf-8")
            aside.replace(file)
    return highest


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float = 0.15) -> float | None:
    """The best of some square matmuls: what a step could reach at most."""
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
    except RuntimeError:  # no memory left for it: then no MFU either
        return None
    return 2 * size**3 / best


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all it was asked to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def keep_freed_memory() -> None:
    """Have the C library keep what tensors free, instead of giving it to the system and asking for it again.

    Each step allocates the same tensors; with glibc's defaults every one of them is paid for in page faults, which
    are dear on virtual machines (benchmarks/LOG.md). Elsewhere than on glibc this does nothing.
    """
    if sys.platform != "linux":
        return
    mmap_threshold, trim_threshold, top_pad = -3, -1, -2  # the parameters' numbers in malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(mmap_threshold, 32 << 20)  # the highest that glibc takes
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 << 20)
