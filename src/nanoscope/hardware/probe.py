"""Find out in a child process whether a CPU can do 16-bit matmuls, because finding out may kill the process.

Some virtual machines advertise instructions (AMX) that they do not grant: the first bfloat16 matmul then dies with
SIGILL, unless oneDNN is told, before torch loads, to leave them alone. Other CPUs have no such instructions and take
hundreds of times longer. The answer is kept per machine and torch version. Imports no torch itself.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nanoscope.data.corpora import cache_folder
from nanoscope.errors import JobError

SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}

CHILD = """
import json, time, torch
def seconds(dtype):
    a = torch.ones(256, 256, dtype=dtype)
    assert torch.isfinite(a @ a).all() and float((a @ a)[0, 0]) == 256
    times = []
    for _ in range(5):
        start = time.perf_counter(); a @ a; times.append(time.perf_counter() - start)
    return min(times)
print(json.dumps(seconds(torch.DTYPE) / seconds(torch.float32)))
"""


@dataclass(frozen=True)
class ProbeResult:
    """Whether the format works, with which environment, and how long it takes against float32."""

    works: bool
    environment: dict[str, str]
    times_float32: float | None


def probe_cpu_dtype(dtype: str) -> ProbeResult:
    """The kept answer for this machine, or a fresh one (a few seconds)."""
    key = f"{platform.node()} {platform.machine()} torch-{version('torch')} {dtype}"
    kept = _kept_answers()
    if key in kept:
        try:
            return ProbeResult(**kept[key])
        except TypeError:
            pass
    result = _ask(dtype, {}) or _ask(dtype, SAFE_ISA) or ProbeResult(False, {}, None)
    try:
        _answers_file().parent.mkdir(parents=True, exist_ok=True)
        _answers_file().write_text(json.dumps({**kept, key: asdict(result)}, indent=1), "utf-8")
    except OSError:
        pass  # asked again next time
    return result


def make_cpu_ready(device: str, dtype: str) -> None:
    """Before torch is loaded: see whether the CPU can do the 16-bit matmuls that were asked for; set what they need."""
    if dtype not in ("bfloat16", "float16") or device not in ("auto", "cpu") or "torch" in sys.modules:
        return
    found = probe_cpu_dtype(dtype)
    os.environ.update(found.environment)
    slow = found.times_float32 is not None and found.times_float32 > 2
    if found.works and not slow:
        return
    if device == "auto":
        from nanoscope.hardware.device import decide, look

        if decide(device, dtype, False, look()).type != "cpu":
            return
    if not found.works:
        raise JobError(
            f"{dtype} matmuls do not work on this CPU (they end the process)\nUse --dtype=float32, or leave it out."
        )
    print(f"note: {dtype} takes {found.times_float32:.0f} times as long as float32 on this CPU", file=sys.stderr)


def _ask(dtype: str, environment: dict[str, str]) -> ProbeResult | None:
    child = CHILD.replace("DTYPE", dtype)
    try:
        done = subprocess.run(
            [sys.executable, "-c", child], env={**os.environ, **environment}, capture_output=True, timeout=120
        )
        return ProbeResult(True, environment, float(json.loads(done.stdout))) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _answers_file() -> Path:
    return cache_folder() / "cpu-probe.json"


def _kept_answers() -> dict[str, dict[str, Any]]:
    try:
        answers = json.loads(_answers_file().read_text("utf-8"))
        return answers if isinstance(answers, dict) else {}
    except (OSError, ValueError):
        return {}
