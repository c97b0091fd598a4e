"""One run, all findings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import eq

from nanoscope.findings.advice import advise
from nanoscope.findings.declared import (
    Completed,
    Error,
    LogError,
    LogSummary,
    NonFinite,
    NoTraining,
    Reading,
    RunProgress,
    ScheduleEnded,
    TooShort,
    Verdict,
)
from nanoscope.findings.declared.advice import Advice
from nanoscope.findings.declared.learning import (
    Checkpoints,
    Evaluations,
    Gap,
    GradientNorm,
    LossPlace,
    LossSpike,
    Schedule,
    TrainLoss,
)
from nanoscope.findings.eta import Eta, NoEta, analyse_eta
from nanoscope.findings.loss import Learning, analyse_learning, eval_interval_of
from nanoscope.findings.mfu import Achieved, Mfu, analyse_achieved, analyse_mfu
from nanoscope.findings.pressure import judge_pressure
from nanoscope.findings.progress import analyse_progress, tokens_in_step
from nanoscope.findings.reconcile import Mismatch, reconcile
from nanoscope.findings.slow import SlowGroup, SlowRecord
from nanoscope.findings.timing import (
    HiddenEvaluations,
    NoNormalStep,
    NormalStep,
    PhaseCost,
    analyse_timing,
    slow_steps_normal,
)
from nanoscope.runs.run import Log, LoggedError, Run, Traits


@dataclass(eq=False, repr=False)
class Analysis:
    """All that can be said about one run, in reading order."""

    summary: LogSummary
    reading: Reading
    verdicts: tuple[Verdict, ...]
    progress: RunProgress
    interruption: LogError | None
    timing: NormalStep | None
    no_normal_step: NoNormalStep | None
    slow_steps: tuple[SlowRecord, ...]
    slow_groups: tuple[SlowGroup, ...]
    phase_costs: tuple[PhaseCost, ...]
    hidden_evaluations: HiddenEvaluations | None
    eta: Eta | NoEta | None
    train_loss: TrainLoss
    evals: Evaluations | None
    place: LossPlace | None
    gap: Gap | None
    schedule: Schedule | None
    gradients: GradientNorm | None
    checkpoints: Checkpoints
    spikes: tuple[LossSpike, ...]
    mfu: Mfu | None
    achieved: Achieved | None
    mismatches: tuple[Mismatch, ...]
    advice: tuple[Advice, ...]


# Series whose names carry a unit.
_SERIES_NAMES = {"memory_gb": "memory", "data_s": "data_time", "eta_s": "eta"}


@dataclass(eq=False)
class Options:
    """What the person adds to the log: how long the run is to be, and on what it runs."""

    max_iters: int | None = None
    device: str | None = None


def analyse(run: Run, options: Options | None = None, log: Log | None = None) -> Analysis:
    """All that can be said about a run; `log`, the one it was read from, adds what concerns the whole file."""
    options = options or Options()
    interval = eval_interval_of(run)
    timing = analyse_timing(run, interval, tokens_in_step(run))
    progress = analyse_progress(run, options.max_iters, timing.log_interval)
    learning = analyse_learning(run, progress, timing, interval)
    summary = _summary(run, log, timing.log_interval)
    eta = analyse_eta(run, progress, timing) if run.steps or run.evals else None
    if not progress.finished and any(isinstance(v, NonFinite) and not v.recovered for v in learning.verdicts):
        eta = NoEta("not_finite", None)
    verdicts: tuple[Verdict, ...] = learning.verdicts
    verdicts = (*verdicts, *judge_pressure(run, timing))
    if all(isinstance(verdict, TooShort) for verdict in verdicts) and (slow := slow_steps_normal(timing)):
        verdicts = (slow, *verdicts)
    if not run.steps and not run.evals:
        verdicts = (NoTraining(log.lines if log else 0, confidence="sure"),)
    verdicts = _completed(verdicts, progress, learning, summary)
    last_error = next(iter(log_errors(_last_errors(run, log))), None)
    interrupted = last_error is not None and last_error.kind == "interrupted"
    if last_error is not None and not interrupted:
        error = Error(**vars(last_error), finished=bool(progress.finished), confidence="sure")
        verdicts = (*verdicts, error) if error.finished else (error, *verdicts)
    mfu = analyse_mfu(run, timing.normal_step, timing.slow_steps, options.device)
    achieved = analyse_achieved(run, timing.normal_step, options.device)
    mismatches = reconcile(run, progress, timing.normal_step)
    errors = log_errors([error for error in log.errors if error.run in (None, run)]) if log else []
    return Analysis(
        **vars(learning) | {"verdicts": verdicts},
        summary=summary,
        reading=_reading(run),
        progress=progress,
        interruption=last_error if interrupted else None,
        timing=timing.normal_step,
        no_normal_step=timing.no_normal_step,
        slow_steps=timing.slow_steps,
        slow_groups=timing.slow_groups,
        phase_costs=timing.phase_costs,
        hidden_evaluations=timing.hidden,
        eta=eta,
        mfu=mfu,
        achieved=None if mfu and mfu.achieved_tflops else achieved,
        mismatches=mismatches,
        advice=advise(run, progress, timing, eta, learning, verdicts, errors, mismatches),
    )


def _completed(
    verdicts: tuple[Verdict, ...], progress: RunProgress, learning: Learning, summary: LogSummary
) -> tuple[Verdict, ...]:
    """The verdicts, headed by the good end of a run that did all its steps and has nothing worse to be told.

    That its training lines are flat by then is what its schedule was for.
    """
    total = progress.total_steps
    if total is None or not progress.complete:
        return verdicts
    if any(verdict.lasts and not verdict.harmless for verdict in verdicts):
        return verdicts
    train, evals = learning.train_loss, learning.evals
    val = evals.last_val if evals is not None and evals.metric == "loss" else None
    stderr = evals.stderr if evals is not None and val is not None else None
    first = None if summary.begins_mid_run or summary.steps_logged < 2 else train.first
    done = Completed(total, progress.unit, first, train.smoothed_last, val, stderr, confidence="sure")
    return (done, *(verdict for verdict in verdicts if verdict.lasts or not isinstance(verdict, ScheduleEnded)))


def main_run(analyses: Sequence[Analysis]) -> int:
    """The index of the run to show in full: the last, unless an earlier one went wrong and the last did not."""
    wrong = [any(verdict.breaks and verdict.tone == "bad" for verdict in analysis.verdicts) for analysis in analyses]
    return max((index for index, is_wrong in enumerate(wrong) if is_wrong), default=len(wrong) - 1)


def analyse_nothing(log: Log, options: Options | None = None) -> Analysis:
    """What can be said about a log without a run."""
    return analyse(Run(log.format, Traits()), options, log)


def _last_errors(run: Run, log: Log | None) -> Sequence[LoggedError]:
    """The error after the last step of a run; all errors of a log without a run."""
    if log is not None and not log.runs:
        return log.errors
    return [run.last_error] if run.last_error else []


def log_errors(errors: Sequence[LoggedError]) -> list[LogError]:
    """The errors of a log as findings."""
    return [LogError(error.line, error.kind, error.message) for error in errors]


def _summary(run: Run, log: Log | None, log_interval: int | None) -> LogSummary:
    widest = max((b - a for a, b in pairwise(run.steps.step)), default=0)
    elided = log_interval is not None and len(run.steps) > 8 and widest > 5 * log_interval
    first = run.first_step if run.steps else (run.evals[0].step if run.evals else None)
    return LogSummary(
        steps_logged=len(run.steps),
        first_step=None if run.steps_are_lines else run.first_step,
        last_step=None if run.steps_are_lines else run.last_step,
        duplicates_dropped=run.duplicates_dropped,
        rejoined_lines=log.rejoined_lines if log else 0,
        resumed_at=tuple(run.resumed_at),
        begins_mid_run=first is not None and first > 10 * max(1, log_interval or 1) and not run.begins_with_resume,
        elided=elided,
        steps_are_lines=run.steps_are_lines,
        time_unclear=any(doubt.name == "step_time_s" for doubt in run.doubts),
        end_unclear=any(doubt.name == "finished" for doubt in run.doubts),
    )


def _reading(run: Run) -> Reading:
    """The values of a run that some record has, by plain names."""
    steps = run.steps
    columns = {
        "loss": steps.loss, "time": steps.time_s, "lr": steps.lr, "grad_norm": steps.grad_norm,
        "tokens_per_second": steps.tok_s, "mfu": steps.mfu_pct,
    }  # fmt: skip
    found: list[str] = [run.unit] if steps or run.evals else []
    found += [name for name, column in columns.items() if any(map(eq, column, column))]  # some are not NaN
    found += [f"val_{metric}" for metric in ("loss", "bpb") if any(e.metric == metric for e in run.evals)]
    found += [_SERIES_NAMES.get(name, name) for name, series in run.series.items() if series.steps]
    return Reading(tuple(found), run.unused_columns)
