"""How a run breaks: losses that are not finite, jumps, divergence, a damaged start, no learning at all.

Noise is always measured before the break, where the run was calm.
"""

import math
from collections.abc import Sequence

from nanoscope.estimates import is_spike, median, scatter, spike_height
from nanoscope.findings.curves import Curve, Evidence
from nanoscope.findings.declared import (
    DamagedStart,
    Diverged,
    LossSpike,
    NonFinite,
    NotLearning,
    RepeatedBatches,
)
from nanoscope.findings.declared.learning import Measure
from nanoscope.findings.numbers import is_printed
from nanoscope.runs.run import NOT_FINITE, Run

# A jump that lasts: over the loss before it by so much of it, by so many times its noise, and by so much at least.
BROKEN_SHARE, BROKEN_SIGMAS, BROKEN_LEAST = 0.25, 10.0, 0.3
BACK_SHARE, STILL_FALLS = 0.7, 0.2  # of a jump, less is left; and of that, a quarter of the time since takes off more
DAMAGE_SHARE = 0.05  # of the first loss
UNIFORM_SHARE = 0.03  # that near ln(vocabulary) a loss is that of guessing
STUCK_STEPS, STUCK_LINES = 100, 20
FREQUENCIES_SHARE = 0.66  # of ln(vocabulary): about what knowing the frequencies of characters or tokens brings
REPEATED_SHARE = 0.6  # of the loss of the training text


def non_finite(evidence: Evidence) -> NonFinite | None:
    """The first loss that is no finite number."""
    run = evidence.run
    losses, steps = run.steps.loss, run.steps.step
    first = next((index for index, loss in enumerate(losses) if loss == NOT_FINITE), None)
    if first is not None:
        step = steps[first]
        before = [loss for loss in losses[:first] if math.isfinite(loss)]
        recovered = next(loss for loss in reversed(losses) if loss == loss) != NOT_FINITE
    else:
        infinite = [e.step for e in run.evals if e.val == NOT_FINITE]
        if not infinite or run.steps:
            return None
        step, before, recovered = infinite[0], [], False
    good = _checkpoint_before(run, step - 1)
    return NonFinite(step, not before, recovered, good, before[-1] if before else None, confidence="sure")


def _checkpoint_before(run: Run, step: int) -> int | None:
    """The last checkpoint up to a step."""
    return max((c.step for c in run.checkpoints if c.step <= step), default=None)


