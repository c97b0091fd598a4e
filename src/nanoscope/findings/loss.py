"""Learning: the losses as numbers, and the one place where all evidence about them is weighed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanoscope.findings import breakdown, gradients, trend
from nanoscope.findings.curves import Evidence, numbered
from nanoscope.findings.declared import (
    Checkpoints,
    Evaluations,
    Gap,
    GradientNorm,
    LossPlace,
    LossSpike,
    NonFinite,
    Overfitting,
    Plateau,
    RunProgress,
    Schedule,
    ScheduleEnded,
    Stalled,
    TooShort,
    TrainLoss,
    Verdict,
)
from nanoscope.findings.evidence import noise_of
from nanoscope.findings.numbers import common_gap
from nanoscope.findings.schedule import analyse_schedule
from nanoscope.findings.timing import Timing
from nanoscope.ladder import place_of
from nanoscope.runs.run import Run

FEW_STEPS = 25  # steps trained: nothing can be said about learning
FEW_RECORDS = 6
CHARACTER_VOCABULARY = 256  # up to so many tokens, a token is a character (or byte)


@dataclass(eq=False, repr=False)
class Learning:
    """The findings about learning, by their names in `Analysis`."""

    train_loss: TrainLoss
    evals: Evaluations | None
    place: LossPlace | None
    gap: Gap | None
    checkpoints: Checkpoints
    schedule: Schedule | None
    gradients: GradientNorm | None
    verdicts: tuple[Verdict, ...]
    spikes: tuple[LossSpike, ...]


# Gravest first.
CHECKS: Sequence[Callable[[Evidence], Verdict | None]] = (
    breakdown.non_finite,
    breakdown.diverged,
    breakdown.not_learning,
    gradients.not_finite,
    gradients.explosion,
    gradients.scale_collapse,
    breakdown.repeated_batches,
    trend.past_its_best,
    trend.memorising,
    breakdown.damaged_start,
    trend.leak,
)


def analyse_learning(run: Run, progress: RunProgress, timing: Timing, eval_interval: int | None) -> Learning:
    """Everything about the losses of a run."""
    evidence = Evidence(run, progress, analyse_schedule(run, progress))
    verdicts = _verdicts(evidence)
    about_gap = any(isinstance(verdict, Overfitting | Stalled) for verdict in verdicts)
    last_saved = numbered(run, [run.checkpoints[-1].step])[0] if run.checkpoints else None
    return Learning(
        train_loss=_train_loss(evidence),
        evals=_evaluations(evidence, timing, eval_interval),
        place=_place(run),
        gap=None if about_gap else trend.gap(evidence),
        checkpoints=Checkpoints(len(run.checkpoints), last_saved, timing.checkpoint_cost_s),
        schedule=evidence.schedule,
        gradients=gradients.analyse_gradients(run),
        verdicts=verdicts,
        spikes=breakdown.spikes(evidence.curve),
    )


def _verdicts(evidence: Evidence) -> tuple[Verdict, ...]:
    """The verdicts, gravest first. Where a grave one lasts, the run is not called improving or flat as well."""
    found: list[Verdict] = []
    for check in CHECKS:
        verdict = check(evidence)
        if isinstance(verdict, NonFinite) and verdict.from_start:
            return (verdict,)
        if verdict is not None and not any(isinstance(other, verdict.unless) for other in found):
            found.append(verdict)
    if not any(verdict.lasts for verdict in found):
        few = evidence.trained + 1 < FEW_STEPS and evidence.run.unit == "step"  # an epoch is many steps
        too_short = (few or len(evidence.curve.steps) < FEW_RECORDS) and len(evidence.evals) < 3
        judged = None if too_short else trend.direction(evidence)
        if isinstance(judged, Plateau | ScheduleEnded):
            judged = breakdown.only_frequencies(evidence) or judged
        steps = evidence.trained + bool(evidence.run.steps)
        found.append(judged or TooShort(steps, evidence.warming_up, confidence="sure"))
    return tuple(found)


def _train_loss(evidence: Evidence) -> TrainLoss:
    run, curve, uniform = evidence.run, evidence.curve, evidence.uniform
    found = TrainLoss(run.loss_is_average, evidence.vocabulary, uniform)
    if not curve.values:
        return found
    first, last, end = curve.values[0], run.steps.loss[-1], curve.end
    at_beginning = run.steps.step[0] <= 1 and uniform and run.is_language_model
    return replace(
        found,
        first=first,
        last=last if math.isfinite(last) else None,
        min=min(curve.values),
        smoothed_last=end,
        noise=curve.noise,
        moved=abs(first - end) > 3 * (curve.noise or 0.0) and first != end,
        first_is_uniform=abs(first - uniform) < 0.07 * uniform if at_beginning and uniform else None,
        **_other_units(end, evidence),
    )


def _evaluations(evidence: Evidence, timing: Timing, eval_interval: int | None) -> Evaluations | None:
    run = evidence.run
    if not run.evals:
        return None
    metric = run.evals[-1].metric
    evals = [e for e in run.evals if e.metric == metric]
    finite = [e for e in evals if math.isfinite(e.val)]
    best, last = min(finite, key=lambda e: e.val, default=None), evals[-1]
    last_val = last.val if math.isfinite(last.val) else None
    return Evaluations(
        metric=metric,
        count=len(evals),
        interval=eval_interval,
        cost_s=timing.eval_cost_s,
        best_val=best.val if best else None,
        best_step=numbered(run, [best.step])[0] if best else None,
        first_val=evals[0].val if math.isfinite(evals[0].val) else None,
        last_val=last_val,
        last_train=last.train_loss if last.train_loss is not None and math.isfinite(last.train_loss) else None,
        last_step=numbered(run, [last.step])[0],
        stderr=last.stderr,
        noise=noise_of([e.val for e in finite]),
        **_other_units(last_val if metric == "loss" else None, evidence),
    )


def _other_units(loss: float | None, evidence: Evidence) -> dict[str, Any]:
    """The number of equally likely tokens that a loss stands for, and its bits where a token is a character.

    Most trainers print nats, fairseq base-2 logarithms.
    """
    if loss is None or not evidence.run.is_language_model:
        return {"perplexity": None, "bits_per_char": None}
    bits = loss if evidence.run.loss_in_bits else loss / math.log(2)
    characters = evidence.vocabulary is not None and evidence.vocabulary <= CHARACTER_VOCABULARY
    return {"perplexity": 2**bits if loss < 50 else None, "bits_per_char": bits if characters else None}


def _place(run: Run) -> LossPlace | None:
    """Only for our own runs: they alone say what simple models reach on the text that they evaluate."""
    ladder = run.details.ladder if run.details else None
    best = min((e for e in run.evals if math.isfinite(e.val)), key=lambda e: e.val, default=None)
    if ladder is None or best is None:
        return None
    where = place_of(best.val, best.stderr, ladder)
    return LossPlace(best.val, best.step, best.stderr, where, ladder.train_tokens, ladder.sampled)


def eval_interval_of(run: Run) -> int | None:
    """Steps from one evaluation to the next: seen, or set."""
    steps = [e.step for e in run.evals]
    if len(steps) > 2 and steps[-1] - steps[-2] < steps[-2] - steps[-3]:
        steps.pop()  # many trainers evaluate once more at the very end
    seen = common_gap(steps)
    if seen is not None:
        return seen
    for key in ("eval_interval", "eval_every", "eval_steps"):
        value = run.config.get(key)
        if isinstance(value, int) and value > 0 and run.evals:
            return value
    return None
