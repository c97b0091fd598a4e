"""Attention, dropout, token shift, ReLU² and the loss with hand-written backward passes, and a Linear for few rows.

They make fewer passes over memory than autograd does, which pays on a CPU in eager mode (benchmarks/LOG.md). On a GPU
or compiled, the plain formulas are faster; `use_cpu_kernels` decides. Both compute the same function. Nothing here may
break the compiler's graph: tests/model/test_compiled.py.

Shapes: B sequences of T tokens, H heads of D channels, C = H · D.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanoscope.model.kvcache import KVCache

QUERIES_AT_ONCE = 128  # longer sequences are split into blocks of queries, each with only the keys up to its end
MANY_LOGITS = 1024  # with fewer, torch's own loss is as fast
LOGITS_AT_ONCE = 2**19
FEW_ROWS = 32  # with more rows the arithmetic dominates, and the ordinary matmul is as fast


_pretended = ""  # a device type, while memory is counted for another device


@contextmanager
def as_on(device_type: str) -> Iterator[None]:
    """Choose functions as if tensors were on this type of device: fake tensors are on the CPU."""
    global _pretended
    _pretended = device_type
    try:
        yield
    finally:
        _pretended = ""


def on_cpu(x: Tensor) -> bool:
    return (_pretended or x.device.type) == "cpu"


def use_cpu_kernels(x: Tensor) -> bool:
    """Return whether the hand-written functions are the faster ones for this tensor."""
    return on_cpu(x) and not torch.compiler.is_compiling()


# --- linear layers -----------------------------------------------------------------------------------------------


class Linear(nn.Linear):
    """nn.Linear that also uses all threads for the few rows of text generation, on a CPU (benchmarks/LOG.md)."""

    def forward(self, x: Tensor) -> Tensor:
        # the compiler can't look past a question about inference mode: it must not be asked there
        if x.device.type == "cpu" and not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            without_bias = self._parameters["bias"] is None  # `self.bias` is annotated as never None
            rows, parts = x.numel() // self.in_features, torch.get_num_threads()
            if without_bias and rows <= FEW_ROWS and parts > 1 and self.out_features % parts == 0:
                return _few_rows(x, self.weight, rows, parts)
        return F.linear(x, self.weight, self.bias)


def _few_rows(x: Tensor, weight: Tensor, rows: int, parts: int) -> Tensor:
    """Compute x @ weight.T with a share of the weights per thread; such a thin matmul would use a single thread."""
    columns = x.reshape(rows, -1).t().expand(parts, -1, rows)
    y = torch.bmm(weight.view(parts, -1, weight.shape[1]), columns)  # (parts, outputs / parts, rows)
    return y.view(-1, rows).t().contiguous().view(*x.shape[:-1], -1)


# --- attention ---------------------------------------------------------------------------------------------------


def causal_attention(
    qkv: Tensor,
    n_head: int,
    dropout: float = 0.0,
    rotation: Tensor | None = None,
    layer: int = 0,
    cache: KVCache | None = None,
) -> Tensor:
    """Let each token attend to itself and the tokens before it, those in the cache too: (B, T, 3C) → (B, T, C).

    `rotation` holds the rotary positions of queries and keys (see rotary_positions).
    """
    if cache is None and qkv.requires_grad and on_cpu(qkv):
        return _CausalAttention.apply(qkv, n_head, dropout, rotation)  # type: ignore[no-any-return, no-untyped-call]
    q, k, v = _heads(qkv, n_head, rotation)
    mask = None
    if cache is not None:
        mask = cache.mask(qkv.shape[1], qkv.device)
        k, v = cache.extend(layer, k, v)  # (B, H, length + T, D)
    is_causal = mask is None and qkv.shape[1] > 1  # a single new token sees all keys
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal)
    return y.transpose(1, 2).flatten(2)


def _heads(qkv: Tensor, n_head: int, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Split (B, T, 3C) into queries, keys and values (B, H, T, D); the first two are rotated."""
    B, T, width = qkv.shape
    q, k, v = qkv.view(B, T, 3, n_head, width // 3 // n_head).permute(2, 0, 3, 1, 4)
    return (q, k, v) if rotation is None else (rotate(q, rotation), rotate(k, rotation), v)


def rotary_positions(tokens: int, channels: int) -> Tensor:
    """Return the cosine and sine of the angle of each position and pair of channels: (T, D / 2, 2)."""
    frequencies = 10_000.0 ** (-torch.arange(channels // 2, dtype=torch.float32) / (channels // 2))
    angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()), dim=-1)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate each pair of channels of x (B, H, T, D)."""
    pairs = torch.unflatten(x, -1, (-1, 2))
    if use_cpu_kernels(x) and x.dtype == torch.float32:
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rotation)).flatten(-2)
    (even, odd), (cos, sin) = pairs.unbind(-1), rotation.unbind(-1)
    rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return rotated.flatten(-2).to(x.dtype)


def _rotate_in_place(pairs: Tensor, angles: Tensor) -> None:
    """Rotate each pair of channels in place. Complex numbers need 32 bits: 16-bit values are copied there and back."""
    rotated = pairs.float()
    torch.view_as_complex(torch.unflatten(rotated, -1, (-1, 2))).mul_(angles)
    if rotated is not pairs:
        pairs.copy_(rotated)


def _mask(first: int, end: int, dtype: torch.dtype) -> Tensor:
    """Return 0 where query `first + row` may see key `column`, else minus infinity: (end - first, end)."""
    return torch.full((end - first, end), -torch.inf, dtype=dtype).triu(1 + first)


class _CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, n_head: int, dropout: float, rotation: Tensor | None) -> Tensor:
        B, T, width = qkv.shape
        D = width // 3 // n_head
        heads = qkv.new_empty(3, B, n_head, T, D)
        heads.copy_(qkv.view(B, T, 3, n_head, D).permute(2, 0, 3, 1, 4))
        if rotation is not None:
            _rotate_in_place(heads[:2], torch.view_as_complex(rotation))
        q, k, v = heads.view(3, B * n_head, T, D)
        y = torch.empty_like(q)
        saved: list[Tensor] = []  # per block: the attention weights and, with dropout, their factors
        for first in range(0, T, QUERIES_AT_ONCE):
            end = min(first + QUERIES_AT_ONCE, T)
            scores = torch.baddbmm(
                _mask(first, end, qkv.dtype), q[:, first:end], k[:, :end].transpose(1, 2), alpha=1 / math.sqrt(D)
            )
            probs = torch.softmax(scores, -1)
            saved.append(probs)
            if dropout > 0:
                factors = dropout_factors(probs, dropout)
                probs = probs * factors
                saved.append(factors)
            y[:, first:end] = torch.bmm(probs, v[:, :end])
        ctx.save_for_backward(heads, rotation, *saved)
        ctx.dropout = dropout
        return y.view(B, n_head, T, D).transpose(1, 2).reshape(B, T, n_head * D)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        heads, rotation, *saved = ctx.saved_tensors
        _, B, H, T, D = heads.shape
        q, k, v = heads.view(3, B * H, T, D)
        dy = gradients[0].view(B, T, H, D).transpose(1, 2).reshape(B * H, T, D)
        d_heads = torch.empty_like(heads).view(3, B * H, T, D)
        dq, dk, dv = d_heads
        scale = 1 / math.sqrt(D)
        for first in reversed(range(0, T, QUERIES_AT_ONCE)):
            end = min(first + QUERIES_AT_ONCE, T)
            more = end < T  # the last block, which sees all keys, comes first; the others add to its results
            factors = saved.pop() if ctx.dropout > 0 else None
            probs = used = saved.pop()
            d_used = torch.bmm(dy[:, first:end], v[:, :end].transpose(1, 2))
            if factors is not None:
                used = probs * factors
                d_used.mul_(factors)
            d_scores = torch._softmax_backward_data(d_used, probs, -1, probs.dtype).mul_(scale)
            dq[:, first:end] = torch.bmm(d_scores, k[:, :end])
            # bmm into a part of a tensor would be a loop over single matrices
            for out, part in (
                (dv, torch.bmm(used.transpose(1, 2), dy[:, first:end])),
                (dk, torch.bmm(d_scores.transpose(1, 2), q[:, first:end])),
            ):
                if more:
                    out[:, :end] += part
                else:
                    out.copy_(part)
        d_heads = d_heads.view(3, B, H, T, D)
        if rotation is not None:  # rotate back
            _rotate_in_place(d_heads[:2], torch.view_as_complex(rotation).conj())
        return d_heads.permute(1, 3, 0, 2, 4).reshape(B, T, 3 * H * D), None, None, None


# --- the loss ----------------------------------------------------------------------------------------------------


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits (…, V) at targets (…), in float32."""
    logits, targets = logits.flatten(0, -2), targets.flatten()
    if use_cpu_kernels(logits) and logits.requires_grad and logits.shape[1] >= MANY_LOGITS:
        return _CrossEntropy.apply(logits, targets)  # type: ignore[no-any-return, no-untyped-call]
    return F.cross_entropy(logits.float(), targets)


class _CrossEntropy(torch.autograd.Function):
    """Computes the gradient with the loss, some rows at a time, while they are in the processor's cache."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        count, rows = len(logits), max(1, LOGITS_AT_ONCE // logits.shape[1])
        gradient, mean = torch.empty_like(logits), torch.zeros(())
        for some in (slice(first, first + rows) for first in range(0, count, rows)):
            with torch.enable_grad():
                z = logits[some].detach().requires_grad_()
                loss = F.cross_entropy(z.float(), targets[some], reduction="sum") / count
            gradient[some] = torch.autograd.grad(loss, z)[0]
            mean += loss.detach()
        ctx.save_for_backward(gradient)
        return mean

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None


# --- dropout -----------------------------------------------------------------------------------------------------


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Apply F.dropout; on a CPU with a faster random generator, since torch's takes longer than the matmuls."""
    if p == 0 or not training:
        return x
    return x * dropout_factors(x, p) if on_cpu(x) else F.dropout(x, p)


def dropout_factors(like: Tensor, p: float) -> Tensor:
    """Return the factors by which dropout multiplies a tensor of this shape."""
    return _cpu_dropout_factors(like.detach(), p) if on_cpu(like) else F.dropout(torch.ones_like(like), p)


@torch.library.custom_op("nanoscope::dropout_factors", mutates_args=())  # compilers do not look inside
def _cpu_dropout_factors(like: Tensor, p: float) -> Tensor:
    """Return 0 for each dropped value and 1 / (1 - p) for the others; 16 random bits decide each.

    torch's generator makes one draw per value, on one thread. This one is seeded by torch's, so that it depends on
    torch.manual_seed too. The factors are floats, although bits would do, because torch multiplies floats faster.
    """
    seed = int(torch.randint(2**62, ()))
    count, lowest = like.numel(), round(p * 65536)
    bits = np.random.Generator(np.random.SFC64(seed)).integers(0, 2**64, size=-(-count // 4), dtype=np.uint64)
    kept = torch.from_numpy(bits.view(np.uint16)[:count] >= lowest).view(like.shape)
    return kept.to(like.dtype).mul_(65536 / (65536 - lowest))


@_cpu_dropout_factors.register_fake
def _(like: Tensor, p: float) -> Tensor:
    return torch.empty_like(like, memory_format=torch.contiguous_format)


# --- token shift -------------------------------------------------------------------------------------------------


def token_shift(x: Tensor, weight: Tensor, before: Tensor | None = None) -> Tensor:
    """Add weight[0] times the previous token, weight[1] times the one before it, … to each token (B, T, C).

    weight is (reach, C). `before` holds the `reach` tokens before the first; without it they are 0.
    """
    if before is None and use_cpu_kernels(x) and x.requires_grad:
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
