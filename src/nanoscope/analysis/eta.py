"""The time that is left: steps × mean step + the evaluations and checkpoints still to come."""

from collections.abc import Sequence
from typing import Literal

from nanoscope.analysis.findings import Eta, NoEta, RunProgress, Scenario
from nanoscope.analysis.numbers import mean
from nanoscope.analysis.progress import last_step_of
from nanoscope.analysis.timing import Timing
from nanoscope.estimates import multiples_between, percentile, time_left
from nanoscope.runs.run import Run

DRIFT = 0.10  # beyond this change over the run, only its last third tells how fast it is now
MOVING_AVERAGE_LINES = 20
ROUND_STEPS_S = (1, 1.5, 2, 3, 5, 7.5)  # for the scenarios: times of a step that are easy to say


def analyse_eta(run: Run, progress: RunProgress, timing: Timing, eval_interval: int | None) -> Eta | NoEta:
    """The time left, or why there is none."""
    normal = timing.normal_step
    if progress.finished:
        step_s = normal.mean_s if normal else 0.0
        return Eta(0.0, 0.0, 0.0, 0.0, 0, step_s, 0, None, 0, None, step_s, 0, "steady", ())
    if normal is None:
        return NoEta("no_times", None)
    step_s = _mean_now(timing)
    if progress.total_steps is None or progress.steps_left is None or progress.last_step is None:
        return NoEta("total_unknown", step_s)
    left = progress.steps_left
    evals_left = multiples_between(progress.last_step, last_step_of(run, progress.total_steps), eval_interval)
    cost = timing.eval_cost_s
    saves_left, save_cost = _checkpoints_left(run, progress, timing)
    extras = [(evals_left, cost), (saves_left, save_cost)]
    expected = time_left(left, step_s, extras)
    quick = min(normal.typical_s, step_s, percentile(timing.normal_s, 25))
    slow = max(normal.mean_s, step_s, normal.typical_s, percentile(timing.normal_s, 75))
    average, lines, direction = _moving_average(timing.steady_s)
    return Eta(
        expected_s=expected,
        low_s=min(time_left(left, quick, extras), expected * 0.98),
        high_s=max(left * slow + time_left(0, 0.0, extras) * 1.1, expected * 1.02),
        naive_s=left * (timing.last_printed_s or step_s),
        steps_left=left,
        step_s=step_s,
        evals_left=evals_left,
        eval_each_s=cost,
        checkpoints_left=saves_left,
        checkpoint_each_s=save_cost,
        moving_average_s=average,
        moving_average_lines=lines,
        direction=direction,
        scenarios=_scenarios(left, step_s),
    )


def _mean_now(timing: Timing) -> float:
    """The mean normal step; of the last third where the run has drifted; one-off stalls are not extrapolated."""
    values, weights = timing.steady_s, timing.steady_steps
    trend = timing.normal_step.trend_share if timing.normal_step else None
    if trend is not None and abs(trend) >= DRIFT:
        third = max(1, len(values) // 3)
        values, weights = values[-third:], weights[-third:] if weights else None
    return mean(values, weights)


def _checkpoints_left(run: Run, progress: RunProgress, timing: Timing) -> tuple[int, float | None]:
    """Checkpoints to come whose cost is not already in the evaluations'."""
    eval_steps = {e.step for e in run.evals}
    own = [c.step for c in run.checkpoints if c.step not in eval_steps]
    printed = any(c.seconds is not None for c in run.checkpoints)
    if timing.checkpoint_cost_s is None or not (own or printed) or progress.steps_left is None:
        return 0, None
    # The one that an interrupted run writes last does not come again.
    steps = [c.step for c in run.checkpoints if not (run.failed and c.step == progress.last_step)]
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
