"""Which optimizer trains which parameters, and several optimizers working as one."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nanoscope.config import TrainConfig
from nanoscope.model import LanguageModel
from nanoscope.optim import muon
from nanoscope.optim.adagrad import Adagrad
from nanoscope.optim.eager import AdamW

# The optimizer of each parameter, by a pattern of its name; the first match decides. A name that ends in "_lr" is the
# setting with the rate of Adagrad. A group's rate is the schedule's times the group's `lr_scale`, 1 by default.
RECIPES = {
    "classic": {r".*": "AdamW of GPT-2"},
    "modern": {
        r"blocks\.\d+\.(qkv|proj|up|down)\.weight": "Muon",
        r"ngrams\.table": "table_lr",
        r".*": "AdamW without decay",
    },
}
# Most tokens of a large vocabulary are as rare as n-grams, and Adagrad learns them sooner (benchmarks/LOG.md).
VOCABULARY = {r"embedding\.weight": "table_lr", r"head\.weight": "output_lr"}


def build_optimizer(
    model: LanguageModel, config: TrainConfig, device_type: str, dtype: str = "float32"
) -> torch.optim.Optimizer:
    """Build the recipe's optimizer for all parameters that require a gradient; `dtype` is that of matmuls."""
    recipe = RECIPES[model.config.recipe]
    if model.config.recipe == "modern" and config.output_lr:
        recipe = VOCABULARY | recipe
    assigned: dict[str, dict[str, nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = next(kind for pattern, kind in recipe.items() if re.fullmatch(pattern, name))
            assigned.setdefault(kind, {})[name] = parameter
    parts = [_optimizer(kind, parameters, config, device_type, dtype) for kind, parameters in assigned.items()]
    return parts[0] if len(parts) == 1 else CombinedOptimizer(parts)


def _optimizer(
    kind: str, named: dict[str, nn.Parameter], config: TrainConfig, device_type: str, dtype: str
) -> torch.optim.Optimizer:
    if kind == "Muon":
        return muon.for_matrices(named, config, dtype)
    parameters = list(named.values())
    if kind.endswith("_lr"):
        lr = getattr(config, kind)
        return Adagrad([{"params": parameters, "lr_scale": lr / config.peak_lr}], lr=lr)
    groups: list[dict[str, object]] = [{"params": parameters, "weight_decay": 0.0}]
    like_gpt2 = kind == "AdamW of GPT-2"
    if like_gpt2:  # matrices and tables decay, biases and norms do not
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
    return AdamW(
        groups,
        lr=config.peak_lr,
        betas=(config.beta1, config.beta2),
        eps=1e-8 if like_gpt2 else 1e-10,
        fused=device_type in ("cpu", "cuda"),  # one kernel for all parameters, where torch has it
    )


class CombinedOptimizer(torch.optim.Optimizer):
    """Several optimizers as one: one list of groups, one state, one step."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self._share()

    def _share(self) -> None:
        """Give each part its share of the groups, and the common state."""
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state

    def step(self) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients, dense and sparse, so that their common norm is at most `limit`; return the norm before.

    0: no limit.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    if limit:
        torch._foreach_mul_(values, torch.clamp(limit / (norm + 1e-6), max=1.0))
    return norm
