"""Find out in a child process what a machine only claims to be able to do, because finding out may kill the process.

Some virtual machines advertise instructions (AMX) that they do not grant: the first bfloat16 matmul then dies with
SIGILL, unless oneDNN is told, before torch loads, to leave them alone. Other CPUs have no such instructions and take
hundreds of times longer. Code from torch.compile may crash, hang or be wrong. Answers are kept per machine, torch
and compiler. Imports no torch itself.
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

from nanoscope.data.corpora import cache_folder

if TYPE_CHECKING:
    from nanoscope.hardware.device import Choice

SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
TIMEOUT_SECONDS = 180  # compiling takes 20, on a busy machine a minute
PROBLEM_KEPT_SECONDS = 24 * 3600  # the machine may have been busy, or has been repaired since

# Called with a number format, a device type and 'eager' or 'compiled'. The same numbers (exact in 16 bits) go through
# a matmul, softmax, layer_norm and backward in that way and in float32; both must agree. Prints the time of a matmul
# against float32's; whatever is wrong becomes the last line of standard error.
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
            sys.exit("it gives wrong numbers")
    print(seconds(dtype) / seconds(torch.float32))
except Exception as error:
    sys.exit(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__))
"""


@dataclass(frozen=True)
class ProbeResult:
    """What is wrong ('' if nothing), the environment that it works with, and its matmul's time against float32."""

    problem: str
    environment: dict[str, str]
    times_float32: float | None

    @property
    def works(self) -> bool:
        return not self.problem


def probe_cpu_dtype(dtype: str) -> ProbeResult:
    """Whether the CPU multiplies 16-bit matrices, perhaps with some instructions forbidden: a few seconds, once."""
    return _kept_or_asked([dtype, "cpu", "eager"], "", [{}, SAFE_ISA])


def probe_compile(device_type: str, dtype: str) -> ProbeResult:
    """Whether torch.compile gives code that runs and is right, in this environment: up to a minute, once."""
    compiler = shutil.which(os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))
    identity = f"{compiler} {Path(compiler).stat().st_mtime_ns}" if compiler else "no compiler"
    forbidden = {key: os.environ[key] for key in SAFE_ISA if key in os.environ}
    return _kept_or_asked([dtype, device_type, "compiled"], f"{identity} {forbidden}", [{}])


def make_cpu_ready(device: str, dtype: str) -> None:
    """Before torch is loaded: set what the CPU needs for the 16-bit matmuls that may be asked of it."""
    if dtype in ("bfloat16", "float16") and device in ("auto", "cpu") and "torch" not in sys.modules:
        os.environ.update(probe_cpu_dtype(dtype).environment)


def without_what_fails(choice: "Choice") -> tuple["Choice", list[str]]:
    """The choice with float32 or eager mode in place of what does not work on this machine, and a note on each."""
    notes = []
    if choice.type == "cpu" and choice.dtype != "float32":
        found = probe_cpu_dtype(choice.dtype)
        problem = found.problem
        if not found.environment.items() <= os.environ.items():  # torch came first: it is too late for them now
            problem = f"it needs {' '.join(map('='.join, found.environment.items()))} set before the start"
        if problem:
            notes.append(f"{choice.dtype} does not work on this CPU ({problem}); float32 is used")
            reasons = choice.reasons.replace(choice.dtype, f"float32 instead of {choice.dtype}")
            choice = replace(choice, dtype="float32", reasons=reasons)
        elif found.times_float32 is not None and found.times_float32 > 2:
            notes.append(f"{choice.dtype} takes {found.times_float32:.0f} times as long as float32 on this CPU")
    if choice.compile and (problem := probe_compile(choice.type, choice.dtype).problem):
        notes.append(f"torch.compile does not work here ({problem}); training goes on in eager mode")
        choice = replace(choice, compile=False, reasons=choice.reasons.replace("compiled", "eager instead of compiled"))
    return choice, notes


def cpu_name() -> str:
    """What the processor calls itself."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "CPU"


def _kept_or_asked(arguments: list[str], circumstances: str, environments: list[dict[str, str]]) -> ProbeResult:
    """The answer kept for this machine, or that of a child in the first environment in which it has no problem."""
    question = f"{platform.node()} {cpu_name()} torch-{version('torch')} {arguments} {circumstances} {CHILD}"
    file = cache_folder() / "probes" / f"{hashlib.sha256(question.encode()).hexdigest()[:20]}.json"
    if (kept := _kept(file)) is not None:
        return kept
    for environment in environments:
        result = _ask(arguments, environment)
        if result.works:
            break
    with contextlib.suppress(OSError):  # then it is asked again next time
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        aside.write_text(json.dumps(asdict(result)), "utf-8")
        aside.replace(file)
    return result


def _kept(file: Path) -> ProbeResult | None:
    try:
        kept = ProbeResult(**json.loads(file.read_text("utf-8")))
        age_seconds = time.time() - file.stat().st_mtime
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    sound = (
        isinstance(kept.problem, str)
        and kept.environment in ({}, SAFE_ISA)  # nothing else enters our environment from a file
        and isinstance(kept.times_float32, float | None)
        and (kept.works or age_seconds < PROBLEM_KEPT_SECONDS)
    )
    return kept if sound else None


def _ask(arguments: list[str], environment: dict[str, str]) -> ProbeResult:
    """One child. It writes to files: pipes would stay open as long as a compiler that it started and left behind."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = psutil.Popen(
                [sys.executable, "-c", CHILD, *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        except OSError as error:
            return ProbeResult(f"no process can be started to try it: {error.strerror}", {}, None)
        try:
            status = child.wait(TIMEOUT_SECONDS)
        except psutil.TimeoutExpired:
            return ProbeResult(f"it does not come to an end in {TIMEOUT_SECONDS} s", {}, None)
        finally:
            _end_family(child)
        out.seek(0)
        err.seek(0)
        if status == 0:
            try:
                return ProbeResult("", environment, float(out.read()))
            except ValueError:
                return ProbeResult("it gives no answer", {}, None)
        said = err.read().decode("utf-8", "replace").strip().splitlines()
    if status < 0:
        return ProbeResult(f"it ends the process: {signal.Signals(-status).name}", {}, None)
    return ProbeResult(said[-1][:120] if said and status == 1 else f"it ends the process: status {status}", {}, None)


def _end_family(child: psutil.Popen) -> None:
    """End the child and all that it started, and wait until they are gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [*child.children(recursive=True), child]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=5)