def diverged(evidence: Evidence) -> Diverged | None:
    """A loss that jumped, or crept up, and stayed up."""
    curve, run, uniform = evidence.curve, evidence.run, evidence.uniform
    found = _jump_that_lasts(curve.values, uniform) or _creeping_rise(evidence)
    if found is None:
        return None
    at, before, safe = found
    if _comes_back(curve.values, at, before, uniform):
        return None
    step, last = curve.steps[at], curve.values[-1]
    norm_before, norm_after = _norms_around(run, step)
    rates = [lr for s, lr in zip(run.steps.step, run.steps.lr, strict=True) if s <= step and lr == lr]
    return Diverged(
        step=step,
        best=before,
        last=last,
        highest=max(curve.values[at:]),
        last_good_checkpoint=_checkpoint_before(run, curve.steps[safe]),
        uniform_loss=uniform if uniform is not None and last > 1.02 * uniform else None,
        began_at=curve.values[0] if uniform is None and evidence.from_scratch and last > curve.values[0] else None,
        lr_rising=len(rates) >= 3 and rates[-1] > 1.02 * rates[-max(3, len(rates) // 4)],
        grad_norm_before=norm_before,
        grad_norm_after=norm_after,
        confidence="sure" if last > 1.5 * before else "likely",
    )


def _comes_back(values: Sequence[float], at: int, before: float, uniform: float | None) -> bool:
    """Whether a loss that jumped is most of the way back and still falls: a spike that lasts, not a lost run."""
    after = values[at:]
    size = max(1, len(after) // 4)
    end, earlier = median(after[-size:]), median(after[-2 * size : -size] or after[:1])
    useful = uniform if uniform is not None else values[0]
    left = end - before
    return end < useful and left < BACK_SHARE * (max(after) - before) and earlier - end > STILL_FALLS * left


Break = tuple[int, float, int]  # the index of the break, the loss before it, and the last index that is surely before


def _jump_that_lasts(values: Sequence[float], uniform: float | None) -> Break | None:
    """The first jump from which the loss never came back."""
    found = None
    while (jump := _last_jump(values, uniform)) is not None:
        found = jump
        values = values[: jump[0]]  # an earlier one, from which the loss came back no more either
    return found


def _last_jump(values: Sequence[float], uniform: float | None) -> Break | None:
    count = len(values)
    if count < 4:
        return None
    end = min(values[-3:])
    limit = min(end / (1 + BROKEN_SHARE), end - BROKEN_LEAST)
    low = next((index for index in range(count - 1, -1, -1) if values[index] <= limit), None)
    for at in range(max(2, low - 3), min(count - 2, low + 4)) if low is not None else ():
        before, later = median(values[max(0, at - 5) : at]), values[at:]
        calm = values[max(0, at - 60) : at]
        noise = scatter(calm) if len(calm) >= 6 else 0.1 * before
        height = max(BROKEN_SIGMAS * noise, BROKEN_SHARE * before, BROKEN_LEAST)
        stays = min(median(later[i : i + 3]) for i in range(min(len(later), 200))) - before >= height / 2
        if min(values[at], end) - before < height or not stays:
            continue
        few = len(calm) < 6 or len(later) < max(5, count // 10)
        lost = end > 2 * before or (uniform is not None and end > uniform)
        if lost if few else (lost or len(later) >= count // 5):
            return at, values[at - 1], at - 1
    return None


def _creeping_rise(evidence: Evidence) -> Break | None:
    """Medians of short stretches: spikes vanish, a divergence stays."""
    values = evidence.curve.values
    if len(values) < 24:
        return None
    size = max(3, len(values) // 40)
    smooth = [median(values[i : i + size]) for i in range(0, len(values) - size + 1, size)]
    best, last = min(smooth), median(smooth[-2:])
    low = smooth.index(best)
    fall = smooth[0] - best if evidence.from_scratch else 0.0
    noise = scatter(values[: max(2, low + 1) * size]) / size**0.5
    least = max(BROKEN_LEAST * fall, BROKEN_SHARE * best, BROKEN_SIGMAS * noise, BROKEN_LEAST)
    if low >= len(smooth) - 3 or last - best < least:
        return None
    begins = max(i for i in range(low, len(smooth)) if smooth[i] <= best + 0.1 * (last - best)) + 1
    return min(begins, len(smooth) - 1) * size, best, low * size


def _norms_around(run: Run, step: int) -> tuple[float | None, float | None]:
    """The usual gradient norm before a step, and the highest around it."""
    pairs = [(s, g) for s, g in zip(run.steps.step, run.steps.grad_norm, strict=True) if math.isfinite(g)]
    before, later = [norm for at, norm in pairs if at < step], [norm for at, norm in pairs if at >= step]
    near, before = before[-1:] + later[:10], before[-50:-1]
    if len(before) < 3 or max(near) < 2 * median(before):
        return None, None
    return median(before), max(near)


def spikes(curve: Curve) -> tuple[LossSpike, ...]:
    """Jumps far above the losses before them, and where they were over; the three highest."""
    steps, losses = curve.steps, curve.values
    jump, soon = spike_height(losses), max(10, len(losses) // 20)
    found: list[LossSpike] = []
    over = 0  # the index at which the last one was over
    for index in range(1, len(losses)):
        recent = losses[max(0, index - 3) : index]
        if losses[index] - recent[-1] <= jump or index <= over or not is_spike(losses[index], recent, jump):
            continue
        before = median(recent)
        back = (i for i in range(index, min(index + soon, len(losses))) if losses[i] < before + jump / 2)
        recovered = next(back, None)
        if recovered is not None or index + soon >= len(losses):
            back_at = None if recovered is None else steps[recovered]
            found.append(LossSpike(steps[index], losses[index], before, back_at))
            over = len(losses) if recovered is None else recovered
    return tuple(sorted(found, key=lambda spike: spike.before - spike.loss)[:3])


def damaged_start(evidence: Evidence) -> DamagedStart | None:
    """A model that its first steps made worse: by its evaluations, or by the training loss of a run from scratch."""
    if not evidence.from_scratch:
        return None
    points, curve, uniform = evidence.val, evidence.curve, evidence.uniform
    if len(points) >= 2 and points.steps[0] <= 1:  # MLX evaluates at 'iter 1', before its first update
        first, early = points.values[0], points.values[1:4]
        worst, noise = max(early), 3 * points.sigma
        damaged = early[0] - first > 0 and worst - first > max(DAMAGE_SHARE * first, noise)  # later: other causes
        stays = len(points) < 4 and min(early) - first > max(DAMAGE_SHARE / 4 * first, noise)
        if damaged or stays:
            return _damaged("val", points.steps, points.values, points.values.index(worst), uniform)
    few = len(points) < 3 and len(curve.values) >= 8
    if few and uniform is not None and abs(curve.values[0] - uniform) <= 0.1 * uniform:
        worst = max(curve.values[1 : max(4, len(curve.values) // 10)])
        if worst >= 1.1 * max(uniform, curve.values[0]):
            return _damaged("train", curve.steps, curve.values, curve.values.index(worst), uniform)
    return None


def _damaged(
    measure: Measure, steps: Sequence[int], values: Sequence[float], worst: int, uniform: float | None
) -> DamagedStart:
    back = next((steps[i] for i in range(worst, len(values)) if values[i] <= values[0]), None)
    above = uniform if uniform is not None and values[worst] > 1.02 * uniform else None
    return DamagedStart(measure, values[0], values[worst], steps[worst], back, above, confidence="likely")


def not_learning(evidence: Evidence) -> NotLearning | None:
    """A loss that stands where it began, although many steps were trained and the rate is not warming up."""
    values, rates, uniform = evidence.curve.values, evidence.run.steps.lr, evidence.uniform
    rate_is_zero = is_printed(rates) and not any(lr > 0 for lr in rates)
    if len(values) >= 3 and not any(values):
        return NotLearning("zero", 0.0, evidence.trained, rate_is_zero, confidence="sure")
    if not _long_enough(evidence) or evidence.warming_up:
        return None
    first, end, noise = median(values[:3]), _end(values), max(scatter(values), 1e-4)
    vals = evidence.val.values
    lowest = min([*evidence.curve.points.values, *(e.val for e in evidence.evals if e.metric == "loss")])
    if first - lowest > max(0.02 * first, 3 * noise) or end - first > 0.05 * first:
        return None
    if vals and vals[0] - min(vals) > 0.03 * vals[0]:
        return None
    if uniform is not None and abs(end - uniform) < UNIFORM_SHARE * uniform:
        return NotLearning("uniform", end, evidence.trained, rate_is_zero, confidence="sure")
    if rate_is_zero:
        return NotLearning("first_value", end, evidence.trained, True, confidence="sure")
    # A language model that knows nothing yet falls at once.
    if uniform is None and evidence.run.is_language_model and first > 3.5 and noise < 0.03 * first:
        return NotLearning("first_value", end, evidence.trained, False, confidence="likely")
    return None


def _long_enough(evidence: Evidence) -> bool:
    return evidence.from_scratch and len(evidence.curve.values) >= STUCK_LINES and evidence.trained > STUCK_STEPS


def _end(values: Sequence[float]) -> float:
    return median(values[-max(3, len(values) // 4) :])


def only_frequencies(evidence: Evidence) -> NotLearning | None:
    """A run whose loss no longer falls from where a model stands that knows only how frequent each token is."""
    uniform = evidence.uniform
    if uniform is None or not _long_enough(evidence):
        return None
    level = _end(evidence.curve.values)
    if not FREQUENCIES_SHARE * uniform < level < (1 - UNIFORM_SHARE) * uniform:
        return None
    return NotLearning("frequencies", level, evidence.trained, False, confidence="likely")


def repeated_batches(evidence: Evidence) -> RepeatedBatches | None:
    """Training lines far below the loss of the training split, where both were alike at first."""
    pairs = [
        (e.step, e.train_loss, line)
        for e in evidence.evals
        if e.metric == "loss" and e.step > 0 and e.train_loss is not None and (line := evidence.curve.around(e.step))
    ]
    if len(pairs) < 3 or not evidence.losses_measured_alike:
        return None
    began, (step, train, line) = evidence.evals[0].train_loss or pairs[0][1], pairs[-1]
    alike = abs(evidence.curve.values[0] - began) < 0.2 * began
    if not alike or line > REPEATED_SHARE * train or train - line < BROKEN_LEAST:
        return None
    return RepeatedBatches(step, line, train, confidence="likely")
