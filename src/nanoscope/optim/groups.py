"""Which parameter gets which optimizer and settings."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nanoscope.config import TrainConfig
from nanoscope.model import LanguageModel, Modern
from nanoscope.optim.adagrad import Adagrad
from nanoscope.optim.muon import Muon


def build_optimizer(model: LanguageModel, config: TrainConfig, device_type: str) -> torch.optim.Optimizer:
    """The recipe's optimizer. A group's `lr_scale` times the schedule's learning rate is the group's own."""
    fused = device_type in ("cpu", "cuda")  # one kernel over all parameters; on MPS where torch has it
    betas = (config.beta1, config.beta2)
    if not isinstance(model, Modern):
        parameters = [p for p in model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=config.peak_lr, betas=betas, fused=fused)

    matrices = {name: p for name, p in model.named_parameters() if name.startswith("blocks.") and ".shift_" not in name}
    qkv = [matrix for name, matrix in matrices.items() if name.endswith("qkv.weight")]
    other = [matrix for name, matrix in matrices.items() if not name.endswith("qkv.weight")]
    muon_scale, table_scale = config.matrix_lr / config.peak_lr, config.table_lr / config.peak_lr
    muon_groups = [
        {"params": qkv, "parts": 3, "lr_scale": muon_scale},
        {"params": other, "lr_scale": muon_scale},
    ]
    tables = [] if model.ngrams is None else [model.ngrams.table]
    taken = {id(parameter) for parameter in (*matrices.values(), *tables)}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    parts: list[torch.optim.Optimizer] = [
        Muon(muon_groups, config.matrix_lr, config.muon_momentum, config.weight_decay),
        torch.optim.AdamW(rest, lr=config.peak_lr, betas=betas, eps=1e-10, weight_decay=0.0, fused=fused),
    ]
    if tables:
        # Adagrad leaves a row alone that was not read, so that a gradient of the rows that were read is enough.
        table_group = {"params": tables, "lr_scale": table_scale}
        parts.append(Adagrad([table_group], lr=config.table_lr))
    return Together(parts)


class Together(torch.optim.Optimizer):
    """Several optimizers as one: one list of groups, one state, one step."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self._share()

    def _share(self) -> None:
        """Each part works on its groups of the whole, and on the whole's state."""
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients so that their common norm is at most `limit`; returns what it was. Sparse ones count too."""
    values = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    torch._foreach_mul_(values, torch.clamp(limit / (norm + 1e-6), max=1.0))
    return norm
