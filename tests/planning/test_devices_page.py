"""docs/devices.md recommends what planning/plan.py computes."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from nanoscope.config_sources import resolve
from nanoscope.hardware.peaks import all_devices

DOCS = Path(__file__).parents[2] / "docs"
PLANNED = runpy.run_path(str(DOCS / "devices.py"))
PAGE = (DOCS / "devices.md").read_text("utf-8")
COMMANDS = re.findall(r"`nanoscope train ([^`]+)`", PAGE)


@pytest.mark.slow
def test_the_table_is_what_is_computed_today() -> None:
    assert PLANNED["updated"]() == PAGE, "to update it: python docs/devices.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "split"),
    [("RTX 4060", (4, 120)), ("RTX 3060 Laptop", (3, 160)), ("RTX 4070", (8, 60)), ("RTX 4080", (12, 40)),
     ("T4", (12, 40))],
)  # fmt: skip
def test_a_recommended_split_fits_and_keeps_the_tokens_of_a_step(device: str, split: tuple[int, int]) -> None:
    preset = resolve(["gpt2-124m"]).config
    config = replace(preset, batch_size=split[0], gradient_accumulation_steps=split[1])
    assert config.tokens_per_step == preset.tokens_per_step
    assert PLANNED["planned"](config, device).fits
    assert split == (12, 40) or f"--batch_size={split[0]} --gradient_accumulation_steps={split[1]}" in PAGE


@pytest.mark.parametrize("words", COMMANDS)
def test_a_recommended_command_is_valid(words: str) -> None:
    assert resolve(words.split()).config.max_iters > 0


def test_the_page_counts_what_there_is() -> None:
    assert f": {len(all_devices())} rows" in PAGE
