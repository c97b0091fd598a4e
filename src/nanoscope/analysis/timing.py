"""Step times: what is normal, which steps are slow, and why, from the evidence in the log.

A step is slow when it stands out of the run's own spread around its own slowly moving median, and by more than a small
share of a step: neither a fixed ratio nor a fixed number of sigmas alone tells a stall from a noisy machine.
"""

from dataclasses import dataclass

import numpy as np

from nanoscope.analysis.findings import Cause, HiddenEvaluations, NormalStep, PhaseCost, SlowGroup, SlowStep
from nanoscope.analysis.numbers import Bools, Floats, Ints, common_gap, robust_sigma, slow_baseline
from nanoscope.runs.run import Run

STANDS_OUT_SHARE = 0.3  # of a normal step, for a slow step that nothing in the log explains
STANDS_OUT_SIGMAS = 6.0
EXPLAINED_SHARE = 0.15  # where the log itself says that there was more work
EXPLAINED_SIGMAS = 4.0
STARTUP_SHARE = 0.25
JITTER_SHARE = 0.05  # more unexplained slow steps than this are the run's own spread
SLOWING_DOWN = 0.10
WINDOWS_TICK_S = 1 / 64  # the default clock of Windows moves in steps of 15.6 ms


@dataclass(eq=False, repr=False)
class Timing:
    """The findings about time, and the arrays that the other analyses build on."""

    steps: Ints
    times: Floats  # NaN: not measured
    normal: Bools  # carries no start-up, evaluation, checkpoint or resumption
    stalled: Bools  # slow without a cause, one by one
    normal_step: NormalStep | None
    slow_steps: tuple[SlowStep, ...]
    slow_groups: tuple[SlowGroup, ...]
    phase_costs: tuple[PhaseCost, ...]
    hidden: HiddenEvaluations | None
    log_interval: int | None
    eval_cost_s: float | None
    checkpoint_cost_s: float | None


def analyse_timing(run: Run, eval_interval: int | None, tokens_per_step: int | None) -> Timing:
    """Everything about the step times of a run."""
    steps = np.array(run.steps.step, dtype=np.int64)
    times = np.array(run.steps.time_s, dtype=np.float64)
    interval = common_gap(steps)
    measured = np.isfinite(times)
    nothing = np.zeros(len(steps), dtype=bool)
    eval_cost, checkpoint_cost = _printed_costs(run)
    if not measured.any():
        return Timing(steps, times, nothing, nothing, None, (), (), (), None, interval, eval_cost, checkpoint_cost)

    lands = _evaluation_lands(run, steps, times)
    evaluated = _records_of(steps, [e.step for e in run.evals], lands)
    saved = _records_of(steps, [c.step for c in run.checkpoints], lands or _free_checkpoints(run))
    begins = _begins_at_start(run, steps, interval)
    first = np.zeros(len(steps), dtype=bool)
    opening = int(np.flatnonzero(measured)[0])  # a clock that is differenced has no time for the very first line
    first[opening] = begins and steps[opening] <= steps[0] + 1
    resumed = np.isin(steps, run.resumed_at)

    plain = measured & ~evaluated & ~first & ~resumed
    if plain.sum() < 3:
        plain = measured & ~first if (measured & ~first).any() else measured
    base, sigma = _around(times, plain)
    share = times / base - 1
    sigma_share = np.maximum(sigma / base, robust_sigma(share[plain]))
    if run.clock_resolution_s:
        sigma_share = np.maximum(sigma_share, run.clock_resolution_s / (_covered(run, steps) * base) / 2)
    explained = measured & (share > np.maximum(EXPLAINED_SHARE, EXPLAINED_SIGMAS * sigma_share))
    unexplained = measured & (share > np.maximum(STANDS_OUT_SHARE, STANDS_OUT_SIGMAS * sigma_share))

    causes: dict[int, list[Cause]] = {}
    for index in np.flatnonzero(explained & first & (share > STARTUP_SHARE)):
        causes[int(index)] = ["resume" if run.begins_with_resume else "startup"]
    for index in np.flatnonzero(explained & resumed):
        causes.setdefault(int(index), []).append("resume")
    for index in np.flatnonzero(explained & evaluated):
        causes.setdefault(int(index), []).append("evaluation")
    if _mostly(explained, saved & ~evaluated & ~first) or lands:
        for index in np.flatnonzero(explained & saved):
            causes.setdefault(int(index), []).append("checkpoint")
    _extend_startup(causes, unexplained, measured)

    left = np.array([int(i) for i in np.flatnonzero(unexplained) if int(i) not in causes], dtype=np.int64)
    regular = _periodic(left, steps, interval)
    stray = left[~regular]
    jittery = len(stray) > max(3, JITTER_SHARE * measured.sum())
    if jittery:  # such steps are this run's own spread; only what stands out even of that is a stall
        limit = 3 * np.percentile(share[plain], 95)
        stray = stray[share[stray] > limit]
    for index in left[regular]:
        causes[int(index)] = ["periodic"]
    for index in stray:
        causes[int(index)] = ["stall"]

    carries = np.zeros(len(steps), dtype=bool)
    stalled = np.zeros(len(steps), dtype=bool)
    for at, why in causes.items():
        if why == ["stall"]:
            stalled[at] = True
        elif why != ["periodic"]:
            carries[at] = True
    normal = measured & ~carries
    if not normal.any():
        normal = measured

    covered = _covered(run, steps)
    slow = tuple(
        SlowStep(int(steps[i]), float(times[i]), float((times[i] - base[i]) * covered[i]), tuple(causes[i]))
        for i in sorted(causes)
    )
    normal_step = _normal_step(run, steps, times, normal, jittery, lands, tokens_per_step)
    if eval_cost is None:
        eval_cost = _typical_extra(slow, "evaluation")
    if checkpoint_cost is None:
        checkpoint_cost = _checkpoint_cost(slow, run)
    timing = Timing(
        steps,
        times,
        normal,
        stalled,
        normal_step,
        slow,
        _groups(slow, normal_step),
        (),
        _hidden(run, lands, steps, interval, eval_interval),
        interval,
        eval_cost,
        checkpoint_cost,
    )
    return Timing(**{**timing.__dict__, "phase_costs": _phase_costs(run, timing)})


