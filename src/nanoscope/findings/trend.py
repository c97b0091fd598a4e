"""Whether a run still gets better: improving, flat, past its best, or not to be told. Evaluations count first.

Each rule says what it needs, what it tests and how sure that is; the tools are in evidence.py.
"""

import math
from typing import Literal

from nanoscope.estimates import median
from nanoscope.findings.curves import Evidence
from nanoscope.findings.declared import (
    Confidence,
    Gap,
    Improving,
    Leak,
    Memorising,
    Overfitting,
    Plateau,
    RunProgress,
    ScheduleEnded,
    Stalled,
    TooShort,
    Unclear,
    Verdict,
    Worsening,
)
from nanoscope.findings.declared.learning import Measure
from nanoscope.findings.evidence import Points, change, flat_end, in_blocks, rise_since_best, turned
from nanoscope.runs.run import Evaluation

SURE, LIKELY, HINT = 5.0, 3.0, 2.0  # sigmas
# Standard errors of a turn (`evidence.turned`): no longer called improving; worse; overfitting, beside a training loss
# that falls. Chosen on simulated runs (benchmarks/LOG.md, 'When a rise is seen').
TURNING, TURNED, TURNED_BESIDE = 3.0, 5.0, 3.5
FAR = 3.5  # standard errors of a difference of two evaluations: every one since is that much higher
# A plateau is that many evaluations long, that share of the run, and its slope per doubling of the steps is known to
# that share of the loss; the same for stretches of training lines, which say less.
FLAT: dict[Measure, tuple[int, float, float]] = {"val": (5, 0.3, 0.025), "train": (12, 0.5, 0.01)}
ENOUGH_OF_RUN, ENOUGH_OF_PLAN = 0.25, 0.1  # a plateau is judged from that much of the run, and of what is planned
MOST_POINTS = 150  # a curve of more is looked at in stretches
WARMUP_SHARE = 0.03  # of the loss: a smaller fall during warm-up says nothing yet
WORTH_SAYING = 0.003  # of the loss: a smaller rise is not called one
WAY_BACK = 0.3  # of a rise, that a curve has come down again
GAP_SHARE, FAR_APART, EASIER = 0.08, 2.5, 0.05
OF_SENTENCES = 20.0  # more than any mean of a token: such a loss is the sum of a sentence
# Nats a token. Unseen text costs 0.5 or more even by the character, so a lower training loss is knowing it by heart.
MEMORISED, MEMORISED_AFTER_PASSES = 0.2, 0.5
SMALLEST_TEXT = math.log(16)  # what text of the poorest alphabet costs before any training
MANY_PASSES = 10


def direction(evidence: Evidence) -> Verdict | None:
    """Improving, a plateau or neither, by the evaluations, or by the training lines where those are too few."""
    if len(evidence.val) >= 3 or evidence.has_stderr:
        found = _judge("val", evidence.val, evidence)
        if not isinstance(found, Unclear) or len(evidence.val) >= FLAT["val"][0]:
            return found
    points = evidence.curve.points
    if len(points) < 6:
        return None
    return _judge("train", points, evidence)


def _judge(measure: Measure, points: Points, evidence: Evidence) -> Verdict:
    schedule, warming_up = evidence.schedule, evidence.warming_up
    recent = points.since(points.steps[-1] / 2)
    if len(recent) < 3:
        recent = points.part(-3)
    moved = change(recent)
    ended = schedule is not None and schedule.stage == "ended"
    enough = evidence.covered >= ENOUGH_OF_RUN and not _only_begun(evidence.progress)
    curve = in_blocks(points.steps, points.values, MOST_POINTS) if len(points) > MOST_POINTS else points
    flat = flat_end(curve, *FLAT[measure]) if enough and not warming_up else None
    if flat is not None and not ended:
        if measure == "val" and (stalled := _stalled(evidence, flat)):
            return stalled
        level, since = median(flat.values), change(flat)
        confidence: Confidence = "likely" if measure == "val" else "hint"
        count = len(points.since(flat.steps[0]))
        return Plateau(measure, level, flat.steps[0], since.value, since.error, count, confidence=confidence)
    gain = recent.values[0] - recent.values[-1]
    rise = rise_since_best(points)
    turning = turned(points) > TURNING
    worth = WARMUP_SHARE * recent.values[-1] if warming_up else 0.0
    if moved.sigmas < -HINT and gain > worth and not turning and flat is None:
        strong = -moved.sigmas
        confidence = "sure" if strong > SURE and measure == "val" else "likely" if strong > LIKELY else "hint"
        return Improving(
            measure, recent.steps[0], recent.values[0], recent.steps[-1], recent.values[-1], gain,
            max(points.sigma * math.sqrt(2), moved.error), confidence=confidence,
        )  # fmt: skip
    if measure == "val" and (stalled := _stalled(evidence, points.part(points.best) if turning else recent)):
        return stalled
    if ended and schedule is not None and schedule.lr is not None:
        return ScheduleEnded(
            measure, median(recent.values), schedule.lr, confidence="likely" if measure == "val" else "hint"
        )  # fmt: skip
    if warming_up:
        return TooShort(evidence.last_step, warming_up=True, confidence="sure")
    if turning and moved.sigmas < -HINT:  # it fell, but what came since is in doubt
        return Unclear(measure, points.steps[points.best], rise.value, rise.error, confidence="sure")
    return Unclear(measure, recent.steps[0], moved.value, moved.error, confidence="sure")


