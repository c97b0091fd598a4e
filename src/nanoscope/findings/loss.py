"""Learning: the losses as numbers, and the one place where all evidence about them is weighed."""

import math
from dataclasses import dataclass

from nanoscope.estimates import median
from nanoscope.findings import breakdown, trend
from nanoscope.findings.curves import Curve, Evidence, numbered
from nanoscope.findings.declared import (
    Checkpoints,
    Evaluations,
    Gap,
    GradientNorm,
    LossPlace,
    LossSpike,
    Overfitting,
    Plateau,
    RunProgress,
    Schedule,
    ScheduleEnded,
    Stalled,
    TooShort,
    TrainLoss,
    Verdict,
    Worsening,
)
from nanoscope.findings.evidence import noise_of
from nanoscope.findings.gradients import analyse_gradients, judge_gradients
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
    """The findings about learning."""

    train: TrainLoss
    evals: Evaluations | None
    place: LossPlace | None
    gap: Gap | None
    checkpoints: Checkpoints
    schedule: Schedule | None
    gradients: GradientNorm | None
    verdicts: tuple[Verdict, ...]
    spikes: tuple[LossSpike, ...]


def analyse_learning(run: Run, progress: RunProgress, timing: Timing, eval_interval: int | None) -> Learning:
    """Everything about the losses of a run."""
    evidence = Evidence.of(run)
    train = _train_loss(run, evidence.curve)
    schedule = analyse_schedule(run, progress)
    verdicts = _weigh(evidence, train, schedule, progress)
    about_gap = any(isinstance(verdict, Overfitting | Stalled) for verdict in verdicts)
    last_saved = numbered(run, [run.checkpoints[-1].step])[0] if run.checkpoints else None
    return Learning(
        train=train,
        evals=_evaluations(run, timing, eval_interval),
        place=_place(run),
        gap=None if about_gap else trend.gap(evidence),
        checkpoints=Checkpoints(len(run.checkpoints), last_saved, timing.checkpoint_cost_s),
        schedule=schedule,
        gradients=analyse_gradients(run),
        verdicts=verdicts,
        spikes=breakdown.spikes(evidence.curve),
    )


def _weigh(
    evidence: Evidence, train: TrainLoss, schedule: Schedule | None, progress: RunProgress
) -> tuple[Verdict, ...]:
    """The verdicts, gravest first. Where a grave one lasts, the run is not called improving or flat as well."""
    run, uniform = evidence.run, train.uniform_loss
    bad = breakdown.non_finite(run)
    if bad is not None and bad.from_start:
        return (bad,)
    stuck = breakdown.not_learning(evidence, schedule, uniform)
    gradients = judge_gradients(run)
    broken = breakdown.diverged(evidence, uniform)
    grave: list[Verdict | None] = [bad, broken, stuck, *gradients]
    repeated = breakdown.repeated_batches(evidence)
    if repeated is not None:
        grave.append(repeated)
    elif stuck is None:
        past = trend.past_its_best(evidence, progress)
        grave += [None if broken and isinstance(past, Worsening) else past]
        grave += [trend.memorising(evidence, train, progress)]
    damaged = breakdown.damaged_start(evidence, uniform)
    found = [verdict for verdict in (*grave, damaged, trend.leak(evidence, progress)) if verdict is not None]
    if not any(verdict.lasts for verdict in found):
        trained = _trained(evidence)
        judged = None
        if not _too_short(evidence, trained):
            judged = trend.direction(evidence, schedule, progress)
        if isinstance(judged, Plateau | ScheduleEnded):
            judged = breakdown.only_frequencies(evidence, uniform) or judged
        warming_up = schedule is not None and schedule.stage == "warmup"
        found.append(judged or TooShort(trained, warming_up, confidence="sure"))
    return tuple(found)


def _trained(evidence: Evidence) -> int:
    steps = evidence.run.steps.step
    return steps[-1] - steps[0] + 1 if steps else 0


