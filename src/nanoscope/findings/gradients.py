"""What the gradient norm and the loss scale show."""

import math
from array import array

from nanoscope.estimates import median
from nanoscope.findings.curves import Evidence
from nanoscope.findings.declared import (
    GradientExplosion,
    GradientNorm,
    GradientNotFinite,
    ScaleCollapse,
)
from nanoscope.findings.numbers import is_printed
from nanoscope.runs.run import NOT_FINITE, Run

FEWEST = 20  # lines
MANY_TIMES, HIGH = 20.0, 10.0  # an explosion: that many times the usual norm, and that high
SHARE_NOT_FINITE = 0.2  # fewer are the overflows that a loss scaler skips
COLLAPSED = 2**8  # times lower than before


def analyse_gradients(run: Run) -> GradientNorm | None:
    """The usual and the highest norm, and the share of the printed steps that were clipped."""
    steps, norms = _finite(run)
    if len(norms) < FEWEST:
        return None
    highest = max(norms)
    clip = run.config.get("grad_clip")
    limit = float(clip) if isinstance(clip, int | float) and clip > 0 else None
    share = sum(norm > limit for norm in norms) / len(norms) if limit else None
    return GradientNorm(median(norms), highest, steps[norms.index(highest)], limit, share)


def not_finite(evidence: Evidence) -> GradientNotFinite | None:
    run = evidence.run
    norms = [norm for norm in run.steps.grad_norm if norm == norm]
    count = norms.count(NOT_FINITE)
    at_the_end = norms[-3:] == 3 * [NOT_FINITE]
    if count < 3 or not (at_the_end or count > SHARE_NOT_FINITE * len(norms)):
        return None
    first = run.steps.step[run.steps.grad_norm.index(NOT_FINITE)]
    return GradientNotFinite(first, count, len(norms), confidence="sure" if at_the_end else "likely")


def explosion(evidence: Evidence) -> GradientExplosion | None:
    steps, norms = _finite(evidence.run)
    if len(norms) < FEWEST:
        return None
    begin, tail = len(norms) // 10, max(3, len(norms) // 20)
    usual, now = median(norms[begin:-tail]), median(norms[-tail:])
    if now < max(MANY_TIMES * usual, HIGH):
        return None
    first = next(i for i in range(begin, len(norms)) if norms[i] > MANY_TIMES / 2 * usual)
    return GradientExplosion(steps[first], usual, now, confidence="likely")


def _finite(run: Run) -> "tuple[array[int], array[float]]":
    norms = run.steps.grad_norm
    kept = array("q", (index for index, norm in enumerate(norms) if 0 <= norm < math.inf) if is_printed(norms) else ())
    return array("q", (run.steps.step[i] for i in kept)), array("d", (norms[i] for i in kept))


def scale_collapse(evidence: Evidence) -> ScaleCollapse | None:
    series = evidence.run.series.get("loss_scale")
    if series is None or len(series.values) < 4:
        return None
    values = series.values
    highest, last = max(values), values[-1]
    if not 0 <= last <= highest / COLLAPSED:
        return None
    halvings = round(math.log2(highest / last)) if last > 0 else len(values)
    below = next(i for i, value in enumerate(values) if i > values.index(highest) and value < highest)
    return ScaleCollapse(highest, last, series.steps[below], halvings, confidence="likely")
