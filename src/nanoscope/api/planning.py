"""`nanoscope.plan`: what a run will take. The command prints the same."""

import os
from typing import TYPE_CHECKING, Any

from nanoscope.config_sources import resolve
from nanoscope.hardware.probe import make_cpu_ready

if TYPE_CHECKING:
    from nanoscope.planning.plan import Plan


def plan(preset: str | os.PathLike[str] = "laptop", **settings: Any) -> "Plan":
    """What a run would take: parameters, memory, time, disk. Nothing is trained for longer than some seconds.

    >>> nanoscope.plan("laptop", batch_size=64).seconds
    >>> nanoscope.plan("gpt2-124m", device="RTX 4090").fits

    `preset` and the settings are those of `train`; `device` may also be one that is not here. The figures are described
    in docs/plan.md. `seconds` is None if the run does not fit.
    """
    given = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in settings.items()}
    words = [os.fspath(preset), *(f"--{key}={value}" for key, value in given.items())]
    config = resolve(words).config
    make_cpu_ready(config.device, config.dtype, training=True)  # before torch is imported

    from nanoscope.planning.plan import plan_for

    return plan_for(words)
