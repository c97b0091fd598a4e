"""Testing in a child process whether 16-bit matmuls work on the CPU, because a failure may kill the process.

Some virtual machines advertise instructions (AMX) that they do not grant: the first bfloat16 matmul then dies with
SIGILL, unless oneDNN is configured not to use them before torch is loaded. CPUs without such instructions can be
hundreds of times slower. Results are cached per machine and torch version. Only the child imports torch.
"""

import contextlib
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import msgspec

from nanoscope.child import Child, ChildError
from nanoscope.files import cache_folder, write_atomically
from nanoscope.messages import Message, on_terminal

SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
TIMEOUT_SECONDS = 60
FAST = 0.7  # of float32's time; with the instructions it is about a half
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
PROBLEM_CACHED_SECONDS = 24 * 3600  # the machine may have been busy, or may have been fixed since
# How often a waiting thread checks again before it sleeps. GNU's default, 300,000, takes milliseconds, during which it
# occupies a core that the other thread may need (docs/busy.md, benchmarks/LOG.md).
SPIN_COUNT = "2000"
CHILD = "nanoscope.hardware.probe:time_matmuls"


class ProbeResult(msgspec.Struct, frozen=True):
    """The problem ('' if none), the environment variables it takes, and the time of a matmul relative to float32."""

    problem: str
    environment: dict[str, str]
    times_float32: float | None


def probe_cpu_dtype(dtype: str) -> ProbeResult:
    """Test 16-bit matmuls on the CPU, if necessary without some instructions. Takes a few seconds, once."""
    key = f"{platform.node()} {cpu_name()} torch-{version('torch')} {dtype} {CHILD}"
    file = cache_folder() / "probes" / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"
    if (cached := _cached(file)) is not None:
        return cached
    text = Message("testing once whether this works here, and how fast: {what}", what=f"{dtype}, cpu")
    print(on_terminal(text), file=sys.stderr, flush=True)
    for environment in ({}, SAFE_ISA):
        try:
            with contextlib.closing(Child(CHILD, environment)) as child:
                result = ProbeResult("", environment, child.ask(dtype, float, timeout=TIMEOUT_SECONDS))
            break
        except ChildError as error:
            result = ProbeResult(str(error)[:120], {}, None)
    with contextlib.suppress(OSError):  # the next run tests again
        write_atomically(file, msgspec.json.encode(result).decode())
    return result


def time_matmuls(dtypes: Iterator[str]) -> Iterator[float]:
    """In the child: the time of a matmul in each dtype, relative to float32."""
    import torch

    def seconds(dtype: torch.dtype) -> float:
        x, times = torch.ones(256, 256, dtype=dtype), []
        for _ in range(5):
            began = time.perf_counter()
            float((x @ x)[0, 0])
            times.append(time.perf_counter() - began)
        return min(times)

    for dtype in dtypes:
        yield seconds(getattr(torch, dtype)) / seconds(torch.float32)


def _cached(file: Path) -> ProbeResult | None:
    try:
        cached = msgspec.json.decode(file.read_bytes(), type=ProbeResult)
        age_seconds = time.time() - file.stat().st_mtime
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    valid = cached.environment in ({}, SAFE_ISA)  # no other variable may be set by a file
    return cached if valid and (not cached.problem or age_seconds < PROBLEM_CACHED_SECONDS) else None


def fast_bfloat16(previous_dtype: str | None = None) -> bool:
    """Whether bfloat16 matmuls work in this process and save much of float32's time: AVX512_BF16 or AMX, on Linux.

    Processors without these instructions are not tested at all, so that only those that have them pay for it, once.
    `previous_dtype` is that of a resumed run, which keeps it where it works, however busy the machine is.
    """
    if previous_dtype == "float32" or not _BFLOAT16_FLAGS & _cpu_flags():
        return False
    found = probe_cpu_dtype("bfloat16")
    if found.times_float32 is None:  # it does not work
        return False
    ready = "torch" not in sys.modules or found.environment.items() <= os.environ.items()
    return ready and (previous_dtype == "bfloat16" or found.times_float32 <= FAST)


def make_cpu_ready(device: str, dtype: str, *, training: bool = False, previous_dtype: str | None = None) -> None:
    """Set the environment variables that torch needs on this CPU. Call it before torch is imported.

    Training chooses bfloat16 by itself where it is fast; a resumed run keeps its `previous_dtype`.
    """
    if "torch" in sys.modules:
        return
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'. Install it: pip install 'nanoscope[train]'", name="torch")
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    if device in ("auto", "cpu"):
        if dtype == "auto" and training and not Path("/dev/nvidiactl").exists() and fast_bfloat16(previous_dtype):
            dtype = "bfloat16"
        if dtype in ("bfloat16", "float16"):
            os.environ.update(probe_cpu_dtype(dtype).environment)


def cpu_name() -> str:
    """Return the model name of the processor."""
    return _cpuinfo("model name") or _mac_chip() or platform.processor() or platform.machine() or "CPU"


def _mac_chip() -> str:
    """'Apple M2 Pro', as peaks.toml has it; Python only says 'arm'."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            return subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=2).decode().strip()
    return ""


def _cpu_flags() -> set[str]:
    """Return the names of the processor's instruction sets; none where the system doesn't list them."""
    return set(_cpuinfo("flags").split())


def _cpuinfo(key: str) -> str:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
                if line.startswith(key):
                    return line.partition(":")[2].strip()
    return ""
