"""The loss of a run at a step, and how well it is known."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import LossMeasure, NoiseSource
from nanoscope.analysis.numbers import between
from nanoscope.estimates import scatter, spread_indices
from nanoscope.runs.run import NOT_FINITE, Run

LARGEST_GAP = 0.25  # of the step: evaluations further apart are not joined by a line
WINDOW = 0.1  # of the steps before a step: the training lines that its training loss is the mean of
FEWEST_LINES = 5
FEWEST_EVALS = 5  # of which the scatter says something
FEWEST_EQUAL = 3  # losses, for runs to be called identical
SAMPLE = 100  # losses that are looked at first
BATCHES = 20  # of an evaluation, if the log does not say
SAME_STEPS = 0.05  # runs whose lengths differ by less have the same length


@dataclass(eq=False)
class Level:
    """A loss with its standard error; None: unknown. The loss is infinite where the run broke."""

    loss: float
    error: float | None
    source: NoiseSource | None

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss)


@dataclass(eq=False)
class Levels:
    """The losses of several runs by one measure; at one step, or each at its own end."""

    measure: LossMeasure
    step: int | None
    of: dict[int, Level]  # by the run's place

    def difference(self, one: int, two: int) -> float:
        return self.of[one].loss - self.of[two].loss


def levels_at_equal_steps(sides: Sequence[Side]) -> Levels | None:
    """The losses at the last step that all runs have: of validation if all have it, else of training."""
    whole = [side for side in sides if not is_broken(side)]
    if not whole:
        return None
    if all(_evals(side) for side in whole):
        step = min(_evals(side)[-1][0] for side in whole)
        levels = _levels("val", step, sides, lambda side: _validation(side, step))
        if levels is not None:
            return levels
    step = min(side.last_step for side in whole)
    return _levels("train", step, sides, lambda side: _training(side, step))


def levels_at_the_ends(sides: Sequence[Side]) -> Levels | None:
    """The last losses of all runs, by the same measure."""
    if all(_evals(side) for side in sides if not is_broken(side)):
        return _levels("val", None, sides, lambda side: _validation(side, _evals(side)[-1][0]))
    return _levels("train", None, sides, lambda side: _training(side, side.last_step))


def is_broken(side: Side) -> bool:
    """Whether the run ended with a loss that is not finite."""
    run = side.run
    return (bool(run.steps) and run.steps.loss[-1] == NOT_FINITE) or (
        bool(run.evals) and run.evals[-1].val == NOT_FINITE
    )


def _levels(
    measure: LossMeasure, step: int | None, sides: Sequence[Side], level: Callable[[Side], Level | None]
) -> Levels | None:
    found = {side.place: Level(NOT_FINITE, None, None) if is_broken(side) else level(side) for side in sides}
    known = {place: level for place, level in found.items() if level is not None}
    return Levels(measure, step, known) if step != 0 and len(known) == len(sides) else None


def loss_at(side: Side, step: float) -> float | None:
    """The validation loss at a step, between evaluations that are close to each other; None elsewhere."""
    points = _evals(side)
    steps = [at for at, _ in points]
    right = bisect_left(steps, step)
    if right < len(steps) and steps[right] == step:
        return points[right][1]
    if right in (0, len(steps)) or steps[right] - steps[right - 1] > LARGEST_GAP * step:
        return None
    return between(step, steps, [value for _, value in points])


def step_of(side: Side, loss: float) -> float | None:
    """The step at which the validation loss was first reached; None if never, or not visible closely enough."""
    points = _evals(side)
    index = next((i for i, (_, value) in enumerate(points) if value <= loss), None)
    if index is None or index == 0:
        return None if index is None else float(points[0][0])
    (before, above), (after, below) = points[index - 1 : index + 1]
    if after - before > LARGEST_GAP * after:
        return float(after) if below == loss else None
    return before + (above - loss) / (above - below) * (after - before)


def is_identical(one: Side, two: Side) -> bool:
    """Whether two runs printed the same losses at every step that both printed."""
    some = _equal_lines(one.run, two.run, SAMPLE)
    if some is None:
        return False
    all_lines = _equal_lines(one.run, two.run, len(two.run.steps)) if len(two.run.steps) > SAMPLE else some
    mine = {e.step: e.val for e in one.run.evals if e.step > 0}
    evals = [mine[e.step] == e.val for e in two.run.evals if e.step in mine]
    return all_lines is not None and all(evals) and all_lines + len(evals) >= FEWEST_EQUAL


def _equal_lines(one: Run, two: Run, at_most: int) -> int | None:
    """How many printed training losses of some steps agree; None if one does not."""
    steps, count = one.steps.step, 0
    for index in spread_indices(len(two.steps), at_most):
        place = bisect_left(steps, two.steps.step[index])
        if place < len(steps) and steps[place] == two.steps.step[index]:
            losses = one.steps.loss[place], two.steps.loss[index]
            if not any(map(math.isnan, losses)):
                if losses[0] != losses[1]:
                    return None
                count += 1
    return count


def _evals(side: Side) -> list[tuple[int, float]]:
    evals = side.run.evals
    return [(e.step, e.val) for e in evals if math.isfinite(e.val) and e.metric == evals[-1].metric]


def _validation(side: Side, step: int) -> Level | None:
    loss = loss_at(side, step)
    if loss is None:
        return None
    near = min((e for e in side.run.evals if math.isfinite(e.val)), key=lambda e: abs(e.step - step))
    if near.stderr is not None and math.isfinite(near.stderr):
        return Level(loss, near.stderr, "errors")
    values = [value for at, value in _evals(side) if at > 0]
    late = values[len(values) // 2 :] if len(values) >= 2 * FEWEST_EVALS else values[1:]
    if len(late) >= FEWEST_EVALS:
        return Level(loss, scatter(late), "scatter")
    lines = _noise_of_lines(side, step)
    batches = side.settings.get("eval_iters", BATCHES)
    count = batches if isinstance(batches, int) and batches > 0 else BATCHES
    return Level(loss, lines / math.sqrt(count), "scatter") if lines is not None else Level(loss, None, None)


def _training(side: Side, step: int) -> Level | None:
    """The mean of the training lines that lead up to a step."""
    steps, losses = side.run.steps.step, side.run.steps.loss
    end = bisect_right(steps, step)
    if end == 0 or steps[end - 1] < (1 - LARGEST_GAP) * step:
        return None
    begin = min(bisect_left(steps, (1 - WINDOW) * step), max(0, end - FEWEST_LINES))
    window = losses[begin:end]
    finite = [loss for loss in window if math.isfinite(loss)]
    if not finite:
        return None
    noise = _noise_of_lines(side, step)
    error = noise / math.sqrt(len(finite)) if noise is not None else None
    return Level(sum(finite) / len(finite), error, "scatter" if error is not None else None)


def _noise_of_lines(side: Side, step: int) -> float | None:
    """The scatter of single training lines before a step."""
    steps, losses = side.run.steps.step, side.run.steps.loss
    end = bisect_right(steps, step)
    finite = [loss for loss in losses[end // 2 : end] if math.isfinite(loss)]
    return scatter(finite) if len(finite) >= 8 else None
