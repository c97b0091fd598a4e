"""Adagrad for embedding tables: each number's rate falls with the gradients that it has seen; an unread row rests.

torch.optim.Adagrad does the same; with sparse gradients it warns, and takes several times as long.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class Adagrad(torch.optim.Optimizer):
    """Takes dense gradients, and sparse ones that name the rows that were read: both give the same weights."""

    EPS = 1e-4  # about one token's gradient: a row that was read once does not move by the whole rate (LOG.md)

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
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
