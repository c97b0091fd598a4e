"""Short measurements of this machine for `nanoscope bench`: matmul, training step, evaluation, sampling."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch.nn import functional as F

from nanoscope.config import TrainConfig
from nanoscope.generation.sampler import Sampling, generate
from nanoscope.hardware.device import DTYPES, Choice, autocast, keep_freed_memory, look, measure_peak, synchronize
from nanoscope.hardware.memory import is_out_of_memory
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Count, Joined, Text
from nanoscope.model import ModelConfig, build_model
from nanoscope.model.flops import flops_per_token, mfu
from nanoscope.optim.groups import build_optimizer, clip_gradients
from nanoscope.version import __version__

SLOWEST_MATMUL = 10  # times float32's; measuring a slower one would take too long

Figures = dict[str, float | str]
"""By unit (gflops, ms, tokens_per_second, mfu, mfu_peak_gflops), or one reason under 'skipped' or 'failed'."""


@dataclass(frozen=True)
class Shape:
    model: ModelConfig
    batch_size: int

    @property
    def tokens(self) -> int:
        return self.batch_size * self.model.block_size

    @property
    def label(self) -> str:
        size, batch = f"{self.model.n_layer}×{self.model.n_embd}", f"{self.batch_size}×{self.model.block_size}"
        return Text("{size}, {batch} tokens", size=size, batch=batch)


SHAPES = {
    # nanoGPT's example for a CPU, its baby GPT with a quarter of the batch, and GPT-2 124M.
    "4x128": Shape(ModelConfig(vocab_size=65, block_size=64, n_layer=4, n_head=4, n_embd=128), 12),
    "6x384": Shape(ModelConfig(vocab_size=65, block_size=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2), 16),
    "12x768": Shape(ModelConfig(vocab_size=50304, block_size=512, n_layer=12, n_head=12, n_embd=768), 1),
}
SAMPLED = SHAPES["6x384"].model


@dataclass(frozen=True)
class Measurement:
    key: str
    label: str
    measure: Callable[[], Figures]

    def figures(self) -> Figures:
        try:
            return self.measure()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return {"failed": Text("not enough memory")}


def machine(choice: Choice) -> dict[str, str | int]:
    """What the figures depend on."""
    return {
        "cpu": look().cpu_name,
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "nanoscope": __version__,
        "device": choice.device,
        "device_name": choice.device_name,
        "dtype": choice.dtype,
    }


class MachineBench:
    """Measures one device, in eager mode. A step's MFU is relative to the matmul peak in the same dtype.

    `writing` is the choice for sampling, if it differs from that for training.
    """

    def __init__(self, choice: Choice, writing: Choice | None = None) -> None:
        self.choice, self.writing, self.device = choice, writing or choice, torch.device(choice.device)
        self._peak_flops: dict[str, float | None] = {}
        if choice.type == "cpu":
            keep_freed_memory()  # as training does

    def measurements(self) -> list[Measurement]:
        """All of them, in order; a key begins with the name of its group."""
        found = [
            Measurement(f"peak_{dtype}", Text("matmul, {dtype}", dtype=dtype), partial(self.peak, dtype))
            for dtype in DTYPES
        ]
        for group, label, measure in (
            ("step", Text("training step"), self.step),
            ("evaluation", Text("evaluation"), self.evaluation),
        ):
            for key, shape in SHAPES.items():
                found.append(Measurement(f"{group}_{key}", Joined(", ", [label, shape.label]), partial(measure, shape)))
        for key, texts in (("sample", 1), ("sample_16", 16)):
            label = Count("sampling, 6×384, {n} text", "sampling, 6×384, {n} texts", texts)
            found.append(Measurement(key, label, partial(self.sample, SAMPLED, texts)))
        return found

    def peak(self, dtype: str) -> Figures:
        if self.choice.type == "cpu" and dtype != "float32":  # could crash the process, or take minutes
            found = probe_cpu_dtype(dtype)
            if not found.works or not found.environment.items() <= os.environ.items():
                return {"skipped": Text("doesn't work on this CPU")}
            if found.times_float32 is not None and found.times_float32 > SLOWEST_MATMUL:
                return {"skipped": Text("takes {times:.0f} times as long as float32", times=found.times_float32)}
        flops = self._peak(dtype)
        return {"failed": Text("not enough memory")} if flops is None else {"gflops": flops / 1e9}

    def step(self, shape: Shape) -> Figures:
        """Forward, backward, clipping and AdamW on one batch."""
        model = build_model(shape.model).to(self.device)
        optimizer = build_optimizer(model, TrainConfig(recipe="classic"), self.choice.type)
        scaler = torch.amp.GradScaler(self.choice.type, enabled=self.choice.dtype == "float16")
        tokens, targets = self._batch(shape)

        def train_step() -> None:
            with autocast(self.choice):
                loss = model(tokens, targets)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            clip_gradients(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

        seconds = self._median_seconds(train_step)
        per_token = flops_per_token(shape.model, model.multiplied_parameters())
        found: Figures = {"ms": 1000 * seconds, "tokens_per_second": shape.tokens / seconds}
        peak = self._peak(self.choice.dtype)
        if peak is not None and (used := mfu(shape.tokens / seconds, per_token, peak)) is not None:
            found |= {"mfu": used, "mfu_peak_gflops": peak / 1e9}
        return found

    @torch.no_grad()
    def evaluation(self, shape: Shape) -> Figures:
        """A forward pass with its loss."""
        model = build_model(shape.model).to(self.device).eval()
        tokens, targets = self._batch(shape)

        def evaluate() -> None:
            with autocast(self.choice):
                F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

        return {"tokens_per_second": shape.tokens / self._median_seconds(evaluate)}

    def sample(self, config: ModelConfig, texts: int) -> Figures:
        """`texts` texts at once, each from one token until the context is full."""
        model = build_model(config).to(self.device)
        prompt = torch.zeros(texts, 1, dtype=torch.int64, device=self.device)
        settings = Sampling(max_new_tokens=config.block_size - 1)

        def sample() -> None:
            with autocast(self.writing):
                for _ in generate(model, prompt, settings, config.vocab_size):
                    pass

        return {"tokens_per_second": texts * settings.max_new_tokens / self._median_seconds(sample)}

    def _peak(self, dtype: str) -> float | None:
        if dtype not in self._peak_flops:
            self._peak_flops[dtype] = measure_peak(self.device, DTYPES[dtype], seconds=1.0)
        return self._peak_flops[dtype]

    def _batch(self, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        size = (2, shape.batch_size, shape.model.block_size)
        tokens, targets = torch.randint(shape.model.vocab_size, size, device=self.device)
        return tokens, targets

    def _median_seconds(self, action: Callable[[], None]) -> float:
        """Of three calls or more, for at least 2 s; of one or two if they take 4 s together."""
        action()  # warm-up
        times: list[float] = []
        while sum(times) < 2 or (len(times) < 3 and sum(times) < 4):
            synchronize(self.device)
            start = time.perf_counter()
            action()
            synchronize(self.device)
            times.append(time.perf_counter() - start)
        return median(times)
