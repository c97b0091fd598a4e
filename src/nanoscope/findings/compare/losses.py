"""The loss of a run at a step, and how well it is known."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from nanoscope.estimates import scatter
from nanoscope.findings.compare.declared import LossMeasure, NoiseSource
from nanoscope.findings.compare.runs import ComparedRun, Group
from nanoscope.findings.evidence import FEW_FOR_SCATTER, ROUNDING, Estimate, mean_difference
from nanoscope.findings.numbers import between, mean
from nanoscope.runs.run import NOT_FINITE
from nanoscope.runs.windows import WindowLosses

LARGEST_GAP = 0.25  # of the step: evaluations further apart are not joined by a line
WINDOW = 0.1  # of the steps before a step: the training lines that its training loss is the mean of
FEWEST_LINES = 5
FEWEST_EVALS = 5  # of which the scatter says something
FEWEST_EQUAL = 3  # losses, for runs to be called identical
SAME_STEPS = 0.05  # runs whose lengths differ by less have the same length
SAME_MEAN = 0.002  # between the losses by window and the evaluation's: further apart, they are of another evaluation


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
        return mean([self.of[each.index].loss for each in runs])

    def finite(self, runs: Group) -> list[float]:
        return [loss for each in runs if math.isfinite(loss := self.of[each.index].loss)]


def losses_of(runs: Group, at_the_ends: bool = False) -> Losses | None:
    """The losses at the last step that all runs have: of validation if all have it, else of training."""
    whole = [each for each in runs if not each.is_broken]
    for measure, estimate in (("val", _validation), ("train", _training)):
        ends = [_evals(each)[-1][0] if _evals(each) else 0 for each in whole]
        ends = ends if measure == "val" else [each.last_step for each in whole]
        step = min(ends, default=0)
        if not step:
            continue
        steps = dict(zip((each.index for each in whole), ends, strict=True)) if at_the_ends else {}
        found = {
            each.index: LossEstimate(NOT_FINITE) if each.is_broken else estimate(each, steps.get(each.index, step))
            for each in runs
        }
        known = {index: level for index, level in found.items() if level is not None}
        if len(known) == len(runs):
            return Losses(measure, None if at_the_ends else step, known)  # type: ignore[arg-type]
    return None


def difference(losses: Losses, one: ComparedRun, two: ComparedRun) -> tuple[Estimate | None, NoiseSource | None]:
    """How much higher the loss of one model is than that of the other: window by window where both kept their losses.

    Its error is that of the two models' evaluations. It knows nothing of what another seed would do.
    """
    if losses.measure == "val" and (paired := _paired(one, two, losses.step)):
        return Estimate(paired[0], max(paired[1], ROUNDING)), "windows"
    a, b = losses.of[one.index], losses.of[two.index]
    if a.error is None or b.error is None:
        return None, None
    source: NoiseSource = "errors" if a.source == b.source == "errors" else "scatter"
    return Estimate(a.loss - b.loss, max(math.hypot(a.error, b.error), ROUNDING)), source


def _paired(one: ComparedRun, two: ComparedRun, step: int | None) -> tuple[float, float] | None:
    ours, theirs = _windows(one, step), _windows(two, step)
    same_data = one.fingerprint is not None and one.fingerprint == two.fingerprint
    if ours is None or theirs is None or ours.block_size != theirs.block_size or not same_data:
        return None
    both = sorted(ours.losses.keys() & theirs.losses.keys())
    return mean_difference([ours.losses[number] for number in both], [theirs.losses[number] for number in both])


def _windows(each: ComparedRun, step: int | None) -> WindowLosses | None:
    """The losses by window of the evaluation at a step (None: of the last), if they belong to it."""
    vals = {e.step: e.val for e in each.run.evals if step in (None, e.step)}
    for windows in each.run.details.windows if each.run.details and vals else []:
        losses = list(windows.losses.values())
        if losses and windows.step == max(vals) and math.isclose(mean(losses), vals[max(vals)], rel_tol=SAME_MEAN):
            return windows
    return None


def is_identical(one: ComparedRun, two: ComparedRun) -> bool:
    """Whether two runs printed the same losses at every step that both printed."""
    equal = (one.printed[at] == loss for at, loss in two.printed.items() if at in one.printed)
    return all(equal) and len(one.printed.keys() & two.printed.keys()) >= FEWEST_EQUAL


def _evals(each: ComparedRun) -> list[tuple[int, float]]:
    evals = each.run.evals
    return [(e.step, e.val) for e in evals if math.isfinite(e.val) and e.metric == evals[-1].metric]


def _validation(each: ComparedRun, step: int) -> LossEstimate | None:
    points = _evals(each)
    steps = [at for at, _ in points]
    right = bisect_left(steps, step)
    if right == len(steps) or (steps[right] != step and not 0 < steps[right] - steps[right - 1] <= LARGEST_GAP * step):
        return None
    loss = between(step, steps, [value for _, value in points])
    near = min((e for e in each.run.evals if math.isfinite(e.val)), key=lambda e: abs(e.step - step))
    if near.stderr is not None and math.isfinite(near.stderr):
        return LossEstimate(loss, near.stderr, "errors")
    values = [value for at, value in points if at > 0]
    late = values[len(values) // 2 :] if len(values) >= 2 * FEWEST_EVALS else values[1:]
    if len(late) >= FEWEST_EVALS:
        return LossEstimate(loss, scatter(late), "scatter")
    return LossEstimate(loss)


def _training(each: ComparedRun, step: int) -> LossEstimate | None:
    """The mean of the training lines that lead up to a step."""
    steps, losses = each.run.steps.step, each.run.steps.loss
    end = bisect_right(steps, step)
    if end == 0 or steps[end - 1] < (1 - LARGEST_GAP) * step:
        return None
    begin = min(bisect_left(steps, (1 - WINDOW) * step), max(0, end - FEWEST_LINES))
    finite = [loss for loss in losses[begin:end] if math.isfinite(loss)]
    calm = [loss for loss in losses[end // 2 : end] if math.isfinite(loss)]
    error = scatter(calm) / math.sqrt(len(finite)) if finite and len(calm) >= FEW_FOR_SCATTER else None
    return LossEstimate(mean(finite), error, "scatter" if error is not None else None) if finite else None
