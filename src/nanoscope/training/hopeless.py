"""When a run of a sweep is given up, if the user asks for it: the median rule, with conservative limits.

A run is hopeless if, at one of its evaluations, the lowest validation loss it has reached is above the median of what
the other runs had reached by that step, by more than twice the standard error of its evaluation. Schedules cross:
a high learning rate looks worse before it decays. So nothing is judged in the first half of a run, nor before
`FEWEST_FINISHED` runs have finished, which show where the losses end up.
"""

import math
from collections.abc import Sequence

from nanoscope.estimates import median
from nanoscope.messages import Text
from nanoscope.runs.run import Evaluation

FEWEST_FINISHED = 4
EARLIEST = 0.5  # of the planned steps
ERRORS = 2.0


def reason_to_give_up(
    evals: Sequence[Evaluation], total_steps: int, others: Sequence[Sequence[Evaluation]], finished: int
) -> str | None:
    """Why a run with these evaluations is hopeless beside the evaluations of the others; None if it isn't."""
    if not evals or finished < FEWEST_FINISHED or evals[-1].step < EARLIEST * total_steps:
        return None
    step, own = evals[-1].step, min(each.val for each in evals)
    reached = [each for each in others if each and each[-1].step >= step]
    bests = [min((e.val for e in each if e.step <= step), default=math.inf) for each in reached]
    if len(bests) < FEWEST_FINISHED:
        return None
    middle = median(bests)
    if not own - ERRORS * (evals[-1].stderr or 0.0) > middle:
        return None
    return Text(
        "at step {step:d} its best validation loss was {own:.4f}, the median of {n:d} other runs {middle:.4f}",
        step=step, own=own, n=len(bests), middle=middle,
    )  # fmt: skip
