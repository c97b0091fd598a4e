"""Attention, dropout and ReLU² with their backward written by hand: fewer passes over memory than autograd makes.

They are for a CPU in eager mode, where each small operation costs a walk through memory (benchmarks/LOG.md). On a GPU,
or compiled, the plain formulas are faster: `by_hand` says which. Both give the same numbers.

Shapes: B sequences, T tokens of each, H heads of D channels, C = H · D.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nanoscope.generation.kvcache import KVCache

QUERIES_AT_ONCE = 256  # longer sequences are attended to in blocks, each with the keys before its end only


def by_hand(x: Tensor) -> bool:
    """Whether the hand-written functions are the fast ones for this tensor."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()


def causal_attention(qkv: Tensor, n_head: int, dropout: float = 0.0, rotation: Tensor | None = None) -> Tensor:
    """Each token attends to itself and those before it: (B, T, 3C) → (B, T, C).

    `rotation` holds the rotary positions of queries and keys, see rotary_positions.
    """
    if by_hand(qkv) and qkv.requires_grad:
        return _CausalAttention.apply(qkv, n_head, dropout, rotation)  # type: ignore[no-any-return, no-untyped-call]
    q, k, v = _heads(qkv, n_head, rotation)
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True).transpose(1, 2).flatten(2)


def cached_attention(qkv: Tensor, n_head: int, layer: int, cache: KVCache, rotation: Tensor | None = None) -> Tensor:
    """The same for new tokens (B, T, 3C) that also see those in the cache."""
    q, k, v = _heads(qkv, n_head, rotation)
    k, v = cache.extend(layer, k, v)  # (B, H, all so far, D)
    T = qkv.shape[1]
    mask = cache.mask(T, qkv.device)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and T > 1)
    return y.transpose(1, 2).flatten(2)


def _heads(qkv: Tensor, n_head: int, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T, 3C) → queries, keys and values (B, H, T, D), the first two turned."""
    B, T, width = qkv.shape
    q, k, v = qkv.view(B, T, 3, n_head, width // 3 // n_head).permute(2, 0, 3, 1, 4)
    return (q, k, v) if rotation is None else (rotate(q, rotation), rotate(k, rotation), v)


def rotary_positions(tokens: int, channels: int, base: float = 10_000.0) -> Tensor:
    """For each position and each pair of channels the cosine and sine of its angle: (T, D / 2, 2)."""
    frequencies = base ** (-torch.arange(channels // 2, dtype=torch.float32) / (channels // 2))
    angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()), dim=-1)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn each pair of channels of x (B, H, T, D)."""
    pairs = torch.unflatten(x, -1, (-1, 2))
    if by_hand(x):
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rotation)).flatten(-2)
    (even, odd), (cos, sin) = pairs.unbind(-1), rotation.unbind(-1)
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2).to(x.dtype)


@lru_cache(maxsize=8)
def _mask(first: int, end: int) -> Tensor:
    """0 where query `first + row` may see key `column`, minus infinity where not: (end - first, end)."""
    return torch.full((end - first, end), -torch.inf).triu(1 + first)


class _CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, n_head: int, dropout: float, rotation: Tensor | None) -> Tensor:
        B, T, width = qkv.shape
        D = width // 3 // n_head
        heads = torch.empty(3, B, n_head, T, D)
        heads.copy_(qkv.view(B, T, 3, n_head, D).permute(2, 0, 3, 1, 4))
        if rotation is not None:
            torch.view_as_complex(torch.unflatten(heads[:2], -1, (-1, 2))).mul_(torch.view_as_complex(rotation))
        q, k, v = heads.view(3, B * n_head, T, D)
        y = torch.empty(B * n_head, T, D)
        kept: list[Tensor] = []  # of each block the shares, and with dropout what they are multiplied with
        for first in range(0, T, QUERIES_AT_ONCE):
            end = min(first + QUERIES_AT_ONCE, T)
            scores = torch.baddbmm(
                _mask(first, end), q[:, first:end], k[:, :end].transpose(1, 2), alpha=1 / math.sqrt(D)
            )
            shares = torch.softmax(scores, -1)
            kept.append(shares)
            if dropout > 0:
                factors = _dropout_factors(shares.shape, dropout)
                shares = shares * factors
                kept.append(factors)
            torch.bmm(shares, v[:, :end], out=y[:, first:end])
        ctx.save_for_backward(heads, rotation, *kept)
        ctx.dropout = dropout
        return y.view(B, n_head, T, D).transpose(1, 2).reshape(B, T, n_head * D)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        heads, rotation, *kept = ctx.saved_tensors
        _, B, H, T, D = heads.shape
        q, k, v = heads.view(3, B * H, T, D)
        dy = gradients[0].view(B, T, H, D).transpose(1, 2).reshape(B * H, T, D)
        d_heads = torch.empty(3, B * H, T, D)
        dq, dk, dv = d_heads
        scale = 1 / math.sqrt(D)
        for first in reversed(range(0, T, QUERIES_AT_ONCE)):
            end = min(first + QUERIES_AT_ONCE, T)
            more = end < T  # the last block sees all keys and comes first: the others add to what it wrote
            factors = kept.pop() if ctx.dropout > 0 else None
            shares = used = kept.pop()
            d_used = torch.bmm(dy[:, first:end], v[:, :end].transpose(1, 2))
            if factors is not None:
                used = shares * factors
                d_used.mul_(factors)
            _add_bmm(dv[:, :end], used.transpose(1, 2), dy[:, first:end], 1.0, more)
            d_scores = torch._softmax_backward_data(d_used, shares, -1, torch.float32)
            _add_bmm(dk[:, :end], d_scores.transpose(1, 2), q[:, first:end], scale, more)
            _add_bmm(dq[:, first:end], d_scores, k[:, :end], scale, False)
        d_heads = d_heads.view(3, B, H, T, D)
        if rotation is not None:  # turned back
            backwards = torch.view_as_complex(rotation).conj()
            torch.view_as_complex(torch.unflatten(d_heads[:2], -1, (-1, 2))).mul_(backwards)
        return d_heads.permute(1, 3, 0, 2, 4).reshape(B, T, 3 * H * D), None, None, None


