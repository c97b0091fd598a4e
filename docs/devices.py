"""Puts what planning/plan.py computes into docs/devices.md: python docs/devices.py"""

import re
from dataclasses import replace
from pathlib import Path

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.hardware.peaks import named_device
from nanoscope.planning.plan import Plan, plan_elsewhere
from nanoscope.planning.request import Data, Request
from nanoscope.training.initial_model import new_shape

PAGE = Path(__file__).with_name("devices.md")
TABLE = re.compile(r"(<!-- gpt2-124m -->\n).*?(<!-- end -->)", re.DOTALL)
DEVICES = (
    "RTX 3060 Laptop", "RTX 4060", "RTX 4070", "RTX 4060 Ti 16GB", "RTX 4080", "RTX 4090", "T4", "Apple M2 8GB",
    "Apple M3 Pro 18GB", "Apple M4 Max 64GB",
)  # fmt: skip
HEAD = "| device | dtype | micro-batch × accumulation | memory | tokens/s |\n" + 5 * "| --- " + "|\n"
GPT2_VOCABULARY = 50257


def updated() -> str:
    """The page with what is computed today."""
    return TABLE.sub(lambda found: found[1] + HEAD + "".join(map(row, DEVICES)) + found[2], PAGE.read_text("utf-8"))


def planned(config: TrainConfig, device: str) -> Plan:
    data = Data("openwebtext", None, GPT2_VOCABULARY, None, None)
    return plan_elsewhere(Request(config, "gpt2-124m", new_shape(config, GPT2_VOCABULARY), data), named_device(device))


def row(device: str) -> str:
    """GPT-2 124M with the largest micro-batch that fits, and as many tokens a step as nanoGPT."""
    config = resolve(["gpt2-124m"]).config
    fitting = [split for split in planned(config, device).splits if split.fits]
    best = max(fitting, key=lambda split: split.batch_size)
    plan = planned(
        replace(config, batch_size=best.batch_size, gradient_accumulation_steps=best.gradient_accumulation_steps),
        device,
    )
    memory = f"{plan.peak_bytes / 2**30:.1f} of {plan.available_bytes / 2**30:.1f} GB"
    speed = "no run is known"
    if plan.seconds and plan.seconds_low and plan.seconds_high and (usual := plan.tokens_per_second):
        slow, fast = usual * plan.seconds / plan.seconds_high, usual * plan.seconds / plan.seconds_low
        speed = f"{usual:,.0f} ({slow:,.0f}–{fast:,.0f})"
    split = f"{best.batch_size} × {best.gradient_accumulation_steps}"
    return f"| {plan.device_name} | {plan.dtype} | {split} | {memory} | {speed} |\n"


if __name__ == "__main__":
    PAGE.write_text(updated(), "utf-8")
