"""Step times: what is normal, what slow steps cost together, and what evaluations and checkpoints take."""

from array import array
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nanoscope.estimates import median, percentile
from nanoscope.findings.declared.base import Finding, Verdict
from nanoscope.findings.numbers import common_gap, mean, robust_sigma
from nanoscope.findings.slow import (
    FEW,
    Cause,
    SlowGroup,
    SlowRecord,
    SlowRecords,
    compiles,
    find_slow,
    records_of,
    steps_covered,
)
from nanoscope.messages import Message, Said, sentences, verbatim
from nanoscope.runs.run import Run, TimeSource
from nanoscope.units import short_duration

WORTH_SAYING = 0.1  # a smaller trend is not mentioned, nor is a naive estimate called wrong

MINUTE_S = 60

SOURCES: dict[TimeSource, Message] = {
    "cumulative": Message("The log prints a running total; step times are its differences."),
    "timestamps": Message("The log prints no step times; these come from its timestamps."),
    "progress_bar": Message("The log prints no step times; these come from its progress bar."),
}


def _written(seconds: float) -> str:
    """A time as exactly as it is shown: three digits, and from a minute on whole seconds."""
    return f"{seconds:.3g}" if seconds < MINUTE_S else short_duration(seconds)


class NormalStep(Finding):
    """The time of steps that carry no start-up, evaluation or checkpoint."""

    typical_s: float
    low_s: float  # 5th percentile
    high_s: float  # 95th percentile
    mean_s: float
    steps: int
    trend_share: float | None  # change of the typical time from the first third to the last
    jittery: bool  # many steps are far above the typical one, without a cause in the log
    clock_resolution_s: float | None  # set if the spread is only the clock's own steps
    includes_evaluation: bool | None  # whether printed times include the evaluation; None: unknown
    source: TimeSource
    throughput_tok_s: float | None
    tok_s_per_device: bool = False  # the throughput is one device's
    unit: Literal["step", "epoch"] = "step"  # what the times are those of

    def text(self) -> Said:
        return sentences(
            self._typical(),
            self._throughput(),
            self.clock_resolution_s is not None
            and self._shows_a_range()
            and Message("The spread is only that of its clock, which ticks every {clock_resolution_s:duration}."),
            self.jittery and Message("Many steps are far slower, and the log shows no cause."),
            self.trend_share is not None
            and self.trend_share < -WORTH_SAYING
            and Message("Steps have become {share:percent} faster since the beginning.", share=-self.trend_share),
            SOURCES.get(self.source),
            self.includes_evaluation is False and Message("Printed times leave the evaluations out."),
        )

    def _typical(self) -> Message:
        ends = self.low_s, self.high_s
        if self.unit == "epoch":
            return Message("An epoch takes {typical_s:duration} (nine in ten take {range:durations}).", range=ends)
        if self.steps < FEW:
            return Message("A normal step takes {typical_s:duration}, going by the few that the log shows.")
        if self._looks_constant():
            return Message("A normal step takes {typical_s:duration}, with hardly any spread.")
        return Message("A normal step takes {typical_s:duration} (nine in ten take {range:durations}).", range=ends)

    def _looks_constant(self) -> bool:
        return _written(self.low_s) == _written(self.high_s)

    def _shows_a_range(self) -> bool:
        return (self.unit == "epoch" or self.steps >= FEW) and not self._looks_constant()

    def _throughput(self) -> Said:
        if not self.throughput_tok_s:
            return None
        if self.tok_s_per_device:
            return Message("That is {throughput_tok_s:large} tokens/s on each device.")
        return Message("That is {throughput_tok_s:large} tokens/s.")


class NoNormalStep(Finding):
    """Every printed time is that of a step with an evaluation; `step` is the last one."""

    step: int
    time_s: float

    TEXT = Message(
        "How long a normal step takes is unknown: the log shows only steps with an evaluation, and "
        "their times include it (step {step:plain}: {time_s:duration})."
    )


