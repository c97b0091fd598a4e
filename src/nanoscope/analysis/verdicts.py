"""The rules behind each verdict on learning. Each asks for more than the run's own noise before it speaks."""

import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass

from nanoscope.analysis.findings import (
    Diverged,
    Improving,
    LossSpike,
    Memorising,
    NonFinite,
    Overfitting,
    Plateau,
    RunProgress,
    TrainLoss,
)
from nanoscope.analysis.numbers import blocks, line_through
from nanoscope.estimates import is_spike, median, scatter, spike_height
from nanoscope.runs.run import NOT_FINITE, Evaluation, Run

# Nats a token. Unseen text costs 0.5 or more even by the character, so a lower training loss is knowing it by heart.
MEMORISED = 0.2
MEMORISED_AFTER_PASSES = 0.5
SMALLEST_TEXT = math.log(16)  # what text of the poorest alphabet costs before any training


@dataclass(eq=False, repr=False)
class Curve:
    """The finite training losses of a run."""

    steps: "array[int]"
    values: "array[float]"

    @classmethod
    def of_training(cls, run: Run) -> "Curve":
        steps, losses = run.steps.step, run.steps.loss
        if all(map(math.isfinite, losses)):
            return cls(steps, losses)
        kept = [index for index, loss in enumerate(losses) if math.isfinite(loss)]
        return cls(array("q", (steps[i] for i in kept)), array("d", (losses[i] for i in kept)))

    def until(self, step: int) -> "array[float]":
        return self.values[: bisect_right(self.steps, step)]

    def after(self, step: int) -> "array[float]":
        return self.values[bisect_right(self.steps, step) :]