# --- which record holds what ----------------------------------------------------------------------------------


def _evaluation_lands(run: Run, steps: Ints, times: Floats) -> str | None:
    """Where the time of an evaluation shows: 'same' record, the 'next', or nowhere (None)."""
    declared = run.traits.evaluation_in
    if declared is not None:
        return None if declared == "none" else declared
    eval_steps = [e.step for e in run.evals]
    typical = float(np.nanmedian(times))
    for place in ("same", "next"):
        records = _records_of(steps, eval_steps, place)
        records[:1] = False
        found = times[records & np.isfinite(times)]
        if len(found) >= 2 and float(np.median(found)) > 1.3 * typical and float(np.min(found)) > 1.1 * typical:
            return place
    return None


def _records_of(steps: Ints, events: list[int], lands: str | None) -> Bools:
    """The records whose time holds events that happened at the given steps."""
    marked = np.zeros(len(steps), dtype=bool)
    if lands is None or not events:
        return marked
    if lands == "same":
        return np.asarray(np.isin(steps, events), dtype=bool)
    index = np.searchsorted(steps, np.array(events), side="right")
    marked[index[index < len(steps)]] = True
    return marked


def _free_checkpoints(run: Run) -> str | None:
    """Where checkpoints show in formats that leave evaluations out of the time or do not say."""
    return "next" if run.traits.evaluation_in is None or run.time_spans_steps else None


def _begins_at_start(run: Run, steps: Ints, interval: int | None) -> bool:
    return bool(steps[0] <= 1 or run.begins_with_resume or (run.time_spans_steps and steps[0] <= (interval or 1)))


def _around(times: Floats, plain: Bools) -> tuple[Floats, Floats]:
    """Baseline and sigma for every record, from the plain ones around it."""
    base, sigma = slow_baseline(times[plain])
    positions = np.flatnonzero(plain)
    everywhere = np.arange(len(times))
    return np.interp(everywhere, positions, base), np.interp(everywhere, positions, sigma)


def _covered(run: Run, steps: Ints) -> Ints:
    """How many steps a record's time is the mean of."""
    if not run.time_spans_steps:
        return np.ones(len(steps), dtype=np.int64)
    return np.maximum(np.diff(steps, prepend=0 if steps[0] <= 100 else steps[0] - 1), 1)


def _mostly(slow: Bools, marked: Bools) -> bool:
    return bool(marked.sum() >= 1 and slow[marked].mean() > 0.5)


def _extend_startup(causes: dict[int, list[Cause]], slow: Bools, measured: Bools) -> None:
    """Compilation may take the first few steps: those that follow a slow first one without a gap."""
    order = np.flatnonzero(measured)
    if len(order) and causes.get(int(order[0]), [])[:1] in (["startup"], ["resume"]):
        for index in order[1:10]:
            if not slow[index] or int(index) in causes:
                break
            causes[int(index)] = list(causes[int(order[0])][:1])


