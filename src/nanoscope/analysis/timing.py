"""Step times: what is normal, what slow steps cost together, and what evaluations and checkpoints take."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nanoscope.analysis.findings import Cause, HiddenEvaluations, NormalStep, PhaseCost, SlowGroup, SlowRecord
from nanoscope.analysis.numbers import common_gap, mean
from nanoscope.analysis.slow import SlowRecords, find_slow, steps_covered
from nanoscope.estimates import median, percentile, robust_sigma
from nanoscope.runs.run import Run

SLOWING_DOWN = 0.10


@dataclass(eq=False, repr=False)
class Timing:
    """The findings about time, and the normal times that the ETA builds on."""

    log_interval: int | None
    eval_cost_s: float | None
    checkpoint_cost_s: float | None
    normal_step: NormalStep | None = None
    slow_steps: tuple[SlowRecord, ...] = ()
    slow_groups: tuple[SlowGroup, ...] = ()
    phase_costs: tuple[PhaseCost, ...] = ()
    hidden: HiddenEvaluations | None = None
    normal_s: Sequence[float] = ()  # of records without start-up, evaluation, checkpoint or resumption
    steady_s: Sequence[float] = ()  # the same, without one-off stalls
    steady_steps: Sequence[int] | None = None  # how many steps each of those stands for; None: one
    last_printed_s: float | None = None
    run_s: float | None = None  # the run's time over the steps of the log, as far as the log shows it


def analyse_timing(run: Run, eval_interval: int | None, tokens_per_step: int | None) -> Timing:
    """Everything about the step times of a run."""
    steps, times = run.steps.step, run.steps.time_s
    interval = common_gap(steps)
    records = find_slow(run, interval)
    eval_cost, checkpoint_cost = _printed_costs(run)
    if not records.measured:
        return Timing(interval, eval_cost, checkpoint_cost)

    carrying = {i for i, causes in records.causes.items() if causes not in (("stall",), ("periodic",))}
    stalled = {i for i, causes in records.causes.items() if causes == ("stall",)}
    normal = _without(records.measured, carrying)
    steady = _without(normal, stalled)
    slow = tuple(
        SlowRecord(steps[index], times[index], records.extra_s[index], causes)
        for index, causes in records.causes.items()
    )
    normal_s = _picked(times, normal)
    normal_step = _normal_step(run, normal, normal_s, records, tokens_per_step)
    timing = Timing(
        log_interval=interval,
        eval_cost_s=eval_cost if eval_cost is not None else _evaluation_cost(slow),
        checkpoint_cost_s=checkpoint_cost if checkpoint_cost is not None else _checkpoint_cost(slow),
        normal_step=normal_step,
        slow_steps=slow,
        slow_groups=_groups(slow, normal_step),
        hidden=_hidden(run, records, interval, eval_interval),
        normal_s=normal_s,
        steady_s=_picked(times, steady) if stalled else normal_s,
        steady_steps=array("q", (steps_covered(run, index) for index in steady)) if run.time_spans_steps else None,
        last_printed_s=times[records.measured[-1]],
    )
    phase_costs, run_s = _phase_costs(run, timing)
    return replace(timing, phase_costs=phase_costs, run_s=run_s)


def _without(indices: Sequence[int], others: set[int]) -> Sequence[int]:
    """The indices that are not among the others (all of them, rather than none)."""
    return array("q", (index for index in indices if index not in others)) or indices if others else indices


def _picked(values: "array[float]", indices: Sequence[int]) -> "array[float]":
    return values if len(indices) == len(values) else array("d", (values[index] for index in indices))


def _normal_step(
    run: Run, normal: Sequence[int], values: Sequence[float], records: SlowRecords, tokens_per_step: int | None
) -> NormalStep:
    weights = [steps_covered(run, index) for index in normal] if run.time_spans_steps else None
    typical = median(values)
    first, last, trend, slowing = _trend(values)
    slowing = slowing and trend is not None and not _has_more_to_do(run, normal, trend)
    tok_s = array("d", (speed for index in normal if (speed := run.steps.tok_s[index]) == speed))
    throughput = median(tok_s) if tok_s else None
    if throughput is None and tokens_per_step:
        throughput = tokens_per_step / typical
    lands = records.evaluation_lands
    return NormalStep(
        typical_s=typical,
        low_s=percentile(values, 5),
        high_s=percentile(values, 95),
        mean_s=mean(values, weights),
        steps=len(values),
        trend_share=trend,
        first_third_s=first,
        last_third_s=last,
        slowing_down=slowing,
        jittery=records.jittery,
        clock_resolution_s=records.clock_resolution_s,
        includes_evaluation=None if run.traits.evaluation_in is None and lands is None else lands is not None,
        source=run.time_source,
        throughput_tok_s=throughput,
    )


def _trend(values: Sequence[float]) -> tuple[float | None, float | None, float | None, bool]:
    """Typical time of the first and last third, the change, and whether the run slows down beyond its noise."""
    third = len(values) // 3
    if third < 4:
        return None, None, None, False
    begin, end = values[:third], values[-third:]
    first, last = median(begin), median(end)
    change = last / first - 1
    beyond_noise = last > percentile(begin, 80) and percentile(end, 25) > first
    return first, last, change, change >= SLOWING_DOWN and beyond_noise


def _has_more_to_do(run: Run, normal: Sequence[int], change: float) -> bool:
    """Whether later steps take longer because batch or window grow by design."""
    speeds, times = run.steps.tok_s, run.steps.time_s
    tokens = [speeds[index] * times[index] for index in normal if speeds[index] > 0]  # in each step
    third = len(tokens) // 3
    grown = median(tokens[-third:]) / median(tokens[:third]) - 1 if third else 0.0
    return bool(run.config.get("window_grows")) or grown > 0.8 * change


# --- costs ---


def _later(slow: tuple[SlowRecord, ...]) -> list[SlowRecord]:
    """Without the first steps after a start, which hold more than an evaluation."""
    return [s for s in slow if "startup" not in s.causes and "resume" not in s.causes]


def _evaluation_cost(slow: tuple[SlowRecord, ...]) -> float | None:
    extras = [s.extra_s for s in _later(slow) if "evaluation" in s.causes]
    return median(extras) if extras else None


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


def _printed_costs(run: Run) -> tuple[float | None, float | None]:
    evals = [e.seconds for e in run.evals if e.seconds is not None]
    saves = [c.seconds for c in run.checkpoints if c.seconds is not None]
    return (median(evals) if evals else None), (median(saves) if saves else None)


def _groups(slow: tuple[SlowRecord, ...], normal: NormalStep) -> tuple[SlowGroup, ...]:
    by_causes: dict[tuple[Cause, ...], list[SlowRecord]] = {}
    for step in slow:
        by_causes.setdefault(step.causes, []).append(step)
    groups = []
    for causes, members in by_causes.items():
        extras = [member.extra_s for member in members]
        gap = common_gap(member.step for member in members) if len(members) > 2 else None
        typical = median([member.time_s for member in members])
        groups.append(
            SlowGroup(
                causes=causes,
                count=len(members),
                first_step=members[0].step,
                period_steps=gap if causes != ("stall",) else None,
                typical_s=typical,
                extra_total_s=sum(extras),
                times_slower=typical / normal.typical_s,
            )
        )
    return tuple(sorted(groups, key=lambda group: -group.extra_total_s))


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
    counts = {"evaluation": len(run.evals), "checkpoint": len(run.checkpoints), "startup": 1, "sample": run.samples}
    if run.phases:
        spent = {phase: run.phases.get("eval" if phase == "evaluation" else phase, 0.0) for phase in counts}
    else:
        spent = _spent(run, timing)
    whole = run.wall_seconds
    if whole is None and timing.normal_step:
        steps = run.steps.step
        whole = (steps[-1] - steps[0] + 1) * timing.normal_step.mean_s + sum(spent.values())
        whole += sum(s.extra_s for s in timing.slow_steps if "resume" in s.causes)
        if any(s.causes == ("evaluation", "checkpoint") for s in timing.slow_steps):
            whole -= spent["checkpoint"]  # it is in the evaluations' time as well
    costs = [
        PhaseCost(phase, counts[phase], total / counts[phase], total, min(1.0, total / whole))  # type: ignore[arg-type]
        for phase, total in spent.items()
        if whole and total > 0 and counts[phase]
    ]
    return tuple(sorted(costs, key=lambda cost: -cost.total_s)), whole


def _spent(run: Run, timing: Timing) -> dict[str, float]:
    """Seconds by phase, from what the slow steps took more than the others."""
    spent = {
        "evaluation": len(run.evals) * (timing.eval_cost_s or 0.0),
        "checkpoint": len(run.checkpoints) * (timing.checkpoint_cost_s or 0.0),
        "startup": 0.0,
    }
    starts = [s for s in timing.slow_steps if "startup" in s.causes]
    if starts and timing.normal_step:
        shared = timing.eval_cost_s if "evaluation" in starts[0].causes and timing.eval_cost_s else 0.0
        startup = sum(s.extra_s for s in starts) - shared
        spent["startup"] = startup if startup > timing.normal_step.typical_s / 4 else 0.0
    return spent
