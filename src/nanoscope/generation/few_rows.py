"""Linear layers for a handful of tokens, where reading the weights takes all the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 32  # rows; from there on arithmetic counts, and the ordinary matmul is as fast


@contextmanager
def linear_for_few_rows(model: nn.Module) -> Iterator[None]:
    """Within it the model's linear layers use all threads for a few rows too, on a CPU (benchmarks/LOG.md)."""
    parts = torch.get_num_threads()
    suited = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear)
        and module._parameters["bias"] is None
        and module.weight.device.type == "cpu"
        and module.out_features % parts == 0
        and parts > 1
    ]
    for module in suited:
        module.__dict__["forward"] = partial(_linear, module, parts)  # found before the class's own
    try:
        yield
    finally:
        for module in suited:
            del module.__dict__["forward"]


def _linear(module: nn.Linear, parts: int, x: Tensor) -> Tensor:
    """x @ weight.T as one product a thread, each with its share of the weights: a thin matmul would use one thread."""
    inputs = x.shape[-1]
    rows = x.numel() // inputs
    if rows > FEW:
        return F.linear(x, module.weight)
    columns = x.reshape(rows, inputs).t().expand(parts, inputs, rows)
    y = torch.bmm(module.weight.view(parts, -1, inputs), columns)  # (parts, outputs / parts, rows)
    return y.view(-1, rows).t().contiguous().view(*x.shape[:-1], -1)
