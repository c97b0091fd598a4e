"""The arithmetic of a token, by the formula and by torch's counter.

The counter runs on the meta device, where the functions are those of a GPU, with attention as plain matmuls: a flash
kernel's backward pass recomputes the scores, which the definition of MFU does not count, and the hand-written attention
for CPUs leaves out blocks of the upper triangle, which it does. Norms, token shifts and other elementwise operations
count in neither.
"""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nanoscope.model import ModelConfig, build_model
from nanoscope.model.flops import flops_per_token

TINY = {"vocab_size": 65, "block_size": 64, "n_layer": 2, "n_head": 4, "n_embd": 64}
GPT2 = {"vocab_size": 50304, "block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768}
SHAPES = {
    "classic": TINY,
    "classic with biases": TINY | {"bias": True, "n_embd": 128},
    "classic, long context": TINY | {"block_size": 1024, "n_embd": 32},
    "GPT-2": GPT2,
    "modern": TINY | {"recipe": "modern"},
    "modern with n-grams": TINY | {"recipe": "modern", "ngrams": 4},
    "modern with long n-grams and shifts": TINY | {"recipe": "modern", "ngrams": 8, "token_shift": 8, "n_embd": 32},
    "modern, large vocabulary": TINY | {"recipe": "modern", "ngrams": 4, "token_shift": 3, "vocab_size": 50304},
    "modern, as large as GPT-2": GPT2 | {"recipe": "modern", "ngrams": 4},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_flops_per_token_are_those_that_torch_counts(shape: dict[str, object]) -> None:
    config = ModelConfig(**shape)  # type: ignore[arg-type]
    with torch.device("meta"):
        model = build_model(config)
        tokens = torch.zeros(2, config.block_size, dtype=torch.int64)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(tokens, tokens).backward()
    counted = counter.get_total_flops() / tokens.numel()
    assert flops_per_token(config, model.multiplied_parameters()) == pytest.approx(counted, rel=0.02)
