"""Puts the figures of planning/elsewhere.py into docs/devices.md: python docs/devices.py"""

import re
from dataclasses import replace
from pathlib import Path

from nanoscope.config_sources import resolve
from nanoscope.hardware.peaks import named_device
from nanoscope.planning.elsewhere import elsewhere
from nanoscope.training.initial_model import new_shape

PAGE = Path(__file__).with_name("devices.md")
TABLE = re.compile(r"(<!-- gpt2-124m -->\n).*?(<!-- end -->)", re.DOTALL)
DEVICES = (
    "RTX 3060 Laptop", "RTX 4060", "RTX 4070", "RTX 4060 Ti 16GB", "RTX 4080", "RTX 4090", "T4", "Apple M2 8GB",
    "Apple M3 Pro 18GB", "Apple M4 Max 64GB",
)  # fmt: skip
HEAD = (
    "| device | dtype, mode | micro-batch × accumulation | memory | tokens/s | MFU assumed | from |\n"
    + 7 * "| --- "
    + "|\n"
)
GPT2_VOCABULARY = 50257


def updated() -> str:
    """The page with what is computed today."""
    return TABLE.sub(lambda found: found[1] + HEAD + "".join(map(row, DEVICES)) + found[2], PAGE.read_text("utf-8"))


def row(name: str) -> str:
    """GPT-2 124M with the largest micro-batch that fits, and as many tokens a step as nanoGPT."""
    config, device = resolve(["gpt2-124m"]).config, named_device(name)
    size = elsewhere(config, new_shape(config, GPT2_VOCABULARY), device).largest_micro_batch
    chosen = f"{device.label} | "
    if size == 0:
        return f"| {chosen}| does not fit | | | | |\n"
    config = replace(config, batch_size=size, gradient_accumulation_steps=config.sequences_per_step // size)
    found = elsewhere(config, new_shape(config, GPT2_VOCABULARY), device)
    mode, split = "compiled" if found.compiled else "eager", f"{size} × {config.gradient_accumulation_steps}"
    memory = f"{(found.memory.peak + found.process_bytes) / 2**30:.1f} of {found.available_bytes / 2**30:.1f} GB"
    start = f"| {chosen}{found.dtype}, {mode} | {split} | {memory} | "
    tokens, times = config.tokens_per_step, found.times
    if times.step_s is None or times.mfu is None:
        return f"{start}at most {tokens / times.least_s:,.0f} | n/a | no known run: the peak alone |\n"
    step, mfu = times.step_s, times.mfu
    speed = f"{tokens / step.expected:,.0f} ({tokens / step.high:,.0f}–{tokens / step.low:,.0f})"
    return f"{start}{speed} | {mfu.expected:.0%} ({mfu.low:.0%}–{mfu.high:.0%}) | {mfu.basis} |\n"


if __name__ == "__main__":
    PAGE.write_text(updated(), "utf-8")
