"""The time that is left: steps × mean step + the evaluations and checkpoints still to come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nanoscope.analysis.findings import Eta, NoEta, RunProgress, Scenario
from nanoscope.analysis.numbers import mean
from nanoscope.analysis.pace import measure_pace
from nanoscope.analysis.progress import last_step_of, total_of
from nanoscope.analysis.timing import Timing
from nanoscope.estimates import multiples_between
from nanoscope.runs.run import Run

if TYPE_CHECKING:  # explaining a log needs no events
    from nanoscope.runs.events import Forecast

MOVING_AVERAGE_LINES = 20
COST_MAY_VARY = 0.1  # of an evaluation or a checkpoint
FORECAST_LOW, FORECAST_HIGH = 0.7, 1.5  # times what a run foresees for an evaluation that it has not done yet
EVALUATION_SHARE, LEAST_SHARE = 0.6, 0.2  # of a first step's extra time that an evaluation took
PRINTED_MAY_VARY = 0.1  # a trainer's own estimate, which comes without a range
ROUND_STEPS_S = (1, 1.5, 2, 3, 5, 7.5)  # for the scenarios: times of a step that are easy to say


def analyse_eta(run: Run, progress: RunProgress, timing: Timing) -> Eta | NoEta:
    """The time left, or why there is none."""
    normal, eval_interval = timing.normal_step, timing.eval_interval
    if normal is None:
        return NoEta("no_normal_step" if timing.no_normal_step else "no_times", None)
    if progress.finished:
        step_s = normal.mean_s
        return Eta(0.0, 0.0, 0.0, 0.0, 0, step_s, 0, None, 0, None, step_s, 0, "steady", ())
    if progress.total_steps is None or progress.steps_left is None or progress.last_step is None:
        step_s = measure_pace(timing.steady_s, timing.steady_steps, 1.0).step_s
        cost = timing.eval_cost_s if eval_interval else None
        evals = 1000 // eval_interval if cost and eval_interval else 0
        return NoEta("total_unknown", step_s, evals, cost) if run.unit == "step" else NoEta("total_unknown", None)
    left = progress.steps_left
    covered = max(1, run.steps.step[-1] - run.steps.step[0])
    pace = measure_pace(timing.steady_s, timing.steady_steps, left / covered)
    evaluations = _evaluations_left(run, progress, timing)
    saves_left, save_cost = _checkpoints_left(run, progress, timing)
    if save_cost is None and (forecast := _forecast(run)) is not None and not any(e.step for e in run.evals):
        saves_left, save_cost = evaluations.count, forecast.checkpoint_seconds  # early on most evaluations are saved
    saves_s = saves_left * (save_cost or 0.0)
    expected = left * pace.step_s + evaluations.expected_s + saves_s
    low = left * pace.low_s + evaluations.low_s + saves_s * (1 - COST_MAY_VARY)
    high = left * pace.high_s + evaluations.high_s + saves_s * (1 + COST_MAY_VARY) + _stalls_s(timing, left / covered)
    if (share := _share_before_limit(run, progress, expected)) < 1:
        left, evaluations.count, saves_left = (int(share * n) for n in (left, evaluations.count, saves_left))
        expected, low, high = share * expected, share * low, share * expected
    average, lines, direction = _moving_average(timing.steady_s)
    printed = _printed(run, progress, timing.log_interval or 1)
    return Eta(
        expected_s=expected,
        low_s=low,
        high_s=high,
        naive_s=left * (timing.last_printed_s or pace.step_s),
        steps_left=left,
        step_s=pace.step_s,
        evals_left=evaluations.count,
        eval_each_s=evaluations.each_s,
        checkpoints_left=saves_left,
        checkpoint_each_s=save_cost,
        moving_average_s=average,
        moving_average_lines=lines,
        direction=direction,
        scenarios=_scenarios(left, pace.step_s),
        evaluations=evaluations.known,
        drift=pace.drift,
        printed_s=printed,
        printed_disagrees=printed is not None and not _within(printed, low, high),
        unit=run.unit,
    )


@dataclass(eq=False, repr=False)
class _EvaluationsLeft:
    """The evaluations to come: how many, what they cost, and what that rests on."""

    known: Literal["known", "forecast", "likely", "left_out", "none"]
    count: int = 0
    each_s: float | None = None
    low_s: float = 0.0
    high_s: float = 0.0

    @property
    def expected_s(self) -> float:
        return self.count * (self.each_s or 0.0)


def _evaluations_left(run: Run, progress: RunProgress, timing: Timing) -> _EvaluationsLeft:
    last, total = progress.last_step or 0, progress.total_steps or 0
    end = last_step_of(run, total)
    cost, first, interval = timing.eval_cost_s, timing.first_extra_s, timing.eval_interval
    seen = timing.evaluations
    forecast = _forecast(run)
    if not seen and forecast is not None and forecast.eval_seconds and (every := _set_interval(run, last)):
        count, each = multiples_between(last, end, every) + (end % every > 0), forecast.eval_seconds
        return _EvaluationsLeft("forecast", count, each, FORECAST_LOW * count * each, FORECAST_HIGH * count * each)
    if (cost is None and first is None) or not seen:
        return _EvaluationsLeft("none", multiples_between(last, end, interval))
    every = interval or _set_interval(run, last)
    if every is None:  # how often they come is not known: their cost is only in the upper end of the range
        often = multiples_between(last, end, _next_round(max(last, 1)))
        return _EvaluationsLeft("left_out", high_s=often * (cost if cost is not None else first or 0.0))
    count = multiples_between(last, end, every)
    final = 1 if run.traits.evaluates_last and end % every else 0
    count += final
    if cost is not None:
        vary = COST_MAY_VARY if seen > 2 else 2 * COST_MAY_VARY
        low = (count - final) * cost * (1 - vary)  # the last one is a habit of the trainer, which the log need not show
        return _EvaluationsLeft("known", count, cost, low, count * cost * (1 + vary))
    # Of the first step's extra time, an unknown part was start-up.
    assert first is not None
    each = first * EVALUATION_SHARE
    return _EvaluationsLeft("likely", count, each, (count - final) * each * LEAST_SHARE, count * first)


def _forecast(run: Run) -> "Forecast | None":
    return run.details.forecast if run.details else None


def _share_before_limit(run: Run, progress: RunProgress, expected: float) -> float:
    """How much of the rest comes before max_minutes are over. The trainer's own estimate knows when that is."""
    minutes, own = run.config.get("max_minutes"), run.details.eta_seconds if run.details else ()
    limited = isinstance(minutes, int | float) and minutes > 0 and not run.failed
    return own[-1] / expected if limited and own and progress.total_steps == total_of(run) else 1.0


