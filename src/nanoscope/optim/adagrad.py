"""Adagrad for embedding tables: the rate of each number falls with the gradients it has seen; unread rows stay.

torch.optim.Adagrad computes the same, but warns about sparse gradients and takes several times as long with them.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Adagrad(torch.optim.Optimizer):
    """Takes dense gradients, or sparse ones that hold only the rows that were read; the weights are the same."""

    EPS = 1e-4  # about the gradient of one token, so that a row does not move by the full rate on first use (LOG.md)

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, parameter.grad, group["lr"])

    def _step_one(self, parameter: Tensor, gradient: Tensor, lr: float) -> None:
        if not (state := self.state[parameter]):
            state["sum"] = torch.zeros_like(parameter)
        seen: Tensor = state["sum"]
        if not gradient.is_sparse:
            seen.addcmul_(gradient, gradient)
            parameter.addcdiv_(gradient, seen.sqrt().add_(self.EPS), value=-lr)
            return
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        squares = seen.index_select(0, rows).addcmul_(values, values)
        seen.index_copy_(0, rows, squares)
        parameter.index_add_(0, rows, values / squares.sqrt_().add_(self.EPS), alpha=-lr)
