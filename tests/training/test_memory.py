"""The model of memory: a fixed part, and as much again for each sequence."""

from typing import Literal

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError
from nanoscope.model import ModelConfig, build_model
from nanoscope.optim.groups import build_optimizer
from nanoscope.training.checkpoint import checkpoint_tensors
from nanoscope.training.memory import Memory, check_fits, checkpoint_bytes


def test_memory_grows_with_the_sequences() -> None:
    memory = Memory(fixed=1000, each=100)
    assert memory.total(8) == 1800
    assert memory.fits(8, 2000)
    assert not memory.fits(8, 1900)  # some room is needed
    assert memory.largest(2000) == 6
    assert memory.largest(1000) == 0


def test_a_model_larger_than_the_memory_is_refused_before_any_of_it_is_taken() -> None:
    shape = ModelConfig(vocab_size=50304, block_size=1024, n_layer=100, n_head=64, n_embd=65536)
    with pytest.raises(JobError, match="Reduce --n_layer or --n_embd"):
        check_fits(shape, torch.device("cpu"))


@pytest.mark.parametrize("recipe", ["modern", "classic"])
def test_the_size_of_a_checkpoint_is_known_before_the_first_step(recipe: Literal["modern", "classic"]) -> None:
    shape = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16, recipe=recipe)
    model = build_model(shape)
    optimizer = build_optimizer(model, TrainConfig(recipe=recipe), "cpu")
    expected = checkpoint_bytes(optimizer)
    tokens = torch.zeros(1, 8, dtype=torch.long)
    model(tokens, tokens).backward()
    optimizer.step()
    tensors = [tensor for file in checkpoint_tensors(model, optimizer).values() for tensor in file.values()]
    assert sum(tensor.nbytes for tensor in tensors) == pytest.approx(expected, rel=0.02)  # and a count per parameter