def _only_begun(progress: RunProgress) -> bool:
    total, last = progress.total_steps, progress.last_step
    return total is not None and last is not None and last < ENOUGH_OF_PLAN * total


def _stalled(evidence: Evidence, since: Points) -> Stalled | None:
    """Validation that has not fallen in a stretch in which training loss fell, so that the gap between them grew."""
    first, last, apart = evidence.evals[-len(since)], evidence.evals[-1], gap(evidence)
    then, moved = evidence.train_at(first), change(since)
    if apart is None or then is None or moved.sigmas < -HINT or _training_since(evidence, first, last) != "fell":
        return None
    best = evidence.val.steps[evidence.val.best]
    return Stalled(since.steps[0], moved.value, moved.error, best, then, apart, confidence="likely")


def past_its_best(evidence: Evidence) -> Overfitting | Worsening | None:
    """Validation that has risen since its best: overfitting if training loss falls on, else a run getting worse."""
    points = evidence.val
    if len(points) < 3:
        return _far_apart(evidence)
    best, last = points.best, evidence.evals[-1]
    if points.steps[best] == 0:
        return None  # worse than before training: see breakdown.damaged_start
    after = len(points) - 1 - best
    rise = rise_since_best(points)
    train, then = evidence.train_at(last), evidence.train_at(evidence.evals[best])
    since = _training_since(evidence, evidence.evals[best], last)
    apart = train is not None and train < (1 - GAP_SHARE) * last.val
    falls = since == "fell" and (train is None or train < last.val)
    if since == "level" and train is not None and then is not None:  # it falls hardly, but is far below by now
        falls = apart and train < then
    if after >= 2:
        needed = TURNED_BESIDE if falls else TURNED
        far = after > 2 and min(points.values[best + 1 :]) - points.values[best] > FAR * math.sqrt(2) * points.sigma
        seen = rise.value > WORTH_SAYING * abs(points.values[best]) and (far or turned(points) > needed)
    else:  # a single evaluation may be an outlier: only beside a wide gap does it count
        wide = train is not None and last.val > (1 + 3 * GAP_SHARE) * train
        seen = after == 1 and wide and falls and rise.value > max(0.01 * points.values[best], 3 * points.sigma)
    error = points.sigma if last.stderr is None else last.stderr
    if not seen or since == "unclear" or last.val - points.values[best] <= error:
        return None
    if last.val <= points.values[0] and _comes_back(points):  # what is worse than at first is not excused by that
        return None
    confidence: Confidence = "sure" if rise.sigmas > SURE and after >= 3 else "likely"
    if not falls:
        return Worsening(
            "val", points.values[best], points.steps[best], last.val, last.val - points.values[best], rise.error,
            since == "rose", confidence=confidence,
        )  # fmt: skip
    share = (last.val - points.values[best]) / points.values[best] if points.values[best] > 0 else 1.0
    return Overfitting(
        onset_step=points.steps[best],
        best_val=points.values[best],
        last_val=last.val,
        last_train=train if train is not None else evidence.curve.around(last.step),
        rise=last.val - points.values[best],
        wasted_steps=last.step - points.steps[best],
        wasted_share=(last.step - points.steps[best]) / last.step if last.step else None,
        severity="slight" if share < 0.02 else "clear" if share < 0.08 else "severe",
        confidence=confidence,
    )


def _training_since(
    evidence: Evidence, best: Evaluation, last: Evaluation
) -> Literal["fell", "rose", "level", "unclear"] | None:
    """Where training loss went since validation was best; 'unclear' where evaluations and printed lines disagree."""
    lines = _moved(evidence.curve.around(best.step), evidence.curve.around(last.step), _of_ten(evidence.curve.noise))
    evals = _moved(best.train_loss, last.train_loss, evidence.val.sigma)
    if evals is None or lines is None:
        return evals or lines
    if {evals, lines} == {"fell", "rose"}:
        return "unclear"
    return lines if evals == "level" else evals


