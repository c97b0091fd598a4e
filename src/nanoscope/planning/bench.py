"""Short measurements of this machine for `nanoscope tune --bench`: matmuls and training steps."""

import os
import platform
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from nanoscope.child import ChildError
from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DTYPES, DeviceConfig, detect, measure_peak, set_up_device
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Message, Shown
from nanoscope.model.flops import mfu
from nanoscope.planning.rig import Rig
from nanoscope.version import __version__

SECONDS = 2.0  # of a measurement
SLOWEST_MATMUL = 10  # times float32's; measuring a slower one would take too long

Figures = dict[str, float | Shown]
"""By unit (gflops, ms, tokens_per_second, mfu, mfu_peak_gflops), or one reason under 'skipped' or 'failed'."""

CLASSIC = TrainConfig(recipe="classic", gradient_accumulation_steps=1, compile=False, eval_iters=1)
SHAPES = {
    # nanoGPT's example for a CPU, its baby GPT with a quarter of the batch, and GPT-2 124M; with their vocabularies.
    "4x128": (replace(CLASSIC, batch_size=12, block_size=64, n_layer=4, n_head=4, n_embd=128), 65),
    "6x384": (replace(CLASSIC, batch_size=16, block_size=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2), 65),
    "12x768": (replace(CLASSIC, batch_size=1, block_size=512, n_layer=12, n_head=12, n_embd=768), 50257),
}


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


class MachineBench:
    """Measures one device, in eager mode; steps in a process of their own, as `plan` does."""

    def __init__(self, device: str = "auto", dtype: Any = "auto") -> None:
        self.choice, self.notes = set_up_device(device, dtype, training=True)
        self._dtype = dtype

    def measurements(self) -> dict[str, tuple[Message, Callable[[], Figures]]]:
        """All of them by key: what each is, and how to make it."""
        found: dict[str, tuple[Message, Callable[[], Figures]]] = {}
        for dtype in DTYPES:
            found[f"peak_{dtype}"] = Message("matmul, {dtype}", dtype=dtype), partial(self.peak, dtype)
        for shape, (config, _) in SHAPES.items():
            size, batch = shape.replace("x", "×"), f"{config.batch_size}×{config.block_size}"
            label = Message("training step, {size}, {batch} tokens", size=size, batch=batch)
            found[f"step_{shape}"] = label, partial(self.step, shape)
        return found

    def peak(self, dtype: str) -> Figures:
        if self.choice.type == "cpu" and dtype != "float32":  # could crash the process, or take minutes
            found = probe_cpu_dtype(dtype)
            if found.problem or not found.environment.items() <= os.environ.items():
                return {"skipped": Message("doesn't work on this CPU")}
            if found.times_float32 is not None and found.times_float32 > SLOWEST_MATMUL:
                return {"skipped": Message("takes {times:.0f} times as long as float32", times=found.times_float32)}
        flops = measure_peak(torch.device(self.choice.device), DTYPES[dtype], seconds=1.0)
        return {"gflops": flops / 1e9} if flops else {"failed": Message("not enough memory")}

    def step(self, key: str) -> Figures:
        """Forward, backward, clipping and AdamW on one batch."""
        config, vocab_size = SHAPES[key]
        try:
            with closing(Rig(replace(config, device=self.choice.device, dtype=self._dtype), "", vocab_size)) as rig:
                found = rig.measure(SECONDS)
        except ChildError as error:
            return {"failed": error.text}
        rate = config.tokens_per_step / found.step
        figures: Figures = {"ms": 1000 * found.step, "tokens_per_second": rate}
        if (used := mfu(rate, found.flops_per_token, found.peak_flops)) is not None and found.peak_flops:
            figures |= {"mfu": used, "mfu_peak_gflops": found.peak_flops / 1e9}
        return figures