def _periodic(candidates: Ints, steps: Ints, interval: int | None) -> Bools:
    """Which of the unexplained slow records come back at a regular distance."""
    chosen = steps[candidates]
    none = np.zeros(len(candidates), dtype=bool)
    if len(candidates) < 4:
        return none
    period = common_gap(chosen)
    if period and period > (interval or 1):
        remainders, counts = np.unique(chosen % period, return_counts=True)
        members = chosen % period == remainders[int(np.argmax(counts))]
        span = steps[(steps >= chosen[members][0]) & (steps <= chosen[members][-1])]
        due = int((span % period == chosen[members][0] % period).sum())
        if members.sum() >= max(4, 0.5 * len(chosen)) and members.sum() >= 0.7 * due:
            return np.asarray(members, dtype=bool)
    # Not on a grid, but with the same distance again and again (data shards of equal size).
    best = none
    sample = chosen[:40]
    distances = {int(b - a) for i, a in enumerate(sample) for b in sample[i + 1 : i + 7]}
    span = float(steps[-1] - steps[0]) / (interval or 1)
    for distance in sorted(d for d in distances if d > 3 * (interval or 1))[:200]:
        slack = max(interval or 1, 0.02 * distance)
        if len(chosen) * (2 * slack / (interval or 1) + 1) > 0.2 * span:
            break  # so many slow steps have neighbours at any distance by mere chance
        earlier = _has_near(chosen, chosen - distance, slack)
        later = _has_near(chosen, chosen + distance, slack)
        if (earlier & later).any() and (earlier | later).sum() > best.sum():
            best = earlier | later
    return best if best.mean() >= 0.8 else none