def _moved(then: float | None, now: float | None, sigma: float) -> Literal["fell", "rose", "level"] | None:
    if then is None or now is None or not math.isfinite(now - then):
        return None
    if abs(now - then) <= HINT * math.sqrt(2) * sigma:
        return "level"
    return "fell" if now < then else "rose"


def _of_ten(noise: float | None) -> float:
    """The noise of the median of ten lines."""
    return 1.25 * (noise or 0.0) / math.sqrt(10)


def _comes_back(points: Points) -> bool:
    """Whether a curve that rose is on its way down again: at its lowest since its peak, and well below that."""
    lowest, after = points.values[points.best], points.values[points.best + 1 :]
    peak = max(after)
    down = after[after.index(peak) :]
    fallen = peak - down[-1]
    return min(down) == down[-1] and fallen > max(WAY_BACK * (peak - lowest), 3 * math.sqrt(2) * points.sigma)


def _far_apart(evidence: Evidence) -> Overfitting | None:
    """With no history to see a turning point in, only a gap that no healthy run has speaks for itself."""
    if not evidence.evals or _read_less_than_once(evidence.progress):
        return None
    last = evidence.evals[-1]
    train = evidence.train_at(last)
    if train is None or last.step < 20 or not max(FAR_APART * train, train + 0.3) <= last.val < OF_SENTENCES:
        return None
    return Overfitting(None, None, last.val, train, None, None, None, "severe", confidence="likely")


def _read_less_than_once(progress: RunProgress) -> bool:
    """Whether part of the training text is still new to the model: such a text is not known by heart."""
    return progress.passes_over_data is not None and progress.passes_over_data < 1


def gap(evidence: Evidence) -> Gap | None:
    """A growing distance between both losses, where they are measured alike."""
    steps = zip(evidence.val.steps, evidence.evals, strict=True)
    pairs = [(step, e.train_loss, e.val) for step, e in steps if e.train_loss is not None and step > 0]
    if len(pairs) < 2 or evidence.evals[-1].metric != "loss":
        return None
    (first_step, first_train, first_val), (step, train, val) = pairs[0], pairs[-1]
    now, then = val - train, first_val - first_train
    if val <= 0 or now < GAP_SHARE * val or now < 1.5 * then or now - then < 3 * evidence.val.sigma:
        return None
    return Gap(step, train, val, now / val, first_step, then)


def leak(evidence: Evidence) -> Leak | None:
    """Validation well below training where both are measured alike, or no gap after many passes by a large model."""
    pairs = [(e.train_loss, e.val) for e in evidence.evals if e.train_loss is not None and e.step > 0]
    if len(pairs) < 3 or evidence.evals[-1].metric != "loss" or not evidence.losses_measured_alike:
        return None
    train, val = pairs[-1]
    differences = [t - v for t, v in pairs]
    easier = median(differences)
    if min(differences[-3:]) > 0 and easier > max(EASIER * val, 5 * evidence.val.sigma):
        return Leak(val, train, easier, len(pairs), None, confidence="hint")
    parameters, tokens = (evidence.run.config.get(key) for key in ("parameters", "train_tokens"))
    passes = evidence.progress.passes_over_data
    if isinstance(parameters, int | float) and isinstance(tokens, int | float) and passes is not None:
        closes = abs(median(differences[-3:])) < max(0.01 * val, 2 * evidence.val.sigma)
        if passes > MANY_PASSES and parameters > tokens and closes and val < 0.6 * evidence.evals[0].val:
            return Leak(val, train, easier, len(pairs), passes, confidence="hint")
    return None


def memorising(evidence: Evidence) -> Memorising | None:
    """A loss below anything that unseen text could have, and no validation."""
    values, passes = evidence.curve.values, evidence.progress.passes_over_data
    if (
        not values
        or evidence.evals
        or evidence.run.is_language_model is False
        or _read_less_than_once(evidence.progress)
    ):
        return None
    if passes is None and (not evidence.from_scratch or values[0] < SMALLEST_TEXT):
        return None  # sums, moves or answers in a fixed form, not plain text: such a task can be known exactly
    limit = MEMORISED_AFTER_PASSES if passes is not None and passes > MANY_PASSES else MEMORISED
    if not 0 < evidence.curve.end < limit:
        return None
    return Memorising(evidence.curve.end, passes, confidence="likely" if passes is None else "sure")