def _add_bmm(out: Tensor, a: Tensor, b: Tensor, alpha: float, more: bool) -> None:
    """out = alpha · a @ b, or more of it."""
    torch.baddbmm(out, a, b, beta=1.0 if more else 0.0, alpha=alpha, out=out)


# --- dropout -----------------------------------------------------------------------------------------------------


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """F.dropout; on a CPU with a random generator that does not take longer than the matmuls."""
    if p == 0 or not training:
        return x
    if by_hand(x):
        return _Dropout.apply(x, p)  # type: ignore[no-any-return, no-untyped-call]
    return F.dropout(x, p)


def dropout_factors(like: Tensor, p: float) -> Tensor:
    """What dropout multiplies a tensor of this shape with."""
    if by_hand(like):
        return _dropout_factors(like.shape, p)
    return F.dropout(torch.ones_like(like), p)


def _dropout_factors(shape: torch.Size, p: float) -> Tensor:
    """For each value 0, or what keeps the mean of all where the others are 0; 16 random bits decide each.

    torch's own generator makes one draw a value, on one thread. This one is seeded by a draw of torch's, so that
    torch.manual_seed decides here too. Factors are floats, although a bit would do: torch multiplies those faster.
    """
    seed = int(torch.randint(2**62, ()))
    count, lowest = math.prod(shape), round(p * 65536)
    bits = np.random.Generator(np.random.SFC64(seed)).integers(0, 2**64, size=-(-count // 4), dtype=np.uint64)
    kept = torch.from_numpy(bits.view(np.uint16)[:count] >= lowest).view(shape)
    return kept.float().mul_(65536 / (65536 - lowest))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        factors = _dropout_factors(x.shape, p)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return gradients[0] * factors, None


# --- token shift -------------------------------------------------------------------------------------------------


def token_shift(x: Tensor, weight: Tensor, before: Tensor | None = None) -> Tensor:
    """Each token (B, T, C) plus weight[0] of the one before it, weight[1] of the one before that, … (reach, C).

    `before` holds the `reach` tokens before the first; without it they are 0.
    """
    if before is None and by_hand(x) and x.requires_grad:
        return _TokenShift.apply(x, weight)  # type: ignore[no-any-return, no-untyped-call]
    reach, T = len(weight), x.shape[1]
    padded = F.pad(x, (0, 0, reach, 0)) if before is None else torch.cat((before, x), dim=1)
    y = x
    for back, share in enumerate(weight, start=1):
        y = y + padded[:, reach - back : reach - back + T] * share
    return y


class _TokenShift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = x.clone()
        for back, share in enumerate(weight, start=1):
            y[:, back:].addcmul_(x[:, :-back], share)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        dy = gradients[0]
        dx, d_weight = dy.clone(), torch.empty_like(weight)
        for back, share in enumerate(weight, start=1):
            dx[:, :-back].addcmul_(dy[:, back:], share)
            torch.sum(dy[:, back:] * x[:, :-back], (0, 1), out=d_weight[back - 1])
        return dx, d_weight


# --- ReLU² -------------------------------------------------------------------------------------------------------


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)²."""
    if by_hand(x):
        return _ReluSquared.apply(x)  # type: ignore[no-any-return, no-untyped-call]
    return F.relu(x).square()


class _ReluSquared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = F.relu(x)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        d_x: Tensor = (positive * gradients[0]).mul_(2)
        return d_x
