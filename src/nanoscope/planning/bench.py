"""Short measurements of this machine for `nanoscope bench`: matmul, training step, evaluation, sampling."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

import torch
from torch.nn import functional as F

from nanoscope.config import TrainConfig
from nanoscope.generation.sampler import Sampling, generate
from nanoscope.hardware.device import DTYPES, DeviceConfig, detect, measure_peak
from nanoscope.hardware.memory import is_out_of_memory
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Message, Shown, joined
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
SAMPLED = "6x384"
KEYS = [
    *(f"peak_{dtype}" for dtype in DTYPES),
    *(f"{group}_{shape}" for group in ("step", "evaluation") for shape in SHAPES),
    "sample",
    "sample_16",
]
"""Of all measurements, in order; each begins with the name of its group."""


def label(key: str) -> Message:
    group, _, what = key.partition("_")
    if group == "peak":
        return Message("matmul, {dtype}", dtype=what)
    if group == "sample":
        return Message("sampling, 6×384, {n} text", "sampling, 6×384, {n} texts", n=int(what or 1))
    config = SHAPES[what][0]
    size, batch = what.replace("x", "×"), f"{config.batch_size}×{config.block_size}"
    name = Message("training step") if group == "step" else Message("evaluation")
    return joined(", ", [name, Message("{size}, {batch} tokens", size=size, batch=batch)])


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
        self._sampling = self.machine.sampling if dtype == "auto" else self.machine.autocast
        self._peak = cache(lambda dtype: measure_peak(self.machine.device, DTYPES[dtype], seconds=1.0))

    def figures(self, key: str) -> Figures:
        """Measure what a key of KEYS names."""
        group, _, what = key.partition("_")
        try:
            return self.sample(SAMPLED, int(what or 1)) if group == "sample" else getattr(self, group)(what)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return {"failed": Message("not enough memory")}

    def peak(self, dtype: str) -> Figures:
        if self.choice.type == "cpu" and dtype != "float32":  # could crash the process, or take minutes
            found = probe_cpu_dtype(dtype)
            if not found.works or not found.environment.items() <= os.environ.items():
                return {"skipped": Message("doesn't work on this CPU")}
            if found.times_float32 is not None and found.times_float32 > SLOWEST_MATMUL:
                return {"skipped": Message("takes {times:.0f} times as long as float32", times=found.times_float32)}
        flops = self._peak(dtype)
        return {"gflops": flops / 1e9} if flops else {"failed": Message("not enough memory")}

    def step(self, key: str) -> Figures:
        """Forward, backward, clipping and AdamW on one batch."""
        engine, tokens = self._engine(key)
        for seconds in (0.0, SECONDS):  # the first is a warm-up
            timing = measure(engine, lambda: [(tokens, tokens)], seconds)
        rate = tokens.numel() / timing.step_seconds(engine.config)
        found: Figures = {"ms": 1000 * tokens.numel() / rate, "tokens_per_second": rate}
        peak = self._peak(self.choice.dtype)
        if peak is not None and (used := mfu(rate, engine.flops_per_token, peak)) is not None:
            found |= {"mfu": used, "mfu_peak_gflops": peak / 1e9}
        return found

    def evaluation(self, key: str) -> Figures:
        """A forward pass with its loss."""
        engine, tokens = self._engine(key)
        model, tokens = engine.plain_model.eval(), tokens.to(self.machine.device)

        def evaluate() -> None:
            with torch.no_grad(), self.machine.autocast():
                F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

        return {"tokens_per_second": tokens.numel() / self._median_seconds(evaluate)}

    def sample(self, key: str, texts: int) -> Figures:
        """`texts` texts at once, each from one token until the context is full."""
        model = self._engine(key)[0].plain_model
        prompt = torch.zeros(texts, 1, dtype=torch.int64, device=self.machine.device)
        settings = Sampling(max_new_tokens=model.config.block_size - 1)

        def sample() -> None:
            with self._sampling():
                list(generate(model, prompt, settings, model.config.vocab_size))

        return {"tokens_per_second": texts * settings.max_new_tokens / self._median_seconds(sample)}

    def _engine(self, key: str) -> tuple[Engine, torch.Tensor]:
        """A new model, and tokens for it."""
        config, vocab_size = SHAPES[key]
        model = build_model(new_shape(config, vocab_size)).to(self.machine.device)
        return Engine(config, model, self.machine), torch.randint(vocab_size, (config.batch_size, config.block_size))

    def _median_seconds(self, action: Callable[[], None]) -> float:
        """Of as many calls as take SECONDS, after a first one."""
        times: list[float] = []
        while sum(times[1:]) < SECONDS:
            began = time.perf_counter()
            action()
            self.machine.synchronize()
            times.append(time.perf_counter() - began)
        return median(times[1:])