def _set_interval(run: Run, last: int) -> int | None:
    """The interval that the settings give, or the one in the trainer's script, if the log does not refute it."""
    for key in ("eval_interval", "eval_every", "eval_steps", "val_every", "val_loss_every"):
        value = run.config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    usual = run.traits.evaluates_every
    if usual is None or not run.evals or run.evals[-1].step % usual:
        return None
    return usual if last < run.evals[-1].step + usual else None


def _next_round(step: int) -> int:
    """The next of 10, 20, 25, 50, 100, … after a step: evaluations that have not come by now may come from there on."""
    size = 10
    while True:
        for interval in (size, 2 * size, 5 * size // 2, 5 * size):
            if interval > step:
                return interval
        size *= 10


def _stalls_s(timing: Timing, ahead: float) -> float:
    """What stalls may add if they go on as before. One is not a habit."""
    stalls = [slow.extra_s for slow in timing.slow_steps if slow.causes == ("stall",)]
    return sum(stalls) * ahead if len(stalls) > 1 else max(stalls, default=0.0) * min(1.0, ahead)


def _printed(run: Run, progress: RunProgress, log_interval: int) -> float | None:
    """The time left that the trainer printed with its last lines, if it is the time to the same end."""
    series = run.series.get("eta_s")
    if series is None or not series.values or progress.total_steps != total_of(run):
        return None
    return series.values[-1] if series.steps[-1] >= run.steps.step[-1] - 2 * log_interval else None


def _checkpoints_left(run: Run, progress: RunProgress, timing: Timing) -> tuple[int, float | None]:
    """Checkpoints to come whose cost is not already in the evaluations'."""
    eval_steps = {e.step for e in run.evals}
    own = [c.step for c in run.checkpoints if c.step not in eval_steps]
    printed = any(c.seconds is not None for c in run.checkpoints)
    if timing.checkpoint_cost_s is None or not (own or printed) or progress.steps_left is None:
        return 0, None
    # The one that an interrupted run writes last does not come again.
    steps = [c.step for c in run.checkpoints if c.step and not (run.failed and c.step == progress.last_step)]
    if not steps:
        return 0, None
    done = steps[-1] - steps[0]
    every = done / (len(steps) - 1) if len(steps) > 1 and done > 0 else max(steps[-1], 1)
    return int(progress.steps_left // every), timing.checkpoint_cost_s


def _moving_average(values: Sequence[float]) -> tuple[float, int, Literal["faster", "slower", "steady"]]:
    lines = min(MOVING_AVERAGE_LINES, max(1, len(values) // 2))
    now, before = mean(values[-lines:]), values[-2 * lines : -lines]
    if len(before) < 3:
        return now, lines, "steady"
    level = mean(before)
    noise = mean([(value - level) ** 2 for value in before]) ** 0.5 / level / lines**0.5
    change = now / level - 1
    if abs(change) < max(0.02, 2 * noise):
        return now, lines, "steady"
    return now, lines, "slower" if change > 0 else "faster"


def _within(printed: float, low: float, high: float) -> bool:
    return low * (1 - PRINTED_MAY_VARY) <= printed <= high * (1 + PRINTED_MAY_VARY)


def _scenarios(left: int, step_s: float) -> tuple[Scenario, ...]:
    """What the rest would take at round step times below the present one, down to a thirtieth of it."""
    choices = sorted(
        {
            m * 10.0**power
            for power in range(-4, 4)
            for m in ROUND_STEPS_S
            if step_s / 30 <= m * 10.0**power < 0.8 * step_s
        }
    )
    picked = [choices[0], choices[len(choices) // 2], choices[-1]] if len(choices) > 2 else choices
    return tuple(Scenario(s, s * left) for s in reversed(picked))


def scenario(eta: Eta, step_s: float) -> Scenario:
    """The time left if a step took `step_s`."""
    return Scenario(step_s, step_s * eta.steps_left)
