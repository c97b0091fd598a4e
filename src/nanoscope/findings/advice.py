"""What to do, ranked by what this log says it would bring; nothing without a finding behind it."""

import math
from dataclasses import replace

from nanoscope.findings.declared import (
    Advice,
    DamagedStart,
    Diverged,
    GradientExplosion,
    GradientNotFinite,
    Improving,
    Leak,
    LogError,
    Memorising,
    NonFinite,
    NotLearning,
    Overfitting,
    RepeatedBatches,
    RunProgress,
    ScaleCollapse,
    Stalled,
    Verdict,
    Worsening,
)
from nanoscope.findings.eta import Eta, NoEta
from nanoscope.findings.loss import Learning
from nanoscope.findings.numbers import common_gap
from nanoscope.findings.pressure import SlowingDown
from nanoscope.findings.reconcile import Mismatch
from nanoscope.findings.timing import HiddenEvaluations, Timing
from nanoscope.runs.run import Run

WORTH_SHARE, WORTH_S = 0.03, 10.0  # of the time, and seconds: what saves less is not worth the words …
LARGE_SHARE = 0.2  # … unless evaluations take that much of a short run
EVAL_SHARE_WANTED = 0.02  # evaluations may take so much of a run
COSTLY_SHARE, VERY_COSTLY_SHARE = 0.15, 0.35  # of the time: so much is spent on too many batches, not too often
EVALS_WANTED = 8  # fewer points show no turning point
FAR_ABOVE = 10.0  # times another learning rate of the run: usually they are within a few times of each other
REGULARISE = Advice("regularise", setting="dropout")


def advise(
    run: Run,
    progress: RunProgress,
    timing: Timing,
    eta: Eta | NoEta | None,
    learning: Learning,
    verdicts: tuple[Verdict, ...],
    errors: list[LogError],
    mismatches: tuple[Mismatch, ...] = (),
) -> tuple[Advice, ...]:
    """The advice for one run: what is broken first, then by gain."""
    urgent = [advice for verdict in verdicts for advice in _for_verdict(verdict, run, progress, timing, learning)]
    if any(error.kind == "out_of_memory" for error in errors):
        urgent.append(Advice("less_memory", setting="batch_size", from_value=_number(run, "batch_size")))
    if run.failed and learning.checkpoints.last_step is not None and not progress.finished:
        urgent.append(Advice("resume_from_checkpoint", step=learning.checkpoints.last_step))
    for mismatch in mismatches:
        if mismatch.setting == "gradient_accumulation_steps":
            urgent.append(Advice("lower_accumulation", mismatch.setting, mismatch.setting_value, 1))
    savings = [*_eval_savings(run, timing, eta), *_time_savings(timing)]
    savings.sort(key=lambda advice: -(advice.saves_s or 0.0))
    found: dict[str, Advice] = {}
    for advice in (*urgent, *savings, *_align(timing.hidden)):
        found.setdefault(advice.action, advice)
    return tuple(replace(advice, trainer=run.format) for advice in found.values())


def _for_verdict(verdict: Verdict, run: Run, progress: RunProgress, timing: Timing, learning: Learning) -> list[Advice]:
    """What follows from a verdict, the most urgent first."""
    match verdict:
        case Overfitting():
            return [*_stop_at_best(verdict, progress, timing), REGULARISE]
        case Stalled():
            best = verdict.best_step
            use = [Advice("use_best_checkpoint", step=best)] if best < verdict.gap.step else []
            return [*use, REGULARISE]
        case Diverged() | NonFinite(from_start=False, recovered=False):
            good = verdict.last_good_checkpoint
            resume = [] if good is None else [Advice("resume_from_checkpoint", step=good)]
            return [*resume, _lower_rate(run)]
        case NonFinite(from_start=True):
            return [Advice("check_setup")]
        case Worsening(train_known=True):
            return [_lower_rate(run), Advice("use_best_checkpoint", step=verdict.best_step)]
        case DamagedStart():
            return [Advice("warm_up", setting="warmup_iters"), _lower_rate(run)]
        case NotLearning():
            return [Advice("check_setup")]
        case GradientNotFinite() | ScaleCollapse():
            return [Advice("safer_precision", setting="dtype")]
        case GradientExplosion():
            return [_lower_rate(run)]
        case RepeatedBatches():
            return [Advice("check_loader")]
        case Leak():
            return [Advice("check_split")]
        case Memorising():
            return [Advice("add_validation")]
        case SlowingDown() if timing.normal_step and progress.steps_left:
            lost = progress.steps_left * (verdict.last_third_s - verdict.first_third_s)
            return [Advice("stop_slowdown", saves_s=lost, of_s=progress.steps_left * verdict.last_third_s)]
        case Improving(measure="val", confidence="sure") if progress.finished and progress.total_steps:
            total = progress.total_steps
            return [Advice("train_longer", "max_iters", from_value=total, to_value=2 * total)]
    return []


