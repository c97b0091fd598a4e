"""AdamW with weight decay on the matrices and none on the vectors."""

import torch
from torch import nn

from nanoscope.config import TrainConfig


def build_optimizer(model: nn.Module, config: TrainConfig, device_type: str) -> torch.optim.AdamW:
    """Fused AdamW: one kernel over all parameters (on a CPU too; on MPS where torch has it)."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=device_type in ("cpu", "cuda"))
