"""The loss of a run at a step, and how well it is known."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from nanoscope.estimates import scatter
from nanoscope.findings.compare.runs import ComparedRun, Group
from nanoscope.findings.evidence import FEW_FOR_SCATTER, ROUNDING, Estimate, mean_difference
from nanoscope.findings.numbers import between
from nanoscope.runs.run import NOT_FINITE

LARGEST_GAP = 0.25  # of the step: evaluations further apart are not joined by a line
WINDOW = 0.1  # of the steps before a step: the training lines that its training loss is the mean of
FEWEST_LINES = 5
FEWEST_EVALS = 5  # of which the scatter says something
FEWEST_EQUAL = 3  # losses, for runs to be called identical
SAME_STEPS = 0.05  # runs whose lengths differ by less have the same length
SAME_MEAN = 0.002  # between the losses by window and the evaluation's: further apart, they are of another evaluation

LossMeasure = Literal["val", "train"]
NoiseSource = Literal["windows", "errors", "scatter"]


@dataclass(eq=False)
class LossEstimate:
    """A loss with its standard error; None: unknown. The loss is infinite where the run broke."""

    loss: float
    error: float | None = None
    source: NoiseSource | None = None


@dataclass(eq=False)
class Losses:
    """The losses of several runs by one measure; at one step, or each at its own end."""

    measure: LossMeasure
    step: int | None
    of: Mapping[int, LossEstimate]  # by the run's index

    def mean(self, runs: Group) -> float:
        return fmean(self.of[each.index].loss for each in runs)

    def finite(self, runs: Group) -> list[float]:
        return [loss for each in runs if math.isfinite(loss := self.of[each.index].loss)]


def losses_of(runs: Group, at_the_ends: bool = False) -> Losses | None:
    """The losses at the last step that all runs have: of validation if all have it, else of training."""
    whole = [each for each in runs if not each.is_broken]
    vals = {each.index: _evals(each)[-1][0] if _evals(each) else 0 for each in whole}
    return _losses(runs, "val", vals, at_the_ends) or _losses(
        runs, "train", {each.index: each.last_step for each in whole}, at_the_ends
    )


def _losses(runs: Group, measure: LossMeasure, ends: Mapping[int, int], at_the_ends: bool) -> Losses | None:
    step = min(ends.values(), default=0)
    estimate = _validation if measure == "val" else _training
    known = {}
    for each in runs if step else ():
        at = ends.get(each.index, step) if at_the_ends else step
        found = LossEstimate(NOT_FINITE) if each.is_broken else estimate(each, at)
        if found is not None:
            known[each.index] = found
    return Losses(measure, None if at_the_ends else step, known) if len(known) == len(runs) else None


def difference(losses: Losses, one: ComparedRun, two: ComparedRun) -> tuple[Estimate | None, NoiseSource | None]:
    """How much higher the loss of one model is than that of the other: window by window where both kept their losses.

    Its error is that of the two models' evaluations. It knows nothing of what another seed would do.
    """
    paired = _paired(one, two, losses.step) if losses.measure == "val" else None
    if paired is not None:
        return Estimate(paired[0], max(paired[1], ROUNDING)), "windows"
    a, b = losses.of[one.index], losses.of[two.index]
    if a.error is None or b.error is None:
        return None, None
    source: NoiseSource = "errors" if a.source == b.source == "errors" else "scatter"
    return Estimate(a.loss - b.loss, max(math.hypot(a.error, b.error), ROUNDING)), source


def _paired(one: ComparedRun, two: ComparedRun, step: int | None) -> tuple[float, float] | None:
    (our_size, ours), (their_size, theirs) = _windows(one, step), _windows(two, step)
    if our_size != their_size or one.fingerprint is None or one.fingerprint != two.fingerprint:
        return None
    both = sorted(ours.keys() & theirs.keys())
    return mean_difference([ours[number] for number in both], [theirs[number] for number in both])


def _windows(each: ComparedRun, step: int | None) -> tuple[int, Mapping[int, float]]:
    """The windows of the evaluation at a step (None: of the last), if they are its own: their size and losses."""
    vals = {e.step: e.val for e in each.run.evals if step in (None, e.step)}
    for windows in each.run.details.windows if each.run.details and vals else ():
        mean = fmean(windows.losses.values()) if windows.losses else NOT_FINITE
        if windows.step == max(vals) and math.isclose(mean, vals[max(vals)], rel_tol=SAME_MEAN):
            return windows.block_size, windows.losses
    return 0, {}


def is_identical(one: ComparedRun, two: ComparedRun) -> bool:
    """Whether two runs printed the same losses at every step that both printed."""
    equal = (one.printed[at] == loss for at, loss in two.printed.items() if at in one.printed)
    return all(equal) and len(one.printed.keys() & two.printed.keys()) >= FEWEST_EQUAL


def _evals(each: ComparedRun) -> list[tuple[int, float]]:
    evals = each.run.evals
    return [(e.step, e.val) for e in evals if math.isfinite(e.val) and e.metric == evals[-1].metric]


def _validation(each: ComparedRun, step: int) -> LossEstimate | None:
    steps, values = zip(*_evals(each), strict=True)
    right = bisect_left(steps, step)
    if right == len(steps) or (steps[right] != step and not 0 < steps[right] - steps[right - 1] <= LARGEST_GAP * step):
        return None
    loss = between(step, steps, values)
    near = min((e for e in each.run.evals if math.isfinite(e.val)), key=lambda e: abs(e.step - step))
    if near.stderr is not None and math.isfinite(near.stderr):
        return LossEstimate(loss, near.stderr, "errors")
    learnt = values[1:] if steps[0] <= 0 else values
    late = learnt[len(learnt) // 2 :] if len(learnt) >= 2 * FEWEST_EVALS else learnt[1:]
    known = len(late) >= FEWEST_EVALS
    return LossEstimate(loss, scatter(late) if known else None, "scatter" if known else None)


def _training(each: ComparedRun, step: int) -> LossEstimate | None:
    """The mean of the training lines that lead up to a step."""
    steps, losses = each.run.steps.step, each.run.steps.loss
    end = bisect_right(steps, step)
    if end == 0 or steps[end - 1] < (1 - LARGEST_GAP) * step:
        return None
    begin = min(bisect_left(steps, (1 - WINDOW) * step), max(0, end - FEWEST_LINES))
    finite = [loss for loss in losses[begin:end] if math.isfinite(loss)]
    calm = [loss for loss in losses[end // 2 : end] if math.isfinite(loss)]
    if not finite:
        return None
    known = len(calm) >= FEW_FOR_SCATTER
    error = scatter(calm) / math.sqrt(len(finite)) if known else None
    return LossEstimate(fmean(finite), error, "scatter" if known else None)
