"""Learning: the losses as numbers, and which verdicts they allow."""

import math
from dataclasses import dataclass

from nanoscope.analysis import verdicts as judge
from nanoscope.analysis.findings import (
    Checkpoints,
    Evaluations,
    LossSpike,
    RunProgress,
    TooShort,
    TrainLoss,
    Verdict,
    Warmup,
)
from nanoscope.analysis.numbers import common_gap
from nanoscope.analysis.timing import Timing
from nanoscope.estimates import median, scatter
from nanoscope.runs.run import Run

FEW_STEPS = 20  # steps trained: nothing can be said about learning
FEW_RECORDS = 6
CHARACTER_VOCABULARY = 256  # up to so many tokens, a token is a character (or byte)


@dataclass(eq=False, repr=False)
class Learning:
    """The findings about learning."""

    train: TrainLoss
    evals: Evaluations | None
    checkpoints: Checkpoints
    verdicts: tuple[Verdict, ...]
    spikes: tuple[LossSpike, ...]
    warmup: Warmup | None


def analyse_learning(run: Run, progress: RunProgress, timing: Timing, eval_interval: int | None) -> Learning:
    """Everything about the losses of a run."""
    curve = judge.Curve.of_training(run)
    train = _train_loss(run, curve)
    last_saved = run.checkpoints[-1].step if run.checkpoints else None
    verdicts, spikes = _judge(run, curve, train, progress)
    return Learning(
        train=train,
        evals=_evaluations(run, timing, eval_interval),
        checkpoints=Checkpoints(len(run.checkpoints), last_saved, timing.checkpoint_cost_s),
        verdicts=verdicts,
        spikes=spikes,
        warmup=_warmup(run),
    )


def _judge(
    run: Run, curve: judge.Curve, train: TrainLoss, progress: RunProgress
) -> tuple[tuple[Verdict, ...], tuple[LossSpike, ...]]:
    """The verdicts, gravest first. Where one of them lasts, the run is not called improving or at rest as well."""
    bad = judge.non_finite(run)
    if bad is not None and bad.from_start:
        return (bad,), ()
    overfitting = judge.overfitting(run, curve, min_step=FEW_STEPS)
    trained = run.steps.step[-1] - run.steps.step[0] + 1 if run.steps else 0
    if (trained < FEW_STEPS or len(curve.steps) < FEW_RECORDS) and len(run.evals) < 3:
        return tuple(v for v in (bad, overfitting) if v) or (TooShort(trained),), ()
    grave: list[Verdict | None] = [
        bad,
        judge.diverged(run, curve, train.noise or 0.0),
        overfitting,
        judge.memorising(run, train, progress),
    ]
    found = [verdict for verdict in grave if verdict is not None]
    if not found or (len(found) == 1 and bad is not None and bad.recovered):
        found.append(judge.direction(run, curve, train.noise or 0.0) or TooShort(trained))
    return tuple(found), judge.spikes(curve)


def _train_loss(run: Run, curve: judge.Curve) -> TrainLoss:
    vocab = run.config.get("vocab_size")
    vocab = vocab if isinstance(vocab, int) and vocab > 1 else None
    uniform = math.log(vocab) if vocab else None
    values = curve.values
    if not values:
        return TrainLoss(None, None, None, None, None, None, None, vocab, uniform, None)
    smoothed = median(values[-max(1, min(len(values) // 10, 50)) :])
    begins = run.steps.step[0] <= 1
    last = run.steps.loss[-1]
    return TrainLoss(
        first=values[0],
        last=last if math.isfinite(last) else None,
        min=min(values),
        smoothed_last=smoothed,
        noise=scatter(values[len(values) // 2 :]) if len(values) >= 8 else None,
        perplexity=math.exp(smoothed) if smoothed < 50 else None,
        bits_per_char=smoothed / math.log(2) if vocab and vocab <= CHARACTER_VOCABULARY else None,
        vocab_size=vocab,
        uniform_loss=uniform,
        first_is_uniform=abs(values[0] - uniform) < 0.07 * uniform if begins and uniform else None,
    )


def _evaluations(run: Run, timing: Timing, eval_interval: int | None) -> Evaluations | None:
    if not run.evals:
        return None
    metric = run.evals[-1].metric
    evals = [e for e in run.evals if e.metric == metric]
    best = min((e for e in evals if math.isfinite(e.val)), key=lambda e: e.val, default=None)
    last = evals[-1]
    vocab = run.config.get("vocab_size")
    characters = metric == "loss" and isinstance(vocab, int) and 1 < vocab <= CHARACTER_VOCABULARY
    last_val = last.val if math.isfinite(last.val) else None
    last_train = last.train_loss if last.train_loss is not None and math.isfinite(last.train_loss) else None
    return Evaluations(
        metric=metric,
        count=len(evals),
        interval=eval_interval,
        cost_s=timing.eval_cost_s,
        best_val=best.val if best else None,
        best_step=best.step if best else None,
        first_val=evals[0].val if math.isfinite(evals[0].val) else None,
        last_val=last_val,
        last_train=last_train,
        last_step=last.step,
        noise=judge.eval_noise([e.val for e in evals if math.isfinite(e.val)]),
        perplexity=math.exp(last_val) if metric == "loss" and last_val is not None and last_val < 50 else None,
        bits_per_char=last_val / math.log(2) if characters and last_val is not None else None,
    )


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


def _warmup(run: Run) -> Warmup | None:
    last = run.last_step
    for key in ("warmup_iters", "warmup_steps"):
        length = run.config.get(key)
        if last is not None and isinstance(length, int) and length > last:
            return Warmup(length, last)
    return None