class PhaseCost(Finding):
    """The total cost of a phase, including what no line shows; `share` is of the run's time so far."""

    phase: Literal["evaluation", "checkpoint", "startup", "sample"]
    count: int
    each_s: float
    total_s: float
    share: float
    with_evaluation: bool = False  # the start-up holds an evaluation, and no later one tells the two apart

    def text(self) -> Said:
        match self.phase:
            case "evaluation":
                return Message(
                    "{n} evaluation took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} evaluations of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    n=self.count,
                )
            case "checkpoint":
                return Message(
                    "{n} checkpoint took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} checkpoints of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    n=self.count,
                )
            case "sample":
                return Message(
                    "{n} sample took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} samples of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    n=self.count,
                )
            case "startup" if self.with_evaluation:
                return Message(
                    "Start-up and the first evaluation together: {total_s:duration}, {share:percent} of the time so "
                    "far."
                )
            case "startup":
                return Message("Start-up: {total_s:duration}, {share:percent} of the time so far.")


class HiddenEvaluations(Finding):
    """Evaluations whose cost no printed line shows, because log_interval does not divide eval_interval."""

    hidden: int
    count: int
    log_interval: int
    eval_interval: int

    def text(self) -> Said:
        return Message(
            "Of {count:number} evaluations, {n} cannot be seen in the times: {log_interval} does not divide "
            "{eval_interval}, so its step is not printed. It costs as much as the others.",
            "Of {count:number} evaluations, {n} cannot be seen in the times: {log_interval} does not divide "
            "{eval_interval}, so their steps are not printed. They cost as much as the others.",
            n=self.hidden,
            log_interval=verbatim("log_interval={log_interval:plain}"),
            eval_interval=verbatim("eval_interval={eval_interval:plain}"),
        )


class SlowStepsNormal(Verdict, tone="good"):
    """All slow steps are explained by what the trainer does besides training, evaluations among it."""

    steps: tuple[int, ...]  # with an evaluation, but for the first
    saves: Literal["always", "perhaps", "never"]  # whether a checkpoint is part of the times of those steps
    first_step: int | None  # with an evaluation and the start-up
    typical_s: float  # of a normal step

    def title(self) -> Message:
        one = len(self.steps) + (self.first_step is not None) == 1
        return Message("The slow step is normal") if one else Message("The slow steps are normal")

    def text(self) -> Said:
        return sentences(
            bool(self.steps) and self._steps(),
            self.first_step is not None
            and Message("The time printed at step {first_step:plain} is start-up + first evaluation + training step."),
            Message("The training step alone takes {typical_s:duration}, like all others."),
        )

    def _steps(self) -> Message:
        match self.saves:
            case "always":
                return Message("The time printed at step {steps:steps} is evaluation + checkpoint + training step.")
            case "perhaps":
                return Message(
                    "The time printed at step {steps:steps} is evaluation + training step, and checkpoint where one is "
                    "written."
                )
            case "never":
                return Message("The time printed at step {steps:steps} is evaluation + training step.")


CLOCK_TICKS = 4.0  # of a coarse clock, that equal steps may seem to differ by
CLOCK_RECORDS = 1_000
PERIOD_FITS = 0.7  # of the distances; the last may be cut short by the end of the run


@dataclass(eq=False, repr=False)
class Timing:
    """The findings about time, and the normal times that the ETA builds on."""

    log_interval: int | None
    eval_cost_s: float | None
    checkpoint_cost_s: float | None
    normal_step: NormalStep | None = None
    no_normal_step: NoNormalStep | None = None
    eval_interval: int | None = None
    evaluations: int = 0  # how many there were; where the log leaves them out, how many the times show
    slow_steps: tuple[SlowRecord, ...] = ()
    slow_groups: tuple[SlowGroup, ...] = ()
    phase_costs: tuple[PhaseCost, ...] = ()
    hidden: HiddenEvaluations | None = None
    normal_s: Sequence[float] = ()  # of records without start-up, evaluation, checkpoint or resumption
    steady_s: Sequence[float] = ()  # the same, without one-off stalls
    steady_steps: Sequence[int] | None = None  # how many steps each of those stands for; None: one
    last_printed_s: float | None = None
    first_extra_s: float | None = None  # of a first step with an evaluation, where no later one tells the two apart
    run_s: float | None = None  # the run's time over the steps of the log, as far as the log shows it


