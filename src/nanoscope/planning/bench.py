"""Short measurements of this machine for `nanoscope bench`: matmuls and training steps."""

import os
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DTYPES, DeviceConfig, detect, measure_peak
from nanoscope.hardware.memory import is_out_of_memory
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Message, Shown
from nanoscope.model import build_model
from nanoscope.model.flops import mfu
from nanoscope.planning.measure import measure
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.initial_model import new_shape
from nanoscope.training.machine import choose_machine
from nanoscope.version import __version__

SECONDS = 2.0  # of a measurement
SLOWEST_MATMUL = 10  # times float32's; measuring a slower one would take too long

Figures = dict[str, float | Shown]
"""By unit (gflops, ms, tokens_per_second, mfu, mfu_peak_gflops), or one reason under 'skipped' or 'failed'."""

CLASSIC = TrainConfig(recipe="classic", gradient_accumulation_steps=1, compile=False)
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
    """Measures one device, in eager mode. A step's MFU is relative to the matmul peak in the same dtype."""

    def __init__(self, device: str = "auto", dtype: Any = "auto") -> None:
        self.machine, self.notes = choose_machine(replace(CLASSIC, device=device, dtype=dtype), Processes())
        self.choice = self.machine.choice
        self._peaks: dict[str, float | None] = {}

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
            if not found.works or not found.environment.items() <= os.environ.items():
                return {"skipped": Message("doesn't work on this CPU")}
            if found.times_float32 is not None and found.times_float32 > SLOWEST_MATMUL:
                return {"skipped": Message("takes {times:.0f} times as long as float32", times=found.times_float32)}
        self._peaks[dtype] = flops = measure_peak(self.machine.device, DTYPES[dtype], seconds=1.0)
        return {"gflops": flops / 1e9} if flops else {"failed": Message("not enough memory")}

    def step(self, key: str) -> Figures:
        """Forward, backward, clipping and AdamW on one batch."""
        config, vocab_size = SHAPES[key]
        tokens = torch.randint(vocab_size, (config.batch_size, config.block_size))
        try:
            engine = Engine(config, build_model(new_shape(config, vocab_size)).to(self.machine.device), self.machine)
            for seconds in (0.0, SECONDS):  # the first is a warm-up
                timing = measure(engine, lambda: [(tokens, tokens)], seconds)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return {"failed": Message("not enough memory")}
        rate = tokens.numel() / timing.step_seconds(engine.config)
        found: Figures = {"ms": 1000 * tokens.numel() / rate, "tokens_per_second": rate}
        peak = self._peaks.get(self.choice.dtype)
        if peak and (used := mfu(rate, engine.flops_per_token, peak)) is not None:
            found |= {"mfu": used, "mfu_peak_gflops": peak / 1e9}
        return found
