"""What to do, ranked by what this log says it would bring; nothing that it gives no reason for."""

import math

from nanoscope.analysis.extrapolation import extrapolate
from nanoscope.analysis.findings import (
    Advice,
    Diverged,
    Eta,
    Evaluations,
    HiddenEvaluations,
    Improving,
    LogError,
    Memorising,
    NoEta,
    NonFinite,
    Overfitting,
    RunProgress,
    SlowingDown,
    Verdict,
)
from nanoscope.analysis.loss import Learning
from nanoscope.analysis.numbers import common_gap
from nanoscope.analysis.timing import Timing
from nanoscope.runs.run import Run

WORTH_SHARE = 0.03  # of the time: below it, a change of settings is not worth the words
EVAL_SHARE_WANTED = 0.02  # evaluations may take so much of a run
LONGER_SHARE = 0.01  # of the loss, that twice the steps must bring
EVALS_WANTED = 8  # fewer points show no turning point


def advise(
    run: Run,
    progress: RunProgress,
    timing: Timing,
    eta: Eta | NoEta | None,
    learning: Learning,
    verdicts: tuple[Verdict, ...],
    errors: list[LogError],
) -> tuple[Advice, ...]:
    """The advice for one run: what is broken first, then by gain."""
    urgent: list[Advice] = []
    for verdict in verdicts:
        urgent.extend(_for_verdict(verdict, progress, timing))
        if isinstance(verdict, Improving) and verdict.measure == "val":
            urgent.extend(_train_longer(run, progress, learning.evals))
    if any(error.kind == "out_of_memory" for error in errors):
        urgent.append(Advice("less_memory", setting="batch_size", from_value=_number(run, "batch_size")))
    if run.failed and learning.checkpoints.last_step is not None and not progress.finished:
        urgent.append(Advice("resume_from_checkpoint", step=learning.checkpoints.last_step))
    savings = [*_eval_savings(run, timing, eta), *_time_savings(timing, run)]
    savings.sort(key=lambda advice: -(advice.saves_s or 0.0))
    unseen: list[Advice] = []
    if timing.hidden:
        unseen.append(_align(timing.hidden))
    if not run.evals and run.steps and any(isinstance(v, Memorising | Improving) for v in verdicts):
        unseen.append(Advice("add_validation"))
    return tuple(_once([*urgent, *savings, *unseen]))


def _for_verdict(verdict: Verdict, progress: RunProgress, timing: Timing) -> list[Advice]:
    normal = timing.normal_step
    if isinstance(verdict, Overfitting):
        advice = []
        if verdict.onset_step is not None:
            saved = (verdict.wasted_steps or 0) * normal.mean_s if normal else None
            if not progress.finished and progress.steps_left and normal:
                saved = progress.steps_left * normal.mean_s
            advice.append(Advice("stop_at_best", step=verdict.onset_step, saves_s=saved, loss_gain=verdict.rise))
        advice.append(Advice("regularise", setting="dropout"))
        return advice
    if isinstance(verdict, Diverged):
        return [
            Advice("lower_learning_rate", setting="learning_rate", loss_gain=verdict.last - verdict.best),
            Advice("use_best_checkpoint", step=verdict.last_good_checkpoint),
        ]
    if isinstance(verdict, NonFinite):
        if verdict.from_start:
            return [Advice("check_setup", step=verdict.step)]
        if verdict.recovered:
            return []
        good = verdict.last_good_checkpoint
        resume = [] if good is None else [Advice("resume_from_checkpoint", step=good)]
        return [*resume, Advice("lower_learning_rate", setting="learning_rate")]
    if isinstance(verdict, SlowingDown) and normal and progress.steps_left:
        lost = progress.steps_left * (verdict.last_third_s - verdict.first_third_s)
        return [Advice("stop_slowdown", saves_s=lost, of_s=progress.steps_left * verdict.last_third_s)]
    return []


def _train_longer(run: Run, progress: RunProgress, evals: Evaluations | None) -> list[Advice]:
    """Twice the steps, where even the more cautious law through the evaluations promises more than their noise."""
    length = progress.total_steps or progress.last_step
    points = [(e.step, e.val) for e in run.evals if math.isfinite(e.val) and e.metric == run.evals[-1].metric]
    ends = extrapolate(points, 2 * length) if length and progress.finished else None
    if ends is None or evals is None or length is None:
        return []
    last = points[-1][1]
    gain = last - max(ends)
    if gain < max(evals.noise or 0.0, LONGER_SHARE * last):
        return []
    return [Advice("train_longer", "max_iters", from_value=length, to_value=2 * length, loss_gain=gain)]


def _eval_savings(run: Run, timing: Timing, eta: Eta | NoEta | None) -> list[Advice]:
    """Evaluating less often, where evaluations take a share of the time that matters."""
    cost, normal, interval = timing.eval_cost_s, timing.normal_step, common_gap([e.step for e in run.evals])
    whole = timing.run_s
    if cost is None or normal is None or not interval or not whole:
        return []
    count = len(run.evals) - 1
    if isinstance(eta, Eta) and eta.evals_left:
        count, whole = eta.evals_left, eta.expected_s
    if cost * count < WORTH_SHARE * whole:
        return []
    factors = [f for f in (2, 4, 5, 10) if (len(run.evals) + count) // f >= EVALS_WANTED]
    if not factors:
        return []
    enough = (f for f in factors if cost / (cost + f * interval * normal.mean_s) <= EVAL_SHARE_WANTED)
    factor = next(enough, factors[-1])
    saved = cost * (count - count // factor)
    return [Advice("raise_eval_interval", "eval_interval", interval, interval * factor, saved, whole)]


def _time_savings(timing: Timing, run: Run) -> list[Advice]:
    whole = timing.run_s
    if not whole or not timing.log_interval:
        return []
    advice = []
    scale = 1 if run.time_spans_steps else timing.log_interval  # only every k-th step is printed
    normal_s = (
        timing.normal_step.typical_s * (run.steps.step[-1] - run.steps.step[0] + 1) if timing.normal_step else 0.0
    )
    for group in timing.slow_groups:
        if group.causes == ("stall",) and group.count >= 2 and group.extra_total_s * scale > WORTH_SHARE * whole:
            advice.append(
                Advice(
                    "find_stalls",
                    saves_s=min(group.extra_total_s * scale, max(whole - normal_s, group.extra_total_s)),
                    of_s=whole,
                    step=group.first_step,
                )
            )
        if group.causes == ("checkpoint",) and group.extra_total_s > WORTH_SHARE * whole:
            advice.append(Advice("checkpoint_less", saves_s=group.extra_total_s / 2, of_s=whole))
    return advice


def _align(hidden: HiddenEvaluations) -> Advice:
    """A log interval that divides the evaluation interval shows all of them."""
    best = max(d for d in range(1, hidden.log_interval + 1) if hidden.eval_interval % d == 0)
    return Advice("align_log_interval", "log_interval", hidden.log_interval, best)


def _number(run: Run, key: str) -> float | None:
    value = run.config.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _once(advice: list[Advice]) -> list[Advice]:
    seen: set[str] = set()
    return [a for a in advice if not (a.action in seen or seen.add(a.action))]  # type: ignore[func-returns-value]
