"""The learning rate at each iteration."""

import math

from nanoscope.config import TrainConfig


def learning_rate(step: int, config: TrainConfig) -> float:
    """Return the rate, times `lr_scale`: linear warm-up, then decay to `lowest_lr` at `decay_iters`, then constant.

    The classic recipe decays along a cosine that starts at the end of the warm-up, like nanoGPT. The modern recipe
    keeps the peak until the last `cooldown` share of the iterations, then decays linearly.
    """
    peak, lowest = config.lr_scale * config.peak_lr, config.lr_scale * config.lowest_lr
    if not config.decay_lr:
        return peak
    if step < config.warmup:
        return peak * (step + 1) / (config.warmup + 1)
    if step >= config.decay_iters:
        return lowest
    if config.recipe == "modern":
        left = (config.decay_iters - step) / config.decay_iters
        share = min(1.0, left / config.cooldown)
    else:
        progress = (step - config.warmup) / (config.decay_iters - config.warmup)
        share = 0.5 * (1 + math.cos(math.pi * progress))
    return lowest + share * (peak - lowest)
