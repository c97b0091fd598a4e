"""What a run has to do besides its iterations, and how much of it is left: from its configuration alone."""

from typing import NamedTuple

from nanoscope.config import TrainConfig
from nanoscope.estimates import multiples_between

SAMPLE_TOKENS = 200  # of a sample that a run writes


def evaluation_due(step: int, config: TrainConfig) -> bool:
    """Whether to evaluate before iteration `step`, or at the end."""
    if config.eval_only:
        return True
    if step == 0 and config.recipe == "modern" and config.init_from == "scratch":
        return False  # its output layer begins at zero: the loss is the logarithm of the vocabulary's size
    return step % config.eval_interval == 0 or step == config.max_iters


class Left(NamedTuple):
    """How often each phase is still to come. Checkpoints may be an expectation, with a fraction."""

    step: int
    eval: int
    checkpoint: float
    sample: int


def left_to_do(config: TrainConfig, done: int, *, evaluated: bool = False, saved_share: float = 1.0) -> Left:
    """What comes after `done` iterations. `evaluated`: the evaluation that is due right there is done.

    `saved_share` of the evaluations save a checkpoint; the last one always does.
    """
    last, first = config.max_iters, max(done, 1)
    later = multiples_between(first - 1, last, config.eval_interval) + (last % config.eval_interval > 0)
    later -= done > 0 and evaluated and evaluation_due(done, config)
    at_start = done == 0 and not evaluated and evaluation_due(0, config)  # before training there is nothing to save
    saves = 1 + saved_share * (later - 1) if later > 0 else 0.0
    return Left(
        max(last - done, 0), later + at_start, saves, multiples_between(first - 1, last, config.sample_interval)
    )