def _too_short(evidence: Evidence, trained: int) -> bool:
    """Whether there are too few lines; an epoch is many steps."""
    few = trained < FEW_STEPS and evidence.run.unit == "step"
    return (few or len(evidence.curve.steps) < FEW_RECORDS) and len(evidence.evals) < 3


def _train_loss(run: Run, curve: Curve) -> TrainLoss:
    vocab = run.config.get("vocab_size")
    vocab = vocab if isinstance(vocab, int) and vocab > 1 else None
    uniform = math.log(vocab, 2 if run.loss_in_bits else math.e) if vocab else None
    values = curve.values
    if not values:
        return TrainLoss(
            None, None, None, None, None, False, run.loss_is_average, None, None, vocab, uniform, None
        )  # fmt: skip
    smoothed = median(values[-max(1, min(len(values) // 10, 50)) :])
    begins = run.steps.step[0] <= 1
    last = run.steps.loss[-1]
    in_nats = run.is_language_model is True
    return TrainLoss(
        first=values[0],
        last=last if math.isfinite(last) else None,
        min=min(values),
        smoothed_last=smoothed,
        noise=curve.noise,
        moved=abs(values[0] - smoothed) > 3 * (curve.noise or 0.0) and values[0] != smoothed,
        averaged=run.loss_is_average,
        perplexity=_perplexity(smoothed, run) if in_nats else None,
        bits_per_char=smoothed / (1 if run.loss_in_bits else math.log(2))
        if in_nats and vocab and vocab <= CHARACTER_VOCABULARY
        else None,
        vocab_size=vocab,
        uniform_loss=uniform,
        first_is_uniform=abs(values[0] - uniform) < 0.07 * uniform if begins and uniform and in_nats else None,
    )


def _evaluations(run: Run, timing: Timing, eval_interval: int | None) -> Evaluations | None:
    if not run.evals:
        return None
    metric = run.evals[-1].metric
    evals = [e for e in run.evals if e.metric == metric]
    best = min((e for e in evals if math.isfinite(e.val)), key=lambda e: e.val, default=None)
    last = evals[-1]
    vocab = run.config.get("vocab_size")
    in_nats = metric == "loss" and run.is_language_model is True
    characters = in_nats and isinstance(vocab, int) and 1 < vocab <= CHARACTER_VOCABULARY
    last_val = last.val if math.isfinite(last.val) else None
    last_train = last.train_loss if last.train_loss is not None and math.isfinite(last.train_loss) else None
    return Evaluations(
        metric=metric,
        count=len(evals),
        interval=eval_interval,
        cost_s=timing.eval_cost_s,
        best_val=best.val if best else None,
        best_step=numbered(run, [best.step])[0] if best else None,
        first_val=evals[0].val if math.isfinite(evals[0].val) else None,
        last_val=last_val,
        last_train=last_train,
        last_step=numbered(run, [last.step])[0],
        stderr=last.stderr,
        noise=noise_of([e.val for e in evals if math.isfinite(e.val)]),
        perplexity=_perplexity(last_val, run) if in_nats and last_val is not None else None,
        bits_per_char=last_val / (1 if run.loss_in_bits else math.log(2))
        if characters and last_val is not None
        else None,
    )


def _place(run: Run) -> LossPlace | None:
    """Only for our own runs: they alone say what simple models reach on the text that they evaluate."""
    ladder = run.details.ladder if run.details else None
    best = min((e for e in run.evals if math.isfinite(e.val)), key=lambda e: e.val, default=None)
    if ladder is None or best is None:
        return None
    where = place_of(best.val, best.stderr, ladder)
    return LossPlace(best.val, best.step, best.stderr, where, ladder.train_tokens, ladder.sampled)


def _perplexity(loss: float, run: Run) -> float | None:
    """The number of equally likely tokens that a loss stands for."""
    return 2 ** _bits(loss, run) if loss < 50 else None


def _bits(loss: float, run: Run) -> float:
    """A loss in bits; most trainers print nats, fairseq base-2 logarithms."""
    return loss if run.loss_in_bits else loss / math.log(2)


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
