"""Testing in a child process whether 16-bit matmuls and torch.compile work, because a failure may kill the process.

Some virtual machines advertise instructions (AMX) that they do not grant: the first bfloat16 matmul then dies with
SIGILL, unless oneDNN is configured not to use them before torch is loaded. CPUs without such instructions can be
hundreds of times slower. Code from torch.compile may crash, hang or be wrong. Results are cached per machine, torch
version and compiler. This file does not import torch.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from nanoscope.files import cache_folder, write_atomically
from nanoscope.hardware import load
from nanoscope.messages import Joined, Text, on_terminal

if TYPE_CHECKING:
    from nanoscope.hardware.device import Choice

SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
TIMEOUT_SECONDS = 180  # compiling takes 20 s, on a busy machine a minute
QUIET_SECONDS = 2.0
FAST = 0.7  # of float32's time; with the instructions it is about a half
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
PROBLEM_CACHED_SECONDS = 24 * 3600  # the machine may have been busy, or may have been fixed since

# Called with a dtype, a device type and 'eager' or 'compiled'. A matmul, softmax, layer_norm and their backward pass,
# on inputs that are exact in 16 bits, must agree with float32 in eager mode. Prints the time of a matmul relative to
# float32; a problem becomes the last line of standard error.
CHILD = """
import sys, time, torch
dtype, device, mode = getattr(torch, sys.argv[1]), sys.argv[2], sys.argv[3]
def work(x, w):
    y = torch.softmax(x @ w, -1)
    return torch.nn.functional.layer_norm(y, y.shape[-1:])
def results(function, dtype):
    x, w = (t.to(device, dtype, copy=True).requires_grad_() for t in inputs)
    out = function(x, w)
    return [t.detach().float() for t in (out, *torch.autograd.grad(out, (x, w), inputs[0].to(device, dtype)))]
def seconds(dtype):
    x, w = (t.to(device, dtype) for t in inputs)
    times = []
    for _ in range(5):
        start = time.perf_counter(); float((x @ w)[0, 0]); times.append(time.perf_counter() - start)
    return min(times)
try:
    torch.manual_seed(0)
    inputs = [(torch.randn(256, 256) * scale).to(dtype).float() for scale in (1, 1 / 16)]
    found = results(torch.compile(work) if mode == "compiled" else work, dtype)
    allowed = 1e-3 if dtype == torch.float32 else 0.05
    for right, got in zip(results(work, torch.float32), found):
        if not (got - right).abs().max() <= allowed * right.abs().max():
            sys.exit("it computes wrong numbers")
    print(seconds(dtype) / seconds(torch.float32))
except Exception as error:
    sys.exit(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__))
"""


CRASH = "it crashes the process: "  # how a problem in the cache begins


@dataclass(frozen=True)
class ProbeResult:
    """The problem ('' if none), the environment variables that are needed, and the matmul time relative to float32."""

    problem: str
    environment: dict[str, str]
    times_float32: float | None

    @property
    def works(self) -> bool:
        return not self.problem


def probe_cpu_dtype(dtype: str) -> ProbeResult:
    """Test 16-bit matmuls on the CPU, if necessary without some instructions. Takes a few seconds, once."""
    return _cached_or_tested([dtype, "cpu", "eager"], "", [{}, SAFE_ISA])


def fast_bfloat16(before: str | None = None) -> bool:
    """Whether bfloat16 matmuls work in this process and save much of float32's time: AVX512_BF16 or AMX, on Linux.

    Processors without these instructions are not tested at all, so that only those that have them pay for it, once.
    `before` is the dtype of the run that is resumed: it goes on in it where it can, however busy the machine is.
    """
    if before == "float32" or not _BFLOAT16_FLAGS & _cpu_flags():
        return False
    found = probe_cpu_dtype("bfloat16")
    ready = "torch" not in sys.modules or found.environment.items() <= os.environ.items()
    fast = before == "bfloat16" or (found.times_float32 is not None and found.times_float32 <= FAST)
    return found.works and ready and fast


def probe_compile(device_type: str, dtype: str) -> ProbeResult:
    """Test whether code from torch.compile runs and is correct. Takes up to a minute, once."""
    compiler = shutil.which(os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))
    identity = f"{compiler} {Path(compiler).stat().st_mtime_ns}" if compiler else "no compiler"
    forbidden = {key: os.environ[key] for key in SAFE_ISA if key in os.environ}
    return _cached_or_tested([dtype, device_type, "compiled"], f"{identity} {forbidden}", [{}])


def make_cpu_ready(device: str, dtype: str, *, training: bool = False, before: str | None = None) -> None:
    """Set the environment variables that 16-bit matmuls on this CPU need. Call it before torch is imported.

    Training chooses bfloat16 by itself where it is fast; a run that is resumed goes on in its dtype, `before`. From
    here on it is also observed how busy the machine is (`hardware/waiting.py`).
    """
    if device in ("auto", "cpu") and "torch" not in sys.modules:
        if dtype == "auto" and training and not Path("/dev/nvidiactl").exists() and fast_bfloat16(before):
            dtype = "bfloat16"
        if dtype in ("bfloat16", "float16"):
            os.environ.update(probe_cpu_dtype(dtype).environment)
    load.begin()


def with_fallbacks(choice: "Choice") -> tuple["Choice", list[str]]:
    """Replace what does not work on this machine by float32 or eager mode; return a note for each replacement."""
    notes: list[str] = []
    if choice.type == "cpu" and choice.dtype != "float32":
        found = probe_cpu_dtype(choice.dtype)
        problem = found.problem
        if problem.startswith(CRASH):
            problem = Text("it crashes the process: {how}", how=problem.removeprefix(CRASH))
        if not found.environment.items() <= os.environ.items():  # too late: torch is loaded
            needed = " ".join(map("=".join, found.environment.items()))
            problem = Text("it needs {variables} to be set before the start", variables=needed)
        if problem:
            notes.append(
                Text(
                    "{dtype} does not work on this CPU ({problem}); using float32", dtype=choice.dtype, problem=problem
                )
            )
            choice = replace(choice, dtype="float32", reasons=_instead(choice.reasons, choice.dtype, "float32"))
        elif found.times_float32 is not None and found.times_float32 > 2:
            notes.append(
                Text(
                    "{dtype} takes {times:.0f} times as long as float32 on this CPU",
                    dtype=choice.dtype,
                    times=found.times_float32,
                )
            )
    if choice.compile and (problem := probe_compile(choice.type, choice.dtype).problem):
        notes.append(
            Text("torch.compile does not work here ({problem}); training continues in eager mode", problem=problem)
        )
        choice = replace(choice, compile=False, reasons=_instead(choice.reasons, Text("compiled"), Text("eager")))
    return choice, notes


def _instead(reasons: Joined, wanted: str, used: str) -> Joined:
    """The reasons for a choice in which one thing was replaced."""
    replaced = Text("{used} instead of {wanted}", used=used, wanted=wanted)
    return Joined(", ", (replaced if str(part).startswith(wanted) else part for part in reasons.parts))


def cpu_name() -> str:
    """Return the model name of the processor."""
    return _cpuinfo("model name") or _mac_chip() or platform.processor() or platform.machine() or "CPU"


def _mac_chip() -> str:
    """'Apple M2 Pro', as peaks.toml has it; Python only says 'arm'."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            return subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=QUIET_SECONDS).decode().strip()
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


