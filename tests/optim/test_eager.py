"""torch's optimizers without the import of torch._dynamo."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from nanoscope.optim.eager import AdamW

TRAINS = """
import sys, torch
from nanoscope.config import TrainConfig
from nanoscope.model import ModelConfig, build_model
from nanoscope.optim.groups import build_optimizer
for recipe in ("classic", "modern"):
    model = build_model(ModelConfig(vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=4, recipe=recipe))
    optimizer = build_optimizer(model, TrainConfig(recipe=recipe), "cpu")
    tokens = torch.zeros(1, 4, dtype=torch.int64)
    model(tokens, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.slow
def test_a_step_of_either_recipe_does_not_import_the_compiler():
    done = subprocess.run([sys.executable, "-c", TRAINS], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_those_of_torch_bit_for_bit(fused):
    assert all(map(torch.equal, trained(AdamW, fused), trained(torch.optim.AdamW, fused)))


def trained(kind: type[torch.optim.AdamW], fused: bool) -> list[nn.Parameter]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(8, 4)), nn.Parameter(torch.randn(4))]
    optimizer = kind(parameters, lr=1e-2, fused=fused)
    for _ in range(5):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    return parameters
