"""The device, dtype and mode of a run, and why. Looking at the machine is separate from deciding."""

import contextlib
import ctypes
import importlib.util
import os
import platform
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import torch

from nanoscope.config import Auto
from nanoscope.errors import UsageError
from nanoscope.files import cache_folder, write_atomically
from nanoscope.hardware.peaks import find_device
from nanoscope.hardware.probe import cpu_name, fast_bfloat16, probe_cpu_dtype
from nanoscope.messages import Message, Shown

SAFE = Message("the safe choice")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class DeviceInfo:
    """What this machine and this build of torch offer."""

    cuda_names: tuple[str, ...] = ()
    cuda_capabilities: tuple[tuple[int, int], ...] = ()
    mps: bool = False
    triton: bool = False
    cpu_name: str = "CPU"
    cpu_threads: int = 1
    torch_has_cuda: bool = False
    cpu_bfloat16: bool = False  # fast
    previous_cpu_dtype: str | None = None  # that a resumed run has used
    torchrun: bool = False  # whether it started this process, which then sees the GPUs of all processes


@dataclass(frozen=True)
class DeviceConfig:
    """What a run uses; `reasons` explains everything that was chosen automatically."""

    device: str
    device_name: Shown
    dtype: str
    compile: bool
    reasons: tuple[Shown, ...]  # of the device, the dtype, the mode

    @property
    def type(self) -> str:
        return self.device.partition(":")[0]


def detect(*, training: bool = False, previous_dtype: str | None = None) -> DeviceInfo:
    """Return what torch and the system report. Only training asks whether the CPU is fast in bfloat16.

    `previous_dtype` is the one that a resumed run has used on a CPU.
    """
    cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else range(0)
    mps = torch.backends.mps.is_available()
    return DeviceInfo(
        cuda_names=tuple(torch.cuda.get_device_name(i) for i in cuda),
        cuda_capabilities=tuple(torch.cuda.get_device_capability(i) for i in cuda),
        mps=mps,
        triton=importlib.util.find_spec("triton") is not None,
        cpu_name=cpu_name(),
        cpu_threads=torch.get_num_threads(),
        torch_has_cuda=torch.version.cuda is not None,
        cpu_bfloat16=training and not cuda and not mps and fast_bfloat16(previous_dtype),
        previous_cpu_dtype=previous_dtype,
        torchrun="TORCHELASTIC_RUN_ID" in os.environ,
    )


COMPILING_PAYS_AFTER = 300  # iterations on a GPU: compiling takes a minute and saves tenths of a second per iteration


