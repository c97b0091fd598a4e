"""Short measurements of this machine for `nanoscope tune --bench`: matmuls, and the training steps of a preset."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence

import torch

from nanoscope.hardware.device import DTYPES, DeviceConfig, detect, measure_peak
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Message, Shown
from nanoscope.planning.plan import plan_here
from nanoscope.planning.request import understand
from nanoscope.version import __version__

SLOWEST_MATMUL = 10  # times float32's; measuring a slower one would take too long


def machine(choice: DeviceConfig) -> dict[str, str | int]:
    """What the figures depend on."""
    return {
        "cpu": detect().cpu_name,
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "nanoscope": __version__,
        "device": choice.device,
        "device_name": str(choice.device_name),
        "dtype": choice.dtype,
    }


def measurements(
    words: Sequence[str], choice: DeviceConfig, report: Callable[[Message], None]
) -> Iterator[tuple[str, float | Shown | None]]:
    """Each figure with its name, or why there is none."""
    for dtype in DTYPES:
        yield f"matmul_{dtype}_gflops", matmul_gflops(dtype, choice)
    plan = plan_here(understand(words), report)
    yield "step_ms", 1000 * plan.parts[1].seconds if plan.measured else Message("not enough memory")
    yield "tokens_per_second", plan.tokens_per_second
    yield "step_mfu", plan.mfu


def matmul_gflops(dtype: str, choice: DeviceConfig) -> float | Shown:
    if choice.type == "cpu" and dtype != "float32":  # could crash the process, or take minutes
        found = probe_cpu_dtype(dtype)
        if found.problem or not found.environment.items() <= os.environ.items():
            return Message("doesn't work on this CPU")
        if found.times_float32 is not None and found.times_float32 > SLOWEST_MATMUL:
            return Message("takes {times:.0f} times as long as float32", times=found.times_float32)
    flops = measure_peak(torch.device(choice.device), DTYPES[dtype], seconds=1.0)
    return flops / 1e9 if flops else Message("not enough memory")