def analyse_timing(run: Run, eval_interval: int | None, tokens_per_step: int | None) -> Timing:
    """Everything about the step times of a run."""
    steps, times, interval = run.steps.step, run.steps.time_s, common_gap(run.steps.step)
    records = find_slow(run, interval)
    eval_cost = _typical(e.seconds for e in run.evals)
    checkpoint_cost = _typical(c.seconds for c in run.checkpoints)
    if not records.is_normal_known:
        shown = [NoNormalStep(steps[i], times[i]) for i in records.measured[-1:]]
        return Timing(interval, eval_cost, checkpoint_cost, no_normal_step=next(iter(shown), None))
    stalled = {i for i, causes in records.causes.items() if causes == ("stall",)}
    regular = {i for i, causes in records.causes.items() if causes == ("periodic",)}
    normal = _without(records.measured, records.causes.keys() - stalled - regular)
    steady = _without(normal, stalled)
    extra_s = records.extra_s
    slow = tuple(SlowRecord(steps[i], times[i], extra_s[i], why) for i, why in records.causes.items())
    if eval_cost is None:
        eval_cost = _typical(s.extra_s for s in _later(slow) if "evaluation" in s.causes)
    normal_s = _picked(times, normal)
    steady_s = _picked(times, steady) if stalled else normal_s
    if regular and (interval or 1) > 1 and not run.time_spans_steps:
        steady_s = _spread_out(steady, steady_s, regular, extra_s, interval or 1)
    weights = array("q", (steps_covered(run, index) for index in steady)) if run.time_spans_steps else None
    normal_step = _normal_step(run, normal, normal_s, mean(steady_s, weights), records, tokens_per_step)
    timing = Timing(
        log_interval=interval,
        eval_cost_s=eval_cost,
        checkpoint_cost_s=_checkpoint_cost(slow) if checkpoint_cost is None else checkpoint_cost,
        normal_step=normal_step,
        eval_interval=eval_interval or records.eval_interval,
        evaluations=len(run.evals) or sum("evaluation" in step.causes for step in slow),
        slow_steps=slow,
        slow_groups=_groups(run, slow, normal_step),
        hidden=_hidden(run, records, interval, eval_interval),
        normal_s=normal_s,
        steady_s=steady_s,
        steady_steps=weights,
        last_printed_s=times[records.measured[-1]],
        first_extra_s=_unsplit_first_step(run, records, slow) if eval_cost is None else None,
    )
    timing.phase_costs, timing.run_s = _phase_costs(run, timing)
    return timing


def _typical(seconds: Iterable[float | None]) -> float | None:
    known = [value for value in seconds if value is not None]
    return median(known) if known else None


def _without(indices: Sequence[int], others: AbstractSet[int]) -> Sequence[int]:
    """The indices that are not among the others (all of them, rather than none)."""
    return array("q", (index for index in indices if index not in others)) or indices if others else indices


def _picked(values: "array[float]", indices: Sequence[int]) -> "array[float]":
    return values if len(indices) == len(values) else array("d", (values[index] for index in indices))


def _spread_out(
    indices: Sequence[int], times: "array[float]", regular: set[int], extra_s: dict[int, float], interval: int
) -> "array[float]":
    """The times as means over all steps: a slow step that comes back regularly is one of the steps since the line
    before, not each of them."""
    pairs = zip(indices, times, strict=True)
    return array("d", (time - extra_s[i] * (1 - 1 / interval) if i in regular else time for i, time in pairs))


def _normal_step(
    run: Run,
    normal: Sequence[int],
    values: Sequence[float],
    mean_s: float,
    records: SlowRecords,
    tokens_per_step: int | None,
) -> NormalStep:
    typical = median(values)
    printed = _typical(speed for index in normal if (speed := run.steps.tok_s[index]) == speed)
    throughput = printed if printed is not None or not tokens_per_step else tokens_per_step / typical
    lands = records.evaluation_lands
    low, high = percentile(values, 5), percentile(values, 95)
    return NormalStep(
        typical_s=typical,
        low_s=low,
        high_s=high,
        mean_s=mean_s,
        steps=len(values),
        trend_share=_trend(values),
        jittery=records.jittery,
        clock_resolution_s=_spread_of_clock(run, normal, high - low, records),
        includes_evaluation=None if run.traits.evaluation_in is None and lands is None else lands is not None,
        source=run.time_source,
        throughput_tok_s=throughput,
        tok_s_per_device=run.tok_s_per_device and printed is not None,
        unit=run.unit,
    )


