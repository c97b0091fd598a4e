"""When a run was at a step, by its own log alone."""

from nanoscope.findings.analyse import Analysis
from nanoscope.runs.run import Run


def wall_seconds(run: Run, analysis: Analysis) -> float | None:
    """The time of the whole run: as the trainer measured it, else its steps and what came between them.

    None if the log does not begin with the run, or has no times.
    """
    if run.wall_seconds is not None:
        return run.wall_seconds
    if analysis.timing is None or analysis.summary.begins_mid_run or analysis.progress.last_step is None:
        return None
    return analysis.progress.last_step * analysis.timing.mean_s + sum(cost.total_s for cost in analysis.phase_costs)


def seconds_at(step: float, run: Run, analysis: Analysis) -> float | None:
    """Seconds from the start of the run to a step: start-up, steps and evaluations, scaled to the run's wall time."""
    normal = analysis.timing
    if normal is None or analysis.summary.begins_mid_run:
        return None
    startup = sum(cost.total_s for cost in analysis.phase_costs if cost.phase == "startup")
    each = (analysis.evals.cost_s if analysis.evals else None) or 0.0
    evaluated = [e.step for e in run.evals]

    def estimate(at: float) -> float:
        return startup + at * normal.mean_s + each * sum(1 for other in evaluated if other <= at)

    last = analysis.progress.last_step
    measured = run.wall_seconds
    whole = estimate(last) if last and measured is not None else 0.0
    return estimate(step) * measured / whole if measured is not None and whole > 0 else estimate(step)