def _stop_at_best(verdict: Overfitting, progress: RunProgress, timing: Timing) -> list[Advice]:
    if verdict.onset_step is None:
        return []
    left, normal = progress.steps_left, timing.normal_step
    saved = left * normal.mean_s if left and normal and not progress.finished else None
    return [Advice("stop_at_best", step=verdict.onset_step, saves_s=saved)]


def _lower_rate(run: Run) -> Advice:
    """The learning rate; that of the matrices where it is the one out of line."""
    now, matrices, clips = _number(run, "learning_rate"), _number(run, "matrix_lr"), bool(_number(run, "grad_clip"))
    setting = "learning_rate"
    if now and matrices and matrices > FAR_ABOVE * now:
        setting, now = "matrix_lr", matrices
    return Advice("lower_learning_rate", setting, now, _round_down(now / 3) if now else None, clips=clips)


def _round_down(value: float) -> float:
    """The next lower of 1, 2, 3, 5 times a power of ten."""
    size = 10.0 ** math.floor(math.log10(value))
    return max(digit * size for digit in (1, 2, 3, 5) if digit * size <= value * 1.001)


def _eval_savings(run: Run, timing: Timing, eta: Eta | NoEta | None) -> list[Advice]:
    """Evaluating on fewer batches or less often, where evaluations take a share of the time that matters."""
    cost, normal, interval = timing.eval_cost_s, timing.normal_step, common_gap([e.step for e in run.evals])
    whole = timing.run_s
    if cost is None or normal is None or not interval or not whole:
        return []
    count = sum(e.step > 0 for e in run.evals) or 1
    if isinstance(eta, Eta) and eta.evals_left:
        count, whole = eta.evals_left, eta.expected_s
    share = cost / (cost + interval * normal.mean_s)
    if cost * count < WORTH_SHARE * whole or (cost * count < WORTH_S and share < LARGE_SHARE):
        return []
    factors = [f for f in (2, 4, 5, 10) if (len(run.evals) + count) // f >= EVALS_WANTED]
    if share > COSTLY_SHARE or not factors:
        factor = 10 if share > VERY_COSTLY_SHARE else 4
        batches = _number(run, "eval_iters")
        to = max(1, round(batches / factor)) if batches else None
        return [
            Advice("lower_eval_iters", "eval_iters", batches, to, cost * count * (1 - 1 / factor), whole, factor=factor)
        ]
    enough = (f for f in factors if cost / (cost + f * interval * normal.mean_s) <= EVAL_SHARE_WANTED)
    factor = next(enough, factors[-1])
    saved = cost * (count - count // factor)
    return [Advice("raise_eval_interval", "eval_interval", interval, interval * factor, saved, whole)]


def _time_savings(timing: Timing) -> list[Advice]:
    whole = timing.run_s
    if not whole or not timing.log_interval:
        return []
    advice = []
    for group in timing.slow_groups:
        worth = group.extra_total_s > max(WORTH_SHARE * whole, WORTH_S)
        if group.causes == ("stall",) and group.count >= 2 and worth:
            advice.append(
                Advice("find_stalls", saves_s=group.extra_total_s, of_s=whole, step=group.first_step)
            )  # fmt: skip
        if group.causes == ("checkpoint",) and worth:
            advice.append(Advice("checkpoint_less", saves_s=group.extra_total_s / 2, of_s=whole))
    return advice


def _align(hidden: HiddenEvaluations | None) -> list[Advice]:
    """A log interval that divides the evaluation interval shows all of them; a round one if there is one."""
    if hidden is None:
        return []
    divisors = [d for d in range(1, hidden.log_interval + 1) if hidden.eval_interval % d == 0]
    round_ones = [d for d in divisors if d == _round_down(d) and d >= max(divisors) / 3]
    return [Advice("align_log_interval", "log_interval", hidden.log_interval, max(round_ones or divisors))]


def _number(run: Run, key: str) -> float | None:
    value = run.config.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