def _spread_of_clock(run: Run, normal: Sequence[int], spread_s: float, records: SlowRecords) -> float | None:
    """The step of the clock, if the times spread no further than it explains."""
    if records.clock_resolution_s is None:
        return None
    covered = median([steps_covered(run, index) for index in normal[:CLOCK_RECORDS]])
    return records.clock_resolution_s if spread_s * covered <= CLOCK_TICKS * records.clock_resolution_s else None


def _trend(values: Sequence[float]) -> float | None:
    """The change of the typical time from the first third to the last."""
    third = len(values) // 3
    return median(values[-third:]) / median(values[:third]) - 1 if third >= 4 else None


def slow_steps_normal(timing: Timing) -> SlowStepsNormal | None:
    """The verdict that nothing is wrong with the slow steps, where evaluations and what goes with them explain all."""
    evaluating = [slow for slow in timing.slow_steps if "evaluation" in slow.causes]
    strange = any(slow.causes in (("stall",), ("periodic",)) for slow in timing.slow_steps)
    normal, of_one_step = timing.normal_step, timing.steady_steps is None
    if normal is None or normal.source != "printed" or not of_one_step or not evaluating or strange:
        return None
    first = next((slow.step for slow in evaluating if "startup" in slow.causes), None)
    later = [slow for slow in evaluating if slow.step != first]
    inferred = any(group.inferred for group in timing.slow_groups)
    saved = {"checkpoint" in slow.causes for slow in later}
    return SlowStepsNormal(
        steps=tuple(slow.step for slow in later),
        saves="perhaps" if inferred or len(saved) > 1 else "always" if True in saved else "never",
        first_step=first,
        typical_s=normal.typical_s,
        confidence="likely" if inferred else "sure",
    )


# --- costs ---


def _later(slow: tuple[SlowRecord, ...]) -> list[SlowRecord]:
    """Without the first steps after a start, which hold more than an evaluation."""
    return [s for s in slow if "startup" not in s.causes and "resume" not in s.causes]


def _unsplit_first_step(run: Run, records: SlowRecords, slow: tuple[SlowRecord, ...]) -> float | None:
    """What a first step cost that holds start-up and an evaluation, with no later evaluation to tell them apart."""
    if not slow or slow[0].causes[:2] != ("startup", "evaluation"):
        return None
    later = records_of(run.steps.step, [e.step for e in run.evals], records.evaluation_lands) - {records.measured[0]}
    is_free = any(index in records.measured and index not in records.causes for index in later)
    return None if is_free else slow[0].extra_s


def _checkpoint_cost(slow: tuple[SlowRecord, ...]) -> float | None:
    """What a checkpoint adds, where some evaluations saved one and some did not (or saves stand alone)."""
    extras: dict[tuple[Cause, ...], list[float]] = {}
    for step in _later(slow):
        extras.setdefault(step.causes, []).append(step.extra_s)
    alone = extras.get(("checkpoint",))
    if alone:
        return median(alone)
    both, evals = extras.get(("evaluation", "checkpoint"), []), extras.get(("evaluation",), [])
    if len(both) < 3 or len(evals) < 3:
        return None
    difference = median(both) - median(evals)
    return difference if difference > robust_sigma(both) + robust_sigma(evals) else None


