"""The learning rate at each iteration."""

import math

from nanoscope.config import TrainConfig


def learning_rate(step: int, config: TrainConfig) -> float:
    """nanoGPT's schedule: linear warm-up, cosine decay to min_lr at lr_decay_iters, min_lr from there on."""
    if not config.decay_lr:
        return config.learning_rate
    if step < config.warmup_iters:
        return config.learning_rate * (step + 1) / (config.warmup_iters + 1)
    if step >= config.decay_iters:
        return config.lowest_lr
    progress = (step - config.warmup_iters) / (config.decay_iters - config.warmup_iters)
    return config.lowest_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (config.learning_rate - config.lowest_lr)