def choose(
    device: str,
    dtype: str,
    compile: bool | str,
    info: DeviceInfo,
    local_rank: int | None = None,
    planned_steps: int = COMPILING_PAYS_AFTER,
) -> DeviceConfig:
    """Resolve 'auto'; UsageError for a device that this machine does not have."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", device):
        raise UsageError("invalid device {device!r}: expected auto, cpu, cuda, cuda:N or mps", device=device)
    if dtype not in ("auto", *DTYPES):
        raise UsageError("invalid dtype {dtype!r}: expected auto, {dtypes}", dtype=dtype, dtypes=", ".join(DTYPES))
    why: list[Shown] = ["", "", ""]  # the device, the dtype, the mode; a request needs no reason
    kind, _, index = device.partition(":")
    if kind == "auto":
        kind = "cuda" if info.cuda_names else "mps" if info.mps else "cpu"
        why[0] = Message("no CUDA or MPS found") if kind == "cpu" else Message("the fastest here")
    number = int(index or 0) if local_rank is None else local_rank  # each process has its own GPU
    if local_rank is not None and len(info.cuda_names) == 1 and not info.torchrun:
        number = 0  # SLURM can show each process only its own
    place, name = _find(kind, number, info)
    capability = info.cuda_capabilities[number] if kind == "cuda" else (0, 0)
    if dtype == "auto":
        dtype, why[1] = _best_dtype(kind, capability, name, info)
    if compile == "auto":
        compile, why[2] = _compile_pays(kind, capability, info.triton, planned_steps)
    mode = Message("compiled") if compile else Message("eager")
    reasons: list[Shown] = [place, dtype, mode]
    for at, reason in enumerate(why):
        if reason:
            reasons[at] = Message("{choice} ({reason})", choice=reasons[at], reason=reason)
    return DeviceConfig(place, name, dtype, bool(compile), tuple(reasons))


def _find(kind: str, number: int, info: DeviceInfo) -> tuple[str, Shown]:
    """Return torch's name for a device and the name of the hardware."""
    if kind == "cpu":
        return "cpu", Message("{cpu}, {threads:d} threads", cpu=info.cpu_name, threads=info.cpu_threads)
    advice = Message("Use --device=cpu, or omit --device to choose automatically.")
    if kind == "mps":
        if not info.mps:
            raise UsageError("device=mps: torch finds no Apple GPU\n{advice}", advice=advice)
        return "mps", f"{info.cpu_name} GPU"
    if not info.cuda_names:
        driver, torch = Message("its driver is missing or hides it"), Message("this torch is built without CUDA")
        reason = driver if info.torch_has_cuda else torch
        raise UsageError(
            "device=cuda: this machine has no usable CUDA GPU ({reason})\n{advice}", reason=reason, advice=advice
        )
    if number >= len(info.cuda_names):
        raise UsageError(
            Message(
                "device=cuda:{number}: this machine has {n} GPU, numbered 0",
                "device=cuda:{number}: this machine has {n} GPUs, numbered from 0",
                n=len(info.cuda_names),
                number=number,
            )
        )
    return f"cuda:{number}", info.cuda_names[number]


def _best_dtype(kind: str, capability: tuple[int, int], name: Shown, info: DeviceInfo) -> tuple[str, Shown]:
    if kind == "cpu":
        dtype, reason = ("bfloat16", Message("fast on this CPU")) if info.cpu_bfloat16 else ("float32", SAFE)
        return dtype, Message("as before") if dtype == info.previous_cpu_dtype else reason
    if kind != "cuda":
        return "float32", SAFE
    known = find_device(str(name))
    if known is not None and known.bf16_tflops is None and known.fp16_tflops is None and known.fp32_tflops is not None:
        return "float32", Message("this GPU has no fast 16-bit arithmetic")  # GTX 10 and 16
    # torch reports bfloat16 as supported even where it is emulated, very slowly; the hardware generation is reliable.
    if capability >= (8, 0):
        return "bfloat16", Message("this GPU has it")
    return "float16", Message("this GPU is too old for bfloat16")


def _compile_pays(kind: str, capability: tuple[int, int], triton: bool, planned_steps: int) -> tuple[bool, Shown]:
    if kind != "cuda":  # with model/cpu_kernels.py eager mode is at least as fast (benchmarks/LOG.md)
        return False, Message("compiling rarely pays here")
    if planned_steps < COMPILING_PAYS_AFTER:
        return False, Message("too few iterations to repay compiling")
    if not triton:
        return False, Message("torch.compile needs Triton")
    if capability >= (7, 0):
        return True, Message("it pays on a GPU")
    return False, Message("this GPU is too old for Triton")