def _groups(run: Run, slow: tuple[SlowRecord, ...], normal: NormalStep) -> tuple[SlowGroup, ...]:
    by_causes: dict[tuple[Cause, ...], list[SlowRecord]] = {}
    for step in slow:
        by_causes.setdefault(step.causes, []).append(step)
    groups = []
    for causes, members in by_causes.items():
        extras = [member.extra_s for member in members]
        typical = median([member.time_s for member in members])
        groups.append(
            SlowGroup(
                causes=causes,
                count=len(members),
                first_step=members[0].step,
                period_steps=None if causes == ("stall",) else _period([member.step for member in members]),
                typical_s=typical,
                extra_total_s=sum(extras),
                times_slower=typical / normal.typical_s,
                unit=normal.unit,
                compiled=compiles(run) if causes[0] in ("startup", "resume") else False,
                inferred="evaluation" in causes and not run.evals and not run.evaluated_at,
            )
        )
    return tuple(sorted(groups, key=lambda group: -group.extra_total_s))


def _period(steps: list[int]) -> int | None:
    """The distance at which these steps come, if nearly all come at it or at a multiple of it."""
    gap = common_gap(steps)
    if not gap or (len(steps) == 2 and steps[0] % gap):
        return None  # two make a distance only if it is also that from the beginning
    fitting = sum((after - before) % gap == 0 for before, after in pairwise(steps))
    return gap if fitting >= PERIOD_FITS * (len(steps) - 2) else None


def _hidden(
    run: Run, records: SlowRecords, interval: int | None, eval_interval: int | None
) -> HiddenEvaluations | None:
    """Evaluations between the printed lines."""
    if records.evaluation_lands != "same" or not interval or not eval_interval or eval_interval % interval == 0:
        return None
    printed = set(run.steps.step)
    inside = [e.step for e in run.evals if run.steps.step[0] <= e.step <= run.steps.step[-1]]
    hidden = sum(step not in printed for step in inside)
    return HiddenEvaluations(hidden, len(inside), interval, eval_interval) if hidden >= 2 else None


def _phase_costs(run: Run, timing: Timing) -> tuple[tuple[PhaseCost, ...], float | None]:
    """What evaluation, checkpoints, samples and start-up took, as time and share of the run's time, and that time."""
    counts = {"evaluation": timing.evaluations, "checkpoint": len(run.checkpoints), "startup": 1, "sample": run.samples}
    if run.phases:
        spent = {phase: run.phases.get("eval" if phase == "evaluation" else phase, 0.0) for phase in counts}
    else:
        spent = _spent(run, timing)
    whole = run.wall_seconds
    if whole is None and timing.normal_step:
        steps = run.steps.step
        whole = (steps[-1] - steps[0] + 1) * timing.normal_step.mean_s + sum(spent.values())
        # A stall is one event: it is not assumed between the printed lines as well.
        whole += sum(s.extra_s for s in timing.slow_steps if "resume" in s.causes or s.causes == ("stall",))
        if any(s.causes == ("evaluation", "checkpoint") for s in timing.slow_steps):
            whole -= spent["checkpoint"]  # it is in the evaluations' time as well
    unsplit = timing.first_extra_s is not None and not run.phases
    costs = [
        PhaseCost(
            phase,  # type: ignore[arg-type]
            counts[phase],
            total / counts[phase],
            total,
            min(1.0, total / whole),
            with_evaluation=phase == "startup" and unsplit,
        )
        for phase, total in spent.items()
        if whole and total > 0 and counts[phase]
    ]
    if len(timing.normal_s) < FEW and not run.phases:
        costs = []  # shares of so short a time say nothing about the run
    return tuple(sorted(costs, key=lambda cost: -cost.total_s)), whole


def _spent(run: Run, timing: Timing) -> dict[str, float]:
    """Seconds by phase, from what the slow steps took more than the others."""
    spent = {
        "evaluation": timing.evaluations * (timing.eval_cost_s or 0.0),
        "checkpoint": len(run.checkpoints) * (timing.checkpoint_cost_s or 0.0),
        "startup": 0.0,
    }
    starts = [s for s in timing.slow_steps if "startup" in s.causes]
    if starts and timing.normal_step:
        shared = timing.eval_cost_s if "evaluation" in starts[0].causes and timing.eval_cost_s else 0.0
        startup = sum(s.extra_s for s in starts) - shared
        spent["startup"] = startup if startup > timing.normal_step.typical_s / 4 else 0.0
    return spent
