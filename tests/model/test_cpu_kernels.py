"""The hand-written functions compute what torch's own compute."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fake_devices import SHAPES, forward_pass, gpu, on_fake_cuda
from nanoscope.model import cpu_kernels


def plain_attention(qkv: Tensor, n_head: int, rotation: Tensor | None = None) -> Tensor:
    B, T, width = qkv.shape
    q, k, v = qkv.view(B, T, 3, n_head, -1).permute(2, 0, 3, 1, 4)
    if rotation is not None:
        turn = torch.view_as_complex(rotation)
        q, k = (torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn for x in (q, k))
        q, k = torch.view_as_real(q).flatten(-2), torch.view_as_real(k).flatten(-2)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, width // 3)


def value_and_gradient(function, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    x = x.clone().requires_grad_()
    y = function(x)
    weights = torch.linspace(-1, 1, y.numel()).view(y.shape)
    (y * weights).sum().backward()
    assert x.grad is not None
    return y.detach(), x.grad


@pytest.mark.parametrize("tokens", [1, 2, 64, 300])  # 300: more than one block of queries
@pytest.mark.parametrize("rotary", [False, True])
def test_attention_and_its_gradient_are_torchs_own(tokens: int, rotary: bool) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(2, tokens, 3 * 32)
    rotation = cpu_kernels.rotary_positions(tokens, 8) if rotary else None
    ours = value_and_gradient(lambda x: cpu_kernels.causal_attention(x, 4, rotation=rotation), qkv)
    theirs = value_and_gradient(lambda x: plain_attention(x, 4, rotation), qkv)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rotary", [False, True])
def test_attention_in_16_bits_differs_from_float32_by_rounding_only(rotary: bool) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(2, 300, 3 * 32).bfloat16()
    rotation = cpu_kernels.rotary_positions(300, 8) if rotary else None
    found = value_and_gradient(lambda x: cpu_kernels.causal_attention(x, 4, rotation=rotation), qkv)
    exact = value_and_gradient(lambda x: cpu_kernels.causal_attention(x, 4, rotation=rotation), qkv.float())
    for mine, other in zip(found, exact, strict=True):
        assert mine.dtype == torch.bfloat16
        assert (mine.float() - other).norm() < 0.02 * other.norm()


def test_dropout_in_16_bits_rounds_what_float32_gives() -> None:
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        torch.manual_seed(0)
        x = torch.randn(100, 11).bfloat16().to(dtype)
        results.append([found.float() for found in value_and_gradient(lambda x: cpu_kernels.dropout(x, 0.25, True), x)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.02, atol=1e-6)


def test_attention_without_a_gradient_is_the_same_as_with_one() -> None:
    qkv, rotation = torch.randn(2, 40, 3 * 32), cpu_kernels.rotary_positions(40, 8)
    with_gradient = cpu_kernels.causal_attention(qkv.clone().requires_grad_(), 4, rotation=rotation)
    torch.testing.assert_close(cpu_kernels.causal_attention(qkv, 4, rotation=rotation), with_gradient.detach())


def test_dropout_in_attention_drops_shares_and_its_gradient_follows() -> None:
    torch.manual_seed(0)
    qkv = torch.randn(2, 20, 3 * 32)

    def reference(x: Tensor) -> Tensor:
        q, k, v = x.view(2, 20, 3, 4, 8).permute(2, 0, 3, 1, 4).reshape(3, 8, 20, 8)
        scores = q @ k.mT / math.sqrt(8) + torch.full((20, 20), -torch.inf).triu(1)
        torch.manual_seed(7)
        y = (scores.softmax(-1) * cpu_kernels.dropout_factors(scores, 0.3)) @ v
        return y.view(2, 4, 20, 8).transpose(1, 2).reshape(2, 20, 32)

    def ours(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return cpu_kernels.causal_attention(x, 4, dropout=0.3)

    for mine, other in zip(value_and_gradient(ours, qkv), value_and_gradient(reference, qkv), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_dropout_zeroes_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(1)
    y = cpu_kernels.dropout(torch.ones(200_000, requires_grad=True), p, training=True)
    assert float((y == 0).float().mean()) == pytest.approx(p, abs=0.005)
    assert float(y.detach().mean()) == pytest.approx(1, abs=0.03)


def test_dropout_depends_on_torchs_seed_alone_and_differs_from_call_to_call() -> None:
    def twice() -> tuple[Tensor, Tensor]:
        torch.manual_seed(3)
        return cpu_kernels.dropout(torch.ones(1000), 0.5, True), cpu_kernels.dropout(torch.ones(1000), 0.5, True)

    first, second = twice()
    assert not torch.equal(first, second)
    assert all(map(torch.equal, (first, second), twice()))


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 7, requires_grad=True)
    y = cpu_kernels.dropout(x, 0.4, True)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)  # it is linear in what it keeps


def test_nothing_is_dropped_in_evaluation() -> None:
    x = torch.randn(100)
    assert cpu_kernels.dropout(x, 0.5, training=False) is x


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_relu_squared_makes_no_copy_in_float32_on_a_gpu(dtype: str) -> None:
    with on_fake_cuda():
        _, _, ops = forward_pass(SHAPES["modern"], gpu(dtype=dtype))
    names = [op.name for op in ops]
    between = ops[names.index("relu") : names.index("mm", names.index("relu"))]  # from `up` to `down`
    assert {given for op in between for given in op.gives} == {getattr(torch, dtype)}


@pytest.mark.parametrize("scale", [1.0, 100.0])  # with 100, shares of less than 1e-38 are rounded to 0
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_of_many_logits_and_its_gradient_are_torchs_own(
    scale: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(cpu_kernels, "LOGITS_AT_ONCE", 5 * cpu_kernels.MANY_LOGITS)  # 13 rows: three parts
    logits, targets = (scale * torch.randn(13, cpu_kernels.MANY_LOGITS)).to(dtype), torch.arange(13) * 7
    results = []
    for function in (cpu_kernels.cross_entropy, lambda x, y: F.cross_entropy(x.float(), y)):
        x = logits.clone().requires_grad_()
        loss = function(x, targets)
        (3 * loss).backward()
        assert loss.dtype == torch.float32
        assert x.grad is not None
        results.append((loss.detach(), x.grad.float()))
    (loss, gradient), (expected, expected_gradient) = results
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0.01 if dtype == torch.bfloat16 else 1e-4, atol=1e-7)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 3, 32, 33])
def test_a_linear_layer_for_generation_computes_what_torchs_computes(threads: int, rows: int) -> None:
    torch.manual_seed(0)
    before = torch.get_num_threads()
    layer, x = cpu_kernels.Linear(24, 20, bias=False), torch.randn(1, rows, 24)
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            torch.testing.assert_close(layer(x), F.linear(x, layer.weight), rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)


def test_a_linear_layer_is_exactly_torchs_in_training_and_evaluation() -> None:
    layer, x = cpu_kernels.Linear(24, 20, bias=False), torch.randn(3, 24)
    expected = F.linear(x, layer.weight)
    assert torch.equal(layer(x), expected)
    with torch.no_grad():
        assert torch.equal(layer(x), expected)
