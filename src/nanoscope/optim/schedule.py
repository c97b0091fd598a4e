"""The learning rate at each iteration."""

import math

from nanoscope.config import TrainConfig


def learning_rate(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then down to lowest_lr at decay_iters and no further.

    Classic decays along a cosine from the end of the warm-up, as nanoGPT; modern stays at the highest rate until
    `cooldown`, a share of the iterations, is left, and then goes down in a straight line.
    """
    highest, lowest = config.peak_lr, config.lowest_lr
    if not config.decay_lr:
        return highest
    if step < config.warmup:
        return highest * (step + 1) / (config.warmup + 1)
    if step >= config.decay_iters:
        return lowest
    if config.recipe == "modern":
        left = (config.decay_iters - step) / config.decay_iters
        return lowest + min(1.0, left / config.cooldown) * (highest - lowest)
    progress = (step - config.warmup) / (config.decay_iters - config.warmup)
    return lowest + 0.5 * (1 + math.cos(math.pi * progress)) * (highest - lowest)
