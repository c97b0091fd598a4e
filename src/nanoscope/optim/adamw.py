"""AdamW, torch's own, for everything that no other optimizer trains."""

import torch
from torch import nn

from nanoscope.config import TrainConfig
from nanoscope.optim.eager import AdamW


def for_gpt2(
    parameters: dict[str, nn.Parameter], config: TrainConfig, device_type: str, dtype: str
) -> torch.optim.Optimizer:
    """Build AdamW as GPT-2 was trained: matrices and tables decay, biases and norms do not."""
    groups = [
        {"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=config.peak_lr, betas=_betas(config), fused=_fused(device_type))


def without_decay(
    parameters: dict[str, nn.Parameter], config: TrainConfig, device_type: str, dtype: str
) -> torch.optim.Optimizer:
    """Build AdamW for embeddings and the output layer, which do not decay."""
    return AdamW(
        parameters.values(),
        lr=config.peak_lr,
        betas=_betas(config),
        eps=1e-10,
        weight_decay=0.0,
        fused=_fused(device_type),
    )


def _betas(config: TrainConfig) -> tuple[float, float]:
    return config.beta1, config.beta2


def _fused(device_type: str) -> bool:
    """One kernel for all parameters, where torch has it."""
    return device_type in ("cpu", "cuda")
