"""A compiled model is one graph, and computes what the eager one does."""

import pytest
import torch
from torch import Tensor, nn

from nanoscope.model import LanguageModel, ModelConfig, build_model

SIZES = {"vocab_size": 65, "block_size": 32, "n_layer": 2, "n_head": 4, "n_embd": 32}


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    torch.compiler.reset()


def model_of(**settings: float | int | str) -> LanguageModel:
    torch.manual_seed(0)
    return build_model(ModelConfig(**SIZES, **settings))  # type: ignore[arg-type]


def loss_and_gradients(plain: LanguageModel, model: nn.Module) -> list[Tensor]:
    torch.manual_seed(1)
    tokens, targets = torch.randint(65, (2, 3, 32))
    loss = model(tokens, targets)
    plain.zero_grad()
    loss.backward()
    return [loss.detach(), *(p.grad.to_dense() for p in plain.parameters() if p.grad is not None)]


@pytest.mark.parametrize(
    "settings",
    [
        {"recipe": "classic"},
        {"recipe": "classic", "dropout": 0.2, "bias": True},
        {"recipe": "modern"},
        {"recipe": "modern", "dropout": 0.2, "ngrams": 4, "ngram_dropout": 0.5, "token_shift": 3},
    ],
)
@pytest.mark.parametrize(("dtype", "rtol", "atol"), [("float32", 1e-4, 1e-5), ("bfloat16", 0.05, 3e-3)])
def test_a_compiled_model_is_one_graph_with_the_same_loss_and_gradients(
    settings: dict[str, float | int | str], dtype: str, rtol: float, atol: float
) -> None:
    model = model_of(**settings)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")  # fails where the graph would break
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
        expected, found = loss_and_gradients(model, model), loss_and_gradients(model, compiled)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=rtol, atol=atol)


def test_a_compiled_evaluation_is_one_graph() -> None:
    model = model_of(recipe="classic").eval()
    tokens = torch.randint(65, (3, 32))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(tokens, tokens), model(tokens, tokens))