def _cached_or_tested(arguments: list[str], compiler: str, environments: list[dict[str, str]]) -> ProbeResult:
    """Return the cached result, or test in each environment until one works."""
    key = f"{platform.node()} {cpu_name()} torch-{version('torch')} {arguments} {compiler} {CHILD}"
    file = cache_folder() / "probes" / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"
    if (cached := _cached(file)) is not None:
        return cached
    for environment in environments:
        result = _test(arguments, environment)
        if result.works:
            break
    with contextlib.suppress(OSError):  # the next run tests again
        write_atomically(file, json.dumps(asdict(result)))
    return result


def _cached(file: Path) -> ProbeResult | None:
    try:
        cached = ProbeResult(**json.loads(file.read_text("utf-8")))
        age_seconds = time.time() - file.stat().st_mtime
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    valid = (
        isinstance(cached.problem, str)
        and cached.environment in ({}, SAFE_ISA)  # no other variable may be set by a file
        and isinstance(cached.times_float32, float | None)
        and (cached.works or age_seconds < PROBLEM_CACHED_SECONDS)
    )
    return cached if valid else None


def _test(arguments: list[str], environment: dict[str, str]) -> ProbeResult:
    """Run one child. Its output goes to files: a compiler that it leaves behind would keep pipes open."""
    command, variables = [sys.executable, "-c", CHILD, *arguments], {**os.environ, **environment}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = psutil.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            return ProbeResult(f"cannot start a process to test it: {error.strerror}", {}, None)
        try:
            status = _wait(child, arguments)
        except psutil.TimeoutExpired:
            return ProbeResult(f"it does not finish within {TIMEOUT_SECONDS} s", {}, None)
        finally:
            kill_tree(child)
        out.seek(0)
        err.seek(0)
        if status == 0:
            try:
                return ProbeResult("", environment, float(out.read()))
            except ValueError:
                return ProbeResult("it prints no result", {}, None)
        lines = err.read().decode("utf-8", "replace").strip().splitlines()
    if lines and status == 1:
        return ProbeResult(lines[-1][:120], {}, None)
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return ProbeResult(f"{CRASH}{how}", {}, None)


def _wait(child: psutil.Popen, arguments: list[str]) -> int:
    """Wait for the child, and say what it does if that takes more than a moment."""
    with contextlib.suppress(psutil.TimeoutExpired):
        return int(child.wait(QUIET_SECONDS))
    dtype, device, mode = arguments
    what = f"torch.compile, {dtype}, {device}" if mode == "compiled" else f"{dtype}, {device}"
    text = Text("testing once whether this works here, and how fast: {what}", what=what)
    print(on_terminal(text), file=sys.stderr, flush=True)
    return int(child.wait(TIMEOUT_SECONDS))


def kill_tree(child: psutil.Popen) -> None:
    """Kill the child and its descendants, and wait until they are gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        processes = [*child.children(recursive=True), child]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=5)