def _has_near(steps: Ints, wanted: Ints, slack: float) -> Bools:
    """For each wanted step, whether one of `steps` (sorted) is within `slack` of it."""
    right = np.clip(np.searchsorted(steps, wanted), 0, len(steps) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.minimum(np.abs(steps[right] - wanted), np.abs(steps[left] - wanted))
    return np.asarray(nearest <= slack, dtype=bool)


# --- findings -------------------------------------------------------------------------------------------------


def _normal_step(
    run: Run,
    steps: Ints,
    times: Floats,
    normal: Bools,
    jittery: bool,
    lands: str | None,
    tokens_per_step: int | None,
) -> NormalStep:
    values = times[normal]
    weights = np.ones(len(values))
    if run.time_spans_steps:
        weights = _covered(run, steps)[normal].astype(np.float64)
    typical = float(np.median(values))
    first, last, trend, slowing = _trend(values)
    tok_s = np.array(run.steps.tok_s, dtype=np.float64)[normal]
    tok_s = tok_s[np.isfinite(tok_s)]
    throughput = float(np.median(tok_s)) if len(tok_s) else None
    if throughput is None and tokens_per_step:
        throughput = tokens_per_step / typical
    return NormalStep(
        typical_s=typical,
        low_s=float(np.percentile(values, 5)),
        high_s=float(np.percentile(values, 95)),
        mean_s=float(np.average(values, weights=weights)),
        steps=len(values),
        trend_share=trend,
        first_third_s=first,
        last_third_s=last,
        slowing_down=slowing,
        jittery=jittery,
        clock_resolution_s=run.clock_resolution_s or _tick(values),
        includes_evaluation=None if run.traits.evaluation_in is None and lands is None else lands is not None,
        source=run.time_source,
        throughput_tok_s=throughput,
    )


def _trend(values: Floats) -> tuple[float | None, float | None, float | None, bool]:
    """Typical time of the first and last third, the change, and whether the run slows down beyond its noise."""
    third = len(values) // 3
    if third < 4:
        return None, None, None, False
    begin, end = values[:third], values[-third:]
    first, last = float(np.median(begin)), float(np.median(end))
    change = last / first - 1
    beyond_noise = last > float(np.percentile(begin, 80)) and float(np.percentile(end, 25)) > first
    return first, last, change, bool(change >= SLOWING_DOWN and beyond_noise)


def _tick(values: Floats) -> float | None:
    """The step of a coarse clock, if the times sit on its multiples."""
    if len(values) < 20 or float(np.median(values)) > 10 * WINDOWS_TICK_S:
        return None
    off = np.abs(values / WINDOWS_TICK_S - np.round(values / WINDOWS_TICK_S))
    on_tick = (off < 0.02) & (values > WINDOWS_TICK_S / 2)
    return WINDOWS_TICK_S if on_tick.mean() > 0.3 else None


def _typical_extra(slow: tuple[SlowStep, ...], cause: Cause) -> float | None:
    extras = [s.extra_s for s in slow if cause in s.causes and "startup" not in s.causes and "resume" not in s.causes]
    return float(np.median(extras)) if extras else None


def _printed_costs(run: Run) -> tuple[float | None, float | None]:
    evals = [e.seconds for e in run.evals if e.seconds is not None]
    saves = [c.seconds for c in run.checkpoints if c.seconds is not None]
    return (float(np.median(evals)) if evals else None), (float(np.median(saves)) if saves else None)


def _checkpoint_cost(slow: tuple[SlowStep, ...], run: Run) -> float | None:
    """What a checkpoint adds, where some evaluations saved one and some did not (or saves stand alone)."""
    later = [s for s in slow if "startup" not in s.causes and "resume" not in s.causes]
    alone = [s.extra_s for s in later if s.causes == ("checkpoint",)]
    if alone:
        return float(np.median(alone))
    both = np.array([s.extra_s for s in later if s.causes == ("evaluation", "checkpoint")])
    evals = np.array([s.extra_s for s in later if s.causes == ("evaluation",)])
    if len(both) < 3 or len(evals) < 3:
        return None
    difference = float(np.median(both) - np.median(evals))
    return difference if difference > robust_sigma(both) + robust_sigma(evals) else None


def _groups(slow: tuple[SlowStep, ...], normal: NormalStep) -> tuple[SlowGroup, ...]:
    by_causes: dict[tuple[Cause, ...], list[SlowStep]] = {}
    for step in slow:
        by_causes.setdefault(step.causes, []).append(step)
    groups = []
    for causes, members in by_causes.items():
        extras = np.array([m.extra_s for m in members])
        gap = common_gap([m.step for m in members]) if len(members) > 2 else None
        typical = float(np.median([m.time_s for m in members]))
        groups.append(
            SlowGroup(
                causes=causes,
                count=len(members),
                first_step=members[0].step,
                last_step=members[-1].step,
                period_steps=gap if causes != ("stall",) else None,
                typical_s=typical,
                extra_each_s=float(np.median(extras)),
                extra_total_s=float(extras.sum()),
                times_slower=typical / normal.typical_s,
            )
        )
    return tuple(sorted(groups, key=lambda group: -group.extra_total_s))


def _hidden(
    run: Run, lands: str | None, steps: Ints, interval: int | None, eval_interval: int | None
) -> HiddenEvaluations | None:
    if lands != "same" or not interval or not eval_interval or len(steps) < 3:
        return None
    inside = [e.step for e in run.evals if steps[0] <= e.step <= steps[-1]]
    hidden = int((~np.isin(inside, steps)).sum())
    if hidden < 2 or eval_interval % interval == 0:
        return None
    return HiddenEvaluations(hidden, len(inside), interval, eval_interval)


def run_seconds(timing: Timing, run: Run) -> float | None:
    """The run's time over the steps of the log, as far as the log shows it."""
    normal = timing.normal_step
    if run.wall_seconds is not None:
        return run.wall_seconds
    if normal is None:
        return None
    seconds = float(timing.steps[-1] - timing.steps[0] + 1) * normal.mean_s
    seconds += sum(s.extra_s for s in timing.slow_steps if "startup" in s.causes or "resume" in s.causes)
    if timing.eval_cost_s is not None:
        later = sum(1 for e in run.evals if e.step > timing.steps[0])
        seconds += later * timing.eval_cost_s
    return seconds


def _phase_costs(run: Run, timing: Timing) -> tuple[PhaseCost, ...]:
    """What evaluation, checkpoints and start-up took, as time and share."""
    whole = run_seconds(timing, run)
    if not whole:
        return ()
    costs: list[PhaseCost] = []

    def add(phase: str, count: int, each: float | None) -> None:
        if each is not None and count and each > 0:
            total = each * count
            costs.append(PhaseCost(phase, count, each, total, min(1.0, total / whole)))  # type: ignore[arg-type]

    add("evaluation", len(run.evals), timing.eval_cost_s)
    add("checkpoint", len(run.checkpoints), timing.checkpoint_cost_s)
    starts = [s for s in timing.slow_steps if "startup" in s.causes]
    if starts:
        shared = timing.eval_cost_s if "evaluation" in starts[0].causes and timing.eval_cost_s else 0.0
        startup = sum(s.extra_s for s in starts) - shared
        add("startup", 1, startup if timing.normal_step and startup > timing.normal_step.typical_s / 4 else None)
    if run.phases.get("sample"):
        add("sample", 1, run.phases["sample"])
    return tuple(sorted(costs, key=lambda cost: -cost.total_s))
