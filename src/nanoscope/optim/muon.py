"""Muon: momentum replaced by the nearest orthogonal matrix, so that every direction learns at the same pace.

After Keller Jordan's Muon (2024). torch.optim.Muon updates one matrix at a time, in bfloat16. This one stacks equal
shapes into one batched matmul, in bfloat16 where the run uses it, else in float32: bfloat16 is emulated on older GPUs,
and float16 is too coarse here.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from nanoscope.config import TrainConfig

# Coefficients of x → a·x + b·x³ + c·x⁵, applied to the singular values, which end up between about 0.7 and 1.2.
ITERATION = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def for_matrices(parameters: dict[str, nn.Parameter], config: TrainConfig, dtype: str) -> "Muon":
    """Build Muon with the rate `matrix_lr`; queries, keys and values are three matrices in one parameter."""
    lr_scale = config.matrix_lr / config.peak_lr
    qkv = [matrix for name, matrix in parameters.items() if name.endswith("qkv.weight")]
    other = [matrix for name, matrix in parameters.items() if not name.endswith("qkv.weight")]
    groups = [{"params": qkv, "stacked": 3, "lr_scale": lr_scale}, {"params": other, "lr_scale": lr_scale}]
    return Muon(groups, config.matrix_lr, config.muon_momentum, config.weight_decay, dtype == "bfloat16")


@torch.no_grad()
def orthogonalized(matrices: Tensor) -> Tensor:
    """Approximate U·Vᵀ of each U·S·Vᵀ in a stack (N, rows, columns), rows ≥ columns, by Newton–Schulz iteration."""
    a, b, c = ITERATION
    x: Tensor = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    if x.shape[1] >= 2 * x.shape[2] and x.dtype == torch.float32:
        return torch.bmm(x, _through_gram(torch.bmm(x.mT, x)))
    for _ in range(ITERATIONS):
        gram = torch.bmm(x.mT, x)
        x = torch.baddbmm(x, x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), beta=a)
    return x


def _through_gram(gram: Tensor) -> Tensor:
    """Return the product of all iterations from xᵀ·x alone, so that a tall x is multiplied only once.

    One iteration multiplies x by q = a·I + b·g + c·g², where g = xᵀ·x; then g becomes q·g·q.
    """
    a, b, c = ITERATION
    product: Tensor | None = None
    identity = a * torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype)
    for iteration in range(ITERATIONS):
        q = torch.baddbmm(gram, gram, gram, beta=b, alpha=c).add_(identity)
        product = q if product is None else torch.bmm(product, q)
        if iteration < ITERATIONS - 1:
            gram = torch.bmm(q, torch.bmm(gram, q))
    assert product is not None
    return product


class Muon(torch.optim.Optimizer):
    """For matrices only. A group's `stacked` is the number of matrices stacked by rows in each of its parameters."""

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        momentum: float,
        weight_decay: float,
        in_bfloat16: bool = False,
    ) -> None:
        self.in_bfloat16 = in_bfloat16
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "stacked": 1})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            by_shape: dict[tuple[int, int], list[Tensor]] = {}
            for parameter in parameters:
                rows, columns = parameter.shape[0] // group["stacked"], parameter.shape[1]
                by_shape.setdefault((max(rows, columns), min(rows, columns)), []).append(parameter)
            for (tall, narrow), same_shape in by_shape.items():
                self._step_same_shape(same_shape, group, tall, narrow)

    def _step_same_shape(self, parameters: list[Tensor], group: dict[str, Any], tall: int, narrow: int) -> None:
        averages = []
        for parameter in parameters:
            if not (state := self.state[parameter]):
                state["momentum"] = torch.zeros_like(parameter)
            averages.append(state["momentum"])
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_lerp_(averages, gradients, 1 - group["momentum"])
        nesterov = torch._foreach_lerp(gradients, averages, group["momentum"])
        # (stacked · rows, columns) → a stack of tall matrices
        tall_ones = [m if m.shape[0] >= m.shape[1] else m.mT for m in nesterov]
        stack = torch.stack(tall_ones).view(-1, tall, narrow)
        if self.in_bfloat16:
            stack = stack.bfloat16()
        updates = orthogonalized(stack).to(parameters[0].dtype).view(len(parameters), -1, narrow)
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        for parameter, update in zip(parameters, updates, strict=True):
            rows, columns = parameter.shape[0] // group["stacked"], parameter.shape[1]
            scale = max(1.0, rows / columns) ** 0.5  # the step of an output does not depend on the number of outputs
            wide = parameter.shape[0] < parameter.shape[1]
            parameter.add_(update.mT if wide else update, alpha=-group["lr"] * scale)
