"""The modern recipe's model."""

import math
from dataclasses import replace

import pytest
import torch

from nanoscope.config import build
from nanoscope.model import ModelConfig, Modern, cpu_kernels
from nanoscope.optim.groups import build_optimizer

SHAPE = ModelConfig(vocab_size=29, block_size=32, n_layer=2, n_head=2, n_embd=16, recipe="modern", ngrams=4)


SHIFTING = replace(SHAPE, token_shift=3)
both = pytest.mark.parametrize("shape", [SHAPE, SHIFTING], ids=["plain", "token shift"])


def trained(model: Modern, steps: int = 5) -> Modern:
    config = build({"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 32})
    optimizer = build_optimizer(model, config, "cpu")
    for step in range(steps):
        tokens = torch.randint(29, (4, 33), generator=torch.Generator().manual_seed(step))
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def made(shape: ModelConfig = SHAPE) -> Modern:
    torch.manual_seed(0)
    return Modern(shape)


@both
def test_at_first_every_token_is_equally_likely(shape: ModelConfig) -> None:
    tokens = torch.randint(29, (2, 32))
    assert float(made(shape)(tokens, tokens).detach()) == pytest.approx(math.log(29), abs=1e-6)


@both
def test_a_token_does_not_see_those_after_it(shape: ModelConfig) -> None:
    model = trained(made(shape)).eval()
    tokens = torch.randint(29, (1, 32))
    changed = tokens.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 29
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert not torch.allclose(before[:, 20], after[:, 20])


@both
def test_every_weight_learns(shape: ModelConfig) -> None:
    fresh, model = made(shape), trained(made(shape))
    for (name, before), after in zip(fresh.named_parameters(), model.parameters(), strict=True):
        assert not torch.equal(before, after), name


def test_an_ngram_has_the_same_row_at_every_position() -> None:
    ngrams = made().ngrams
    assert ngrams is not None
    rows = ngrams.rows(torch.tensor([[0, 0, 0, 5, 6, 7, 8, 1, 2, 6, 7, 8]]))[0]
    pairs, triples, fours = rows.unbind(-1)
    assert pairs[3] == pairs[8]  # 7 8
    assert triples[3] == triples[8]  # 6 7 8
    assert fours[3] != fours[8]  # 5 6 7 8, 2 6 7 8
    assert len({int(pairs[3]), int(triples[3]), int(fours[3])}) == 3


def test_a_sparse_gradient_of_the_tables_is_the_dense_one() -> None:
    tokens = torch.randint(29, (4, 33))
    gradients = []
    for sparse in (False, True):
        model = trained(made())
        assert model.ngrams is not None
        model.ngrams.sparse = sparse
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        assert model.ngrams.table.grad is not None
        assert model.ngrams.table.grad.is_sparse == sparse
        gradients.append(model.ngrams.table.grad.to_dense())
    torch.testing.assert_close(*gradients)


def test_without_ngrams_there_is_no_table() -> None:
    model = made(ModelConfig(vocab_size=29, block_size=32, n_layer=2, n_head=2, n_embd=16, recipe="modern"))
    assert model.ngrams is None
    tokens = torch.randint(29, (2, 32))
    assert torch.isfinite(model(tokens, tokens))


def test_lookups_are_not_counted_as_arithmetic() -> None:
    model = made()
    assert model.multiplied_parameters() == 2 * 12 * 16**2 + 29 * 16 + 3 * 8 * 16


@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_a_shift_by_hand_is_the_plain_formula_forwards_and_backwards(length: int) -> None:
    torch.manual_seed(0)
    results = []
    for by_hand in (True, False):
        torch.manual_seed(0)
        x, weight = torch.randn(2, length, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
        before = None if by_hand else torch.zeros(2, 3, 4)  # given, even as zeros, it means the plain formula
        y = cpu_kernels.token_shift(x, weight, before)
        (y * torch.randn(y.shape)).sum().backward()
        results.append((y.detach(), x.grad, weight.grad))
    for by_hand_result, plain in zip(*results, strict=True):
        torch.testing.assert_close(by_hand_result, plain)
    x, weight = torch.ones(1, 4, 1), torch.tensor([[10.0], [100.0]])
    assert cpu_kernels.token_shift(x, weight).flatten().tolist() == [1, 11, 111, 111]


def test_dropout_of_ngrams_drops_whole_rows_in_training_only() -> None:
    model = made(replace(SHAPE, ngram_dropout=0.5))
    assert model.ngrams is not None
    torch.nn.init.normal_(model.ngrams.table)
    seen: list[torch.Tensor] = []
    model.ngrams.proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    tokens = torch.randint(29, (8, 32))
    model.train()
    model(tokens)
    model.eval()
    model(tokens)
    dropped, whole = (each.unflatten(-1, (3, -1)) for each in seen)  # (B, T, n - 1, W)
    kept = dropped.abs().sum(-1) > 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])
