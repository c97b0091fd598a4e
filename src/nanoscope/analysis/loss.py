"""Learning: what the losses say, and what they are too few to say."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nanoscope.analysis.findings import (
    Checkpoints,
    Diverged,
    Evaluations,
    Improving,
    LossSpike,
    Memorising,
    NonFinite,
    Overfitting,
    Plateau,
    Progress,
    TooShort,
    TrainLoss,
    VerdictFinding,
    Warmup,
)
from nanoscope.analysis.numbers import Bools, Floats, Ints, blocks, common_gap, scatter
from nanoscope.analysis.timing import Timing
from nanoscope.runs.run import NOT_FINITE, Run

FEW_STEPS = 20  # steps trained: nothing can be said about learning
FEW_RECORDS = 6
# Nats a token. Unseen text costs 0.5 or more even by the character, so a lower training loss is knowing it by heart.
MEMORISED = 0.2
MEMORISED_AFTER_PASSES = 0.5
SMALLEST_TEXT = math.log(16)  # what text of the poorest alphabet costs before any training
CHARACTER_VOCABULARY = 256  # up to so many tokens, a token is a character (or byte)


@dataclass(eq=False, repr=False)
class Learning:
    """The findings about learning."""

    train: TrainLoss
    evals: Evaluations | None
    checkpoints: Checkpoints
    verdicts: tuple[VerdictFinding, ...]
    spikes: tuple[LossSpike, ...]
    warmup: Warmup | None
    diverged_at: int | None


def analyse_learning(run: Run, progress: Progress, timing: Timing, eval_interval: int | None) -> Learning:
    """Everything about the losses of a run."""
    steps = np.array(run.steps.step, dtype=np.int64)
    losses = np.array(run.steps.loss, dtype=np.float64)
    finite = np.isfinite(losses)
    train = _train_loss(run, steps, losses, finite)
    evals = _evaluations(run, timing, eval_interval)
    checkpoints = Checkpoints(
        len(run.checkpoints), run.checkpoints[-1].step if run.checkpoints else None, timing.checkpoint_cost_s
    )
    verdicts: list[VerdictFinding] = []
    bad = _non_finite(run, steps, losses)
    if bad:
        verdicts.append(bad)
    diverged = None
    spikes: tuple[LossSpike, ...] = ()
    trained = int(steps[-1] - steps[0]) + 1 if len(steps) else 0
    few = (trained < FEW_STEPS or finite.sum() < FEW_RECORDS) and len(run.evals) < 3
    if bad is None or not bad.from_start:
        overfitting = _overfitting(run, steps, losses, finite, few)
        if few:
            verdicts.extend([overfitting] if overfitting else [TooShort(trained)] if bad is None else [])
        else:
            spikes = _spikes(steps[finite], losses[finite])
            diverged = _diverged(run, steps[finite], losses[finite], train.noise or 0.0)
            memorising = _memorising(run, train, progress)
            verdicts.extend(v for v in (diverged, overfitting, memorising) if v)
            if not (bad or diverged or overfitting or memorising):
                direction = _direction(run, steps[finite], losses[finite], train.noise or 0.0)
                verdicts.extend([direction] if direction else [])
    return Learning(
        train,
        evals,
        checkpoints,
        tuple(verdicts),
        spikes,
        _warmup(run, steps),
        diverged.step if diverged else None,
    )


# --- the numbers themselves -----------------------------------------------------------------------------------


def _train_loss(run: Run, steps: Ints, losses: Floats, finite: Bools) -> TrainLoss:
    vocab = run.config.get("vocab_size")
    vocab = vocab if isinstance(vocab, int) and vocab > 1 else None
    uniform = math.log(vocab) if vocab else None
    if not finite.any():
        return TrainLoss(None, None, None, None, None, None, None, None, vocab, uniform, None)
    values = losses[finite]
    at_minimum = int(np.argmin(values))
    smoothed = float(np.median(values[-max(1, min(len(values) // 10, 50)) :]))
    begins = bool(len(steps) and steps[0] <= 1)
    return TrainLoss(
        first=float(losses[0]) if finite[0] else float(values[0]),
        last=float(losses[-1]) if finite[-1] else None,
        min=float(values[at_minimum]),
        min_step=int(steps[finite][at_minimum]),
        smoothed_last=smoothed,
        noise=scatter(values[len(values) // 2 :]) if len(values) >= 8 else None,
        perplexity=math.exp(smoothed) if smoothed < 50 else None,
        bits_per_char=smoothed / math.log(2) if vocab and vocab <= CHARACTER_VOCABULARY else None,
        vocab_size=vocab,
        uniform_loss=uniform,
        first_is_uniform=abs(float(values[0]) - uniform) < 0.07 * uniform if begins and uniform else None,
    )


def _evaluations(run: Run, timing: Timing, eval_interval: int | None) -> Evaluations | None:
    if not run.evals:
        return None
    metric = run.evals[-1].metric
    evals = [e for e in run.evals if e.metric == metric]
    values = np.array([e.val for e in evals])
    finite = np.isfinite(values)
    best = int(np.argmin(np.where(finite, values, np.inf))) if finite.any() else None
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
        best_val=float(values[best]) if best is not None else None,
        best_step=evals[best].step if best is not None else None,
        first_val=float(values[0]) if finite[0] else None,
        last_val=last_val,
        last_train=last_train,
        last_step=last.step,
        noise=_eval_noise(values[finite]),
        perplexity=math.exp(last_val) if metric == "loss" and last_val is not None and last_val < 50 else None,
        bits_per_char=last_val / math.log(2) if characters and last_val is not None else None,
    )


def eval_interval_of(run: Run) -> int | None:
    """Steps from one evaluation to the next: seen, or set."""
    steps = [e.step for e in run.evals]
    seen = common_gap(steps[:-1] if len(steps) > 3 else steps)
    if seen is not None:
        return seen
    for key in ("eval_interval", "eval_every", "eval_steps"):
        value = run.config.get(key)
        if isinstance(value, int) and value > 0 and run.evals:
            return value
    return None


def _eval_noise(values: Floats) -> float | None:
    return scatter(values[len(values) // 2 :]) if len(values) >= 8 else None


# --- verdicts -------------------------------------------------------------------------------------------------


def _non_finite(run: Run, steps: Ints, losses: Floats) -> NonFinite | None:
    bad = losses == NOT_FINITE
    if bad.any():
        first = int(np.argmax(bad))
        step = int(steps[first])
        finite_after = bool(np.isfinite(losses[first:]).any())
        before = losses[:first][np.isfinite(losses[:first])]
    else:
        infinite = [e.step for e in run.evals if e.val == NOT_FINITE]
        if not infinite or len(steps):
            return None
        step, finite_after, before = infinite[0], False, np.array([])
    good = [c.step for c in run.checkpoints if c.step < step]
    return NonFinite(
        step=step,
        from_start=len(before) == 0,
        recovered=finite_after,
        last_good_checkpoint=good[-1] if good else None,
        last_finite_loss=float(before[-1]) if len(before) else None,
    )


def _overfitting(
    run: Run,
    steps: Ints,
    losses: Floats,
    finite: Bools,
    few: bool,
) -> Overfitting | None:
    evals = [e for e in run.evals if math.isfinite(e.val) and e.metric == run.evals[-1].metric]
    if not evals:
        return None
    last = evals[-1]
    comparable = last.metric == "loss"  # bits per byte cannot be held against a loss in nats
    train = last.train_loss
    if train is None and comparable:
        # The training loss when the evaluation was made: later lines have moved on.
        around = losses[finite & (steps <= last.step)][-10:]
        train = float(np.median(around)) if len(around) >= 3 else None
    gap = last.val - train if train is not None and comparable else None
    values = np.array([e.val for e in evals])
    best = int(np.argmin(values))
    after = values[best + 1 :]
    if len(evals) < 3:
        # No history to see a turning point in: only a gap that no early run has speaks for itself.
        if train is None or gap is None or gap < 0.3 or last.val < 2 * train or last.step < FEW_STEPS:
            return None
        return Overfitting(
            None, None, last.val, train, None, gap, None, None, "severe" if last.val > 2.5 * train else "clear"
        )
    if len(after) == 0:
        return None
    best_val, rise = float(values[best]), float(last.val - values[best])
    noise = _eval_noise(values) or 0.0
    sustained = len(after) >= 2 or rise > 0.03 * best_val
    clear = rise > max(0.01 * best_val, 3 * noise) and sustained
    creeping = (
        len(after) >= 4
        and float(np.median(after[len(after) // 2 :])) - best_val > max(0.004 * best_val, 3 * noise)
        and float(np.median(after[len(after) // 2 :])) > float(np.median(after[: len(after) // 2]))
    )
    if not (clear or creeping) or not _train_falls(run, evals[best].step, steps, losses, finite):
        return None
    relative = rise / best_val
    return Overfitting(
        onset_step=evals[best].step,
        best_val=best_val,
        last_val=last.val,
        last_train=train,
        rise=rise,
        gap=gap,
        wasted_steps=last.step - evals[best].step,
        wasted_share=(last.step - evals[best].step) / last.step if last.step else None,
        severity="slight" if relative < 0.02 else "clear" if relative < 0.08 else "severe",
    )


def _train_falls(run: Run, since: int, steps: Ints, losses: Floats, finite: Bools) -> bool:
    """Whether the training loss went on falling since validation was best: without that, a rise is no overfitting."""
    trains = [(e.step, e.train_loss) for e in run.evals if e.train_loss is not None and math.isfinite(e.train_loss)]
    then = [t for s, t in trains if s <= since]
    if then and trains[-1][0] > since:
        return trains[-1][1] < then[-1]
    known_steps, known = steps[finite], losses[finite]
    window = max(3, len(known) // 20)
    before = known[known_steps <= since][-window:]
    after = known[known_steps > since][-window:]
    return len(before) == 0 or len(after) == 0 or float(np.median(after)) < float(np.median(before))


def _memorising(run: Run, train: TrainLoss, progress: Progress) -> Memorising | None:
    passes = progress.passes_over_data
    if any(math.isfinite(e.val) for e in run.evals) or train.smoothed_last is None:
        return None
    if train.first is not None and run.first_step is not None and run.first_step <= 1 and train.first < SMALLEST_TEXT:
        return None  # sums or moves, not text: such a task can be known exactly
    limit = MEMORISED_AFTER_PASSES if passes is not None and passes > 10 else MEMORISED
    return Memorising(train.smoothed_last, passes) if train.smoothed_last < limit else None


def _smooth(steps: Ints, losses: Floats) -> tuple[Ints, Floats]:
    """Medians of short stretches: spikes vanish, a divergence stays."""
    parts = blocks(len(losses), max(3, len(losses) // 60), 60)
    return (
        np.array([steps[a] for a, _ in parts], dtype=np.int64),
        np.array([float(np.median(losses[a:b])) for a, b in parts]),
    )


def _diverged(run: Run, steps: Ints, losses: Floats, noise: float) -> Diverged | None:
    if len(losses) < 12:
        return None
    at, smooth = _smooth(steps, losses)
    low = int(np.argmin(smooth))
    if low >= len(smooth) - 1:
        return None
    best, last = float(smooth[low]), float(np.median(smooth[-2:]))
    rise = last - best
    fall = float(smooth[0]) - best if run.steps.step[0] <= 100 else 0.0
    if rise < max(0.3 * fall, 0.15 * best, 6 * noise, 0.15):
        return None
    risen = smooth > best + max(0.15 * rise, min(3 * noise, 0.5 * rise))
    begins = low + 1
    while begins < len(smooth) and not risen[begins:].all():
        begins += 1
    step = int(at[min(begins, len(at) - 1)])
    good = [c.step for c in run.checkpoints if c.step <= at[low]]
    return Diverged(step, best, last, good[-1] if good else None)


def _spikes(steps: Ints, losses: Floats) -> tuple[LossSpike, ...]:
    """Jumps far above the losses before them, that were over within a few lines."""
    if len(losses) < 12:
        return ()
    noise = max(scatter(losses), 0.01)
    found: list[LossSpike] = []
    for index in np.flatnonzero(np.diff(losses) > max(12 * noise, 0.3)) + 1:
        before = float(np.median(losses[max(0, index - 3) : index]))
        height = float(losses[index]) - before
        if height < max(12 * noise, 0.1 * before) or (found and steps[index] <= found[-1].recovered_step):
            continue
        back = np.flatnonzero(losses[index:] < before + 0.3 * height)
        if len(back) and back[0] <= max(10, len(losses) // 20):
            found.append(LossSpike(int(steps[index]), float(losses[index]), before, int(steps[index + back[0]])))
    return tuple(sorted(found, key=lambda spike: spike.before - spike.loss)[:3])


def _direction(run: Run, steps: Ints, losses: Floats, noise: float) -> Improving | Plateau | None:
    evals = [e for e in run.evals if math.isfinite(e.val) and e.metric == run.evals[-1].metric]
    if len(evals) >= 3:
        return _eval_direction([e.step for e in evals], np.array([e.val for e in evals]))
    if len(losses) < 12:
        if len(losses) >= 4 and losses[-1] < 0.97 * losses[0]:
            return Improving("train", float(losses[0] - losses[-1]), int(steps[-1] - steps[0]))
        return None
    quarter = max(3, len(losses) // 4)
    before, now = losses[-2 * quarter : -quarter], losses[-quarter:]
    gain = float(np.median(before) - np.median(now))
    doubt = 1.25 * noise * math.sqrt(2 / quarter)
    since = int(steps[-2 * quarter])
    if gain > max(3 * doubt, 0.002 * float(np.median(now))):
        return Improving("train", gain, int(steps[-1]) - since)
    return Plateau("train", float(np.median(now)), since, gain)


def _eval_direction(steps: list[int], values: Floats) -> Improving | Plateau:
    """Improving while new bests still come and are more than noise; else a plateau since the last one."""
    measure: Literal["val"] = "val"
    count = len(values)
    best = int(np.argmin(values))
    window = max(4, min(count, max(5, count // 8)))
    recent = values[-window:]
    noise = _eval_noise(values) or 0.0
    since_best = count - 1 - best
    # The fall of a straight line through the last evaluations.
    slope = float(np.polyfit(np.arange(len(recent)), recent, 1)[0]) if len(recent) > 1 else 0.0
    gain = -slope * (len(recent) - 1)
    stale = since_best >= max(3, round(0.08 * count))
    if not stale and gain > max(noise, 0.001 * abs(float(values[-1]))):
        start = max(0, count - window)
        return Improving(measure, float(values[start] - values[-1]), steps[-1] - steps[start])
    return Plateau(measure, float(values[best]), steps[max(0, min(best, count - window))], gain)


def _warmup(run: Run, steps: Ints) -> Warmup | None:
    last = run.last_step
    if last is None:
        return None
    for key in ("warmup_iters", "warmup_steps"):
        length = run.config.get(key)
        if isinstance(length, int) and length > last:
            return Warmup(length, last)
    return None
