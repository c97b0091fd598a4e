"""nanoscope.model.weights: the shapes that a file must have are those of the models."""

from dataclasses import replace

import pytest

from nanoscope.model import ModelConfig, build_model
from nanoscope.model.weights import parameter_shapes

CLASSIC = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16)
MODERN = replace(CLASSIC, recipe="modern")


@pytest.mark.parametrize(
    "config",
    [
        CLASSIC,
        replace(CLASSIC, bias=True),
        MODERN,
        replace(MODERN, ngrams=2),
        replace(MODERN, ngrams=4, n_embd=160),
        replace(MODERN, token_shift=3, n_layer=3),
    ],
)
def test_the_shapes_without_memory_are_those_of_the_model(config: ModelConfig) -> None:
    built = {name: tuple(parameter.shape) for name, parameter in build_model(config).named_parameters()}
    assert parameter_shapes(config) == built
