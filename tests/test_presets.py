"""Every preset is a note to a person and a configuration that could be trained."""

import re
from typing import Any

import pytest
import torch

from nanoscope.config import KEYS, TrainConfig
from nanoscope.config_sources import preset_note, preset_size, preset_text, presets, resolve
from nanoscope.model import build_model
from nanoscope.training.initial_model import new_shape


def test_the_presets_that_the_readme_speaks_of_are_there() -> None:
    small = ["laptop", "laptop-classic", "quick", "quick-bpe"]
    assert presets() == ["babygpt", "babygpt-classic", "finetune", "gpt2-124m", *small]


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_a_valid_configuration_named_after_itself(name: str) -> None:
    resolved = resolve([name])
    assert resolved.name == name
    assert resolved.config.out_dir == ""
    assert set(resolved.given) <= set(KEYS)
    assert resolved.typed == {}


@pytest.mark.parametrize("recipe", ["modern", "classic"])
@pytest.mark.parametrize("name", presets())
def test_a_preset_with_another_recipe_has_that_recipes_optimizer_and_its_own_shape(name: str, recipe: Any) -> None:
    preset, config = resolve([name]).config, resolve([name, f"--recipe={recipe}"]).config
    usual = preset if preset.recipe == recipe else TrainConfig(recipe=recipe)
    of_recipe = {key for key, item in KEYS.items() if item.metadata["recipe"] or item.metadata["group"] == "optimizer"}
    for key in KEYS.keys() - {"recipe"}:
        expected = usual if key in of_recipe - {"max_iters"} else preset
        assert getattr(config, key) == getattr(expected, key), key


@pytest.mark.parametrize("name", presets())
def test_a_preset_begins_with_a_note_that_says_what_it_is_for(name: str) -> None:
    assert preset_text(name).startswith("# ")
    assert preset_note(name).endswith(".")
    assert len(preset_note(name)) < 120


def notes(name: str) -> str:
    return " ".join(line[2:] for line in preset_text(name).splitlines() if line.startswith("# "))


@pytest.mark.parametrize("name", presets())
def test_a_preset_says_which_validation_loss_to_expect(name: str) -> None:
    assert re.search(r"validation loss\b[^;]{0,20}? [1-9]\.\d\d", notes(name))


@pytest.mark.parametrize("name", [name for name in presets() if "iterations" in notes(name)])
def test_the_iterations_in_a_note_are_the_presets_own(name: str) -> None:
    (said,) = re.findall(r"after ([\d,]+) iterations", notes(name))
    assert int(said.replace(",", "")) == resolve([name]).config.max_iters


@pytest.mark.parametrize("name", presets())
def test_the_parameters_in_a_note_are_those_of_the_model(name: str) -> None:
    config = resolve([name]).config
    with torch.device("meta"):
        model = build_model(new_shape(config, {"char": 65, "bpe": 4096, "gpt2": 50257}[config.tokenizer]))
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert preset_size(name) == (f"{millions:.0f}M" if millions > 100 else f"{millions:.1f}M")


def test_laptop_classic_is_the_cpu_command_of_nanogpt() -> None:
    config = resolve(["laptop-classic"]).config
    assert config.recipe == "classic"
    shape = (config.n_layer, config.n_head, config.n_embd, config.block_size, config.batch_size)
    assert shape == (4, 4, 128, 64, 12)
    assert (config.learning_rate, config.lowest_lr, config.beta2) == (1e-3, 1e-4, 0.99)
    assert (config.max_iters, config.decay_iters, config.warmup_iters) == (2000, 2000, 100)
    assert (config.dropout, config.bias, config.eval_iters, config.eval_interval) == (0.0, False, 20, 250)


def test_babygpt_classic_is_the_shakespeare_config_of_nanogpt() -> None:
    config = resolve(["babygpt-classic"]).config
    assert config.recipe == "classic"
    shape = (config.n_layer, config.n_head, config.n_embd, config.block_size, config.batch_size)
    assert shape == (6, 6, 384, 256, 64)
    assert (config.dropout, config.max_iters, config.decay_iters, config.eval_iters) == (0.2, 5000, 5000, 200)


def test_gpt2_sees_half_a_million_tokens_an_iteration() -> None:
    config = resolve(["gpt2-124m"]).config
    assert config.tokens_per_step == 491_520
    assert (config.n_layer, config.n_head, config.n_embd, config.block_size) == (12, 12, 768, 1024)


def test_finetune_begins_from_gpt2_at_a_constant_low_rate() -> None:
    config = resolve(["finetune"]).config
    assert (config.init_from, config.decay_lr, config.learning_rate) == ("gpt2", False, 3e-5)
    assert config.tokens_per_step == 32_768
