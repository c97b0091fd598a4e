"""Two runs of nanoscope compared window by window: what is hard in the text is hard for both, so it cancels out."""

import math
from collections.abc import Sequence

from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.numbers import mean, standard_error
from nanoscope.runs.run import Evaluation
from nanoscope.runs.windows import WindowLosses

FEWEST_WINDOWS = 8
SAME_MEAN = 0.002  # between the losses by window and the evaluation's: further apart, they are of another evaluation


def paired_difference(one: Side, two: Side, step: int | None) -> tuple[float, float] | None:
    """How much higher the loss of `one` is, and the standard error of that; at a step, or at the ends of both runs.

    None unless both kept their losses there, on the same data.
    """
    ours, theirs = _windows(one, step), _windows(two, step)
    if ours is None or theirs is None or ours.block_size != theirs.block_size or not _same_data(one, two):
        return None
    both = sorted(ours.losses.keys() & theirs.losses.keys())
    return mean_difference([ours.losses[number] for number in both], [theirs.losses[number] for number in both])


def mean_difference(one: Sequence[float], two: Sequence[float]) -> tuple[float, float] | None:
    """How much higher the first losses are than the second, window by window in the order of the text, and the
    standard error of that; None for too few windows.
    """
    if len(one) < FEWEST_WINDOWS:
        return None
    differences = [a - b for a, b in zip(one, two, strict=True)]
    return mean(differences), standard_error(differences) or 0.0


def _windows(side: Side, step: int | None) -> WindowLosses | None:
    """The losses by window of the evaluation at a step (None: of the last), if they belong to it."""
    evaluation = next((e for e in reversed(side.run.evals) if step in (None, e.step)), None)
    if side.run.details is None or evaluation is None:
        return None
    kept = (windows for windows in side.run.details.windows if windows.step == evaluation.step and windows.losses)
    return next((windows for windows in kept if _belongs(windows, evaluation)), None)


def _belongs(windows: WindowLosses, evaluation: Evaluation) -> bool:
    return math.isclose(mean(list(windows.losses.values())), evaluation.val, rel_tol=SAME_MEAN)


def _same_data(one: Side, two: Side) -> bool:
    prints = [side.run.details.start.dataset_fingerprint for side in (one, two) if side.run.details]
    return len(prints) == 2 and None not in prints and prints[0] == prints[1]
