"""Which parameters decay, and that none is forgotten."""

from collections import Counter

import pytest
import torch

from nanoscope.config import build
from nanoscope.model import GPT, ModelConfig
from nanoscope.optim.groups import build_optimizer


def optimizer_of(model: GPT) -> torch.optim.AdamW:
    config = build({"weight_decay": 0.3, "beta1": 0.8, "beta2": 0.9, "learning_rate": 0.01})
    return build_optimizer(model, config, "cpu")


@pytest.fixture
def model() -> GPT:
    return GPT(ModelConfig(vocab_size=11, block_size=4, n_layer=2, n_head=1, n_embd=8, bias=True))


def test_every_parameter_is_in_exactly_one_group(model: GPT) -> None:
    grouped = Counter(id(p) for group in optimizer_of(model).param_groups for p in group["params"])
    assert grouped == Counter({id(parameter): 1 for parameter in model.parameters()})


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