def eval_noise(values: list[float]) -> float | None:
    """The scatter of the later evaluations."""
    return scatter(values[len(values) // 2 :]) if len(values) >= 8 else None


def non_finite(run: Run) -> NonFinite | None:
    """The first loss that is no finite number."""
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
    good = [c.step for c in run.checkpoints if c.step < step]
    return NonFinite(step, not before, recovered, good[-1] if good else None, before[-1] if before else None)


def overfitting(run: Run, curve: Curve, min_step: int) -> Overfitting | None:
    """Validation past its best while the training loss falls on."""
    evals = _of_last_metric(run)
    if not evals:
        return None
    last = evals[-1]
    train = last.train_loss if last.train_loss is not None and math.isfinite(last.train_loss) else None
    comparable = last.metric == "loss"  # bits per byte cannot be held against a loss in nats
    if train is None and comparable:
        # The training loss when the evaluation was made: later lines have moved on.
        around = curve.until(last.step)[-10:]
        train = median(around) if len(around) >= 3 else None
    if len(evals) < 3:
        # No history to see a turning point in: only a gap that no early run has speaks for itself.
        if train is None or not comparable or last.val < max(2 * train, train + 0.3) or last.step < min_step:
            return None
        severity = "severe" if last.val > 2.5 * train else "clear"
        return Overfitting(None, None, last.val, train, None, None, None, severity)  # type: ignore[arg-type]
    values = [e.val for e in evals]
    best = min(evals, key=lambda e: e.val)
    after = values[evals.index(best) + 1 :]
    rise = last.val - best.val
    noise = eval_noise(values) or 0.0
    clear = rise > max(0.01 * best.val, 3 * noise) and (len(after) >= 2 or rise > 0.03 * best.val)
    half = len(after) // 2
    creeping = (
        len(after) >= 4
        and median(after[half:]) - best.val > max(0.004 * best.val, 3 * noise)
        and median(after[half:]) > median(after[:half])
    )
    if not (clear or creeping) or not _train_falls(run, curve, best.step):
        return None
    share = rise / best.val if best.val > 0 else 1.0
    return Overfitting(
        onset_step=best.step,
        best_val=best.val,
        last_val=last.val,
        last_train=train,
        rise=rise,
        wasted_steps=last.step - best.step,
        wasted_share=(last.step - best.step) / last.step if last.step else None,
        severity="slight" if share < 0.02 else "clear" if share < 0.08 else "severe",
    )


def _of_last_metric(run: Run) -> list[Evaluation]:
    return [e for e in run.evals if math.isfinite(e.val) and e.metric == run.evals[-1].metric]


def _train_falls(run: Run, curve: Curve, since: int) -> bool:
    """Whether the training loss went on falling since validation was best: without that, a rise is no overfitting."""
    trains = [(e.step, e.train_loss) for e in run.evals if e.train_loss is not None and math.isfinite(e.train_loss)]
    then = [loss for step, loss in trains if step <= since]
    if then and trains[-1][0] > since:
        return trains[-1][1] < then[-1]
    window = max(3, len(curve.values) // 20)
    before, after = curve.until(since)[-window:], curve.after(since)[-window:]
    return not before or not after or median(after) < median(before)


def memorising(run: Run, train: TrainLoss, progress: RunProgress) -> Memorising | None:
    """A loss below anything that unseen text could have, and no validation."""
    passes = progress.passes_over_data
    if train.smoothed_last is None or train.first is None or any(math.isfinite(e.val) for e in run.evals):
        return None
    if run.steps.step[0] <= 1 and train.first < SMALLEST_TEXT:
        return None  # sums or moves, not text: such a task can be known exactly
    limit = MEMORISED_AFTER_PASSES if passes is not None and passes > 10 else MEMORISED
    return Memorising(train.smoothed_last, passes) if train.smoothed_last < limit else None


def diverged(run: Run, curve: Curve, noise: float) -> Diverged | None:
    """A loss that rose and stayed up."""
    if len(curve.values) < 12:
        return None
    # Medians of short stretches: spikes vanish, a divergence stays.
    parts = blocks(len(curve.values), max(3, len(curve.values) // 60), 60)
    smooth = [median(curve.values[a:b]) for a, b in parts]
    best = min(smooth)
    low = smooth.index(best)
    last = median(smooth[-2:])
    rise = last - best
    fall = smooth[0] - best if run.steps.step[0] <= 100 else 0.0
    if low == len(smooth) - 1 or rise < max(0.3 * fall, 0.15 * best, 6 * noise, 0.15):
        return None
    risen = best + max(0.15 * rise, min(3 * noise, 0.5 * rise))
    begins = max(low, max(i for i, value in enumerate(smooth) if value <= risen)) + 1
    step = curve.steps[parts[min(begins, len(parts) - 1)][0]]
    good = [c.step for c in run.checkpoints if c.step <= curve.steps[parts[low][0]]]
    return Diverged(step, best, last, good[-1] if good else None)


def spikes(curve: Curve) -> tuple[LossSpike, ...]:
    """Jumps far above the losses before them, that were over within a few lines; the three highest."""
    steps, losses = curve.steps, curve.values
    if len(losses) < 12:
        return ()
    jump = spike_height(losses)
    soon = max(10, len(losses) // 20)
    found: list[LossSpike] = []
    for index in range(1, len(losses)):
        if losses[index] - losses[index - 1] <= jump or (found and steps[index] <= found[-1].recovered_step):
            continue
        recent = losses[max(0, index - 3) : index]
        if not is_spike(losses[index], recent, jump):
            continue
        before = median(recent)
        height = losses[index] - before
        back = (i for i in range(index, min(index + soon, len(losses))) if losses[i] < before + 0.3 * height)
        recovered = next(back, None)
        if recovered is not None:
            found.append(LossSpike(steps[index], losses[index], before, steps[recovered]))
    return tuple(sorted(found, key=lambda spike: spike.before - spike.loss)[:3])


def direction(run: Run, curve: Curve, noise: float) -> Improving | Plateau | None:
    """Whether the run still gets better: by its evaluations, or its training loss where there are too few."""
    evals = _of_last_metric(run)
    if len(evals) >= 3:
        return _eval_direction([e.step for e in evals], [e.val for e in evals])
    steps, losses = curve.steps, curve.values
    if len(losses) < 12:
        if len(losses) >= 4 and losses[-1] < 0.97 * losses[0]:
            return Improving("train", losses[0] - losses[-1], steps[-1] - steps[0])
        return None
    quarter = max(3, len(losses) // 4)
    level = median(losses[-quarter:])
    gain = median(losses[-2 * quarter : -quarter]) - level
    doubt = 1.25 * noise * math.sqrt(2 / quarter)
    since = steps[-2 * quarter]
    if gain > max(3 * doubt, 0.002 * level):
        return Improving("train", gain, steps[-1] - since)
    return Plateau("train", level, since, gain)


def _eval_direction(steps: list[int], values: list[float]) -> Improving | Plateau:
    """Improving while new bests still come and are more than noise; else a plateau since the last one."""
    count = len(values)
    best = values.index(min(values))
    window = max(4, min(count, max(5, count // 8)))
    recent = values[-window:]
    slope, _ = line_through(range(len(recent)), recent)
    gain = -slope * (len(recent) - 1)
    stale = count - 1 - best >= max(3, round(0.08 * count))
    if not stale and gain > max(eval_noise(values) or 0.0, 0.001 * abs(values[-1])):
        start = max(0, count - window)
        return Improving("val", values[start] - values[-1], steps[-1] - steps[start])
    return Plateau("val", values[best], steps[max(0, min(best, count - window))], gain)
