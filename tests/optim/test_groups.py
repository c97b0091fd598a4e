"""Which optimizer and which settings each parameter gets."""

from collections import Counter

import pytest
import torch

from nanoscope.config import build
from nanoscope.model import GPT, ModelConfig, Modern
from nanoscope.optim.groups import CombinedOptimizer, build_optimizer


def optimizer_of(model: GPT) -> torch.optim.Optimizer:
    config = build({"weight_decay": 0.3, "beta1": 0.8, "beta2": 0.9, "learning_rate": 0.01})
    return build_optimizer(model, config, "cpu")


@pytest.fixture
def model() -> GPT:
    return GPT(ModelConfig(vocab_size=11, block_size=4, n_layer=2, n_head=1, n_embd=8, bias=True))


def test_every_parameter_is_in_exactly_one_group(model: GPT) -> None:
    grouped = Counter(id(p) for group in optimizer_of(model).param_groups for p in group["params"])
    assert grouped == Counter({id(parameter): 1 for parameter in model.parameters()})


def test_each_parameter_of_the_modern_recipe_has_its_optimizer_and_rate() -> None:
    shape = ModelConfig(
        vocab_size=11, block_size=4, n_layer=1, n_head=1, n_embd=8, recipe="modern", ngrams=2, token_shift=1
    )
    model = Modern(shape)
    config = build({"learning_rate": 0.01, "matrix_lr": 0.02, "table_lr": 0.3})
    optimizer = build_optimizer(model, config, "cpu")
    assert isinstance(optimizer, CombinedOptimizer)
    found = {
        name: (type(part).__name__, pytest.approx(config.peak_lr * group.get("lr_scale", 1.0)))
        for part in optimizer.parts
        for group in part.param_groups
        for name, parameter in model.named_parameters()
        if any(parameter is other for other in group["params"])
    }
    matrices = dict.fromkeys([f"blocks.0.{name}.weight" for name in ("qkv", "proj", "up", "down")], ("Muon", 0.02))
    assert found == {
        **dict.fromkeys([name for name, _ in model.named_parameters()], ("AdamW", 0.01)),
        **matrices,
        "ngrams.table": ("Adagrad", 0.3),
    }


def test_with_output_lr_adagrad_trains_the_vocabulary_too() -> None:
    model = Modern(ModelConfig(vocab_size=11, block_size=4, n_layer=1, n_head=1, n_embd=8, recipe="modern", ngrams=2))
    config = build({"learning_rate": 0.01, "table_lr": 0.3, "output_lr": 0.1})
    optimizer = build_optimizer(model, config, "cpu")
    assert isinstance(optimizer, CombinedOptimizer)
    rates = {
        name: pytest.approx(config.peak_lr * group.get("lr_scale", 1.0))
        for part in optimizer.parts
        if type(part).__name__ == "Adagrad"
        for group in part.param_groups
        for name, parameter in model.named_parameters()
        if any(parameter is other for other in group["params"])
    }
    assert rates == {"embedding.weight": 0.3, "ngrams.table": 0.3, "head.weight": 0.1}


def test_matrices_decay_and_vectors_do_not(model: GPT) -> None:
    decay = {id(p): group["weight_decay"] for group in optimizer_of(model).param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        vector = name.endswith("bias") or ".ln_" in name
        assert decay[id(parameter)] == (0.0 if vector else 0.3), name


def test_the_settings_are_those_of_the_configuration(model: GPT) -> None:
    for group in optimizer_of(model).param_groups:
        assert (group["betas"], group["lr"], group["eps"]) == ((0.8, 0.9), 0.01, 1e-8)


def test_a_frozen_parameter_is_left_out(model: GPT) -> None:
    model.get_parameter("transformer.wpe.weight").requires_grad_(False)
    grouped = [id(p) for group in optimizer_of(model).param_groups for p in group["params"]]
    assert id(model.get_parameter("transformer.wpe.weight")) not in grouped


def test_without_a_gradient_a_step_shrinks_matrices_only(model: GPT) -> None:
    optimizer = optimizer_of(model)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        shrunk = before[name] * (1 - 0.01 * 0.3) if parameter.dim() == 2 else before[name]
        torch.testing.assert_close(parameter.detach(), shrunk)