def with_fallbacks(choice: DeviceConfig) -> tuple[DeviceConfig, list[Shown]]:
    """Use float32 where 16-bit matmuls do not work on this CPU. Also returns notes for the user."""
    if choice.type != "cpu" or choice.dtype == "float32":
        return choice, []
    found = probe_cpu_dtype(choice.dtype)
    problem: Shown = found.problem
    if not found.environment.items() <= os.environ.items():  # too late: torch is loaded
        needed = " ".join(map("=".join, found.environment.items()))
        problem = Message("it needs {variables} to be set before the start", variables=needed)
    if problem:
        instead = Message("{used} instead of {wanted}", used="float32", wanted=choice.dtype)
        place, _, mode = choice.reasons
        note = Message(
            "{dtype} does not work on this CPU ({problem}); using float32", dtype=choice.dtype, problem=problem
        )
        return replace(choice, dtype="float32", reasons=(place, instead, mode)), [note]
    if found.times_float32 is None or found.times_float32 <= 2:
        return choice, []
    times = found.times_float32
    return choice, [
        Message("{dtype} takes {times:.0f} times as long as float32 on this CPU", dtype=choice.dtype, times=times)
    ]


def set_up_device(
    device: str,
    dtype: str,
    compile: bool | str = False,
    *,
    threads: int | Auto = "auto",
    training: bool = False,
    previous_dtype: str | None = None,
    local_rank: int | None = None,
    planned_steps: int = COMPILING_PAYS_AFTER,
) -> tuple[DeviceConfig, list[Shown]]:
    """Choose device, dtype and mode of a command, and set the number of threads. Also returns notes for the user."""
    limits = set_threads(threads)
    info = detect(training=training, previous_dtype=previous_dtype)
    choice, notes = with_fallbacks(choose(device, dtype, compile, info, local_rank, planned_steps))
    return choice, [*limits, *notes]


def set_threads(threads: int | Auto = "auto") -> list[Shown]:
    """Set the number of threads; by default torch's choice, but at most the cores that a container may use."""
    if threads != "auto":
        torch.set_num_threads(threads)
        return []
    usual, quota = torch.get_num_threads(), cpu_quota()
    if quota is None or quota >= usual or "OMP_NUM_THREADS" in os.environ:
        return []
    torch.set_num_threads(max(int(quota), 1))
    return [
        Message(
            "this container may use {quota:.2g} cores: threads reduced from {usual:d} to {threads:d}",
            quota=quota,
            usual=usual,
            threads=torch.get_num_threads(),
        )
    ]


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The CPU limit of a container, in cores; None without a limit."""
    with contextlib.suppress(OSError, ValueError):  # a file with 'max 100000' has no number
        quota, period = map(int, (root / "cpu.max").read_text("ascii").split())
        return quota / period
    return None


MEASURED = Message("measured by a short matmul on this device, the highest so far")


def peak_flops(choice: DeviceConfig) -> tuple[float | None, Shown]:
    """Return the peak FLOP/s of the device in the chosen dtype, and the source of the number."""
    known = find_device(str(choice.device_name)) if choice.type == "cuda" else None
    if known is not None and (flops := known.flops(choice.dtype)) is not None:
        return flops, known.source
    file, seen = cache_folder() / "peaks-seen.json", dict[str, float]()  # the highest of earlier measurements
    with contextlib.suppress(OSError, ValueError):
        seen = msgspec.json.decode(file.read_bytes(), type=dict[str, float])
    key = f"{platform.node()} {choice.device_name} {choice.dtype} torch-{torch.__version__}"
    seconds = SHORT_SECONDS if key in seen else LONG_SECONDS
    measured = measure_peak(torch.device(choice.device), DTYPES[choice.dtype], seconds)
    if measured is None:
        return None, Message("not measured")
    highest = max(measured, seen.get(key, 0.0))  # being busy does not lower the peak of a machine
    with contextlib.suppress(OSError):  # the next run measures again
        write_atomically(file, msgspec.json.encode(seen | {key: highest}))
    return highest, MEASURED


LONG_SECONDS, SHORT_SECONDS = 0.15, 0.03  # for the first measurement on a machine, and for one that rarely raises it


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


def autocast(choice: DeviceConfig) -> contextlib.AbstractContextManager[object]:
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
    """Make glibc keep the memory of freed tensors, which every step allocates again (benchmarks/LOG.md)."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, the maximum
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-2, 64 << 20)  # M_TOP_PAD
