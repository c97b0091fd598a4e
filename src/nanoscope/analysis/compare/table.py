"""The rows of the table: measures of all runs, at their ends and at equal steps, tokens and time."""

from collections.abc import Sequence

from nanoscope.analysis.compare.clock import seconds_at, step_at, wall_seconds
from nanoscope.analysis.compare.losses import Levels, loss_at, step_of
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import Analysis, ComparisonRow, RowMeasure
from nanoscope.analysis.mfu import believable_mfu

SAME_LOSS, SAME_TIME = 0.002, 0.02  # as shares: nobody is ahead by less


def rows(sides: Sequence[Side], levels: Levels | None, ranked: bool) -> list[ComparisonRow]:
    """One row per measure that some log has; `ranked`: the losses are of the same data and unit."""
    analyses = [side.analysis for side in sides]
    times = [a.timing for a in analyses]
    found = [
        _row("last_step", [_float(a.progress.last_step) for a in analyses], None),
        _row("step_time", [t.typical_s if t else None for t in times], min),
        _row("throughput", [t.throughput_tok_s if t else None for t in times], max),
        _row("total_time", [wall_seconds(side.run, side.analysis) for side in sides], None),
        _row("last_train_loss", [_last_train(a) for a in analyses], None),
    ]
    evals = [a.evals for a in analyses]
    units = {e.metric for e in evals if e}
    order = min if ranked else None
    for unit in ("loss", "bpb"):
        if unit in units:
            of_unit = [e if e and e.metric == unit else None for e in evals]
            found.append(_row(f"last_val_{unit}", [e.last_val if e else None for e in of_unit], order))  # type: ignore[arg-type]
            found.append(_row(f"best_val_{unit}", [e.best_val if e else None for e in of_unit], order))  # type: ignore[arg-type]
    if levels is not None and levels.step is not None and ranked:
        values = [levels.of[side.place].loss if side.place in levels.of else None for side in sides]
        found.append(_row(f"{levels.measure}_at_equal_steps", values, min, float(levels.step)))  # type: ignore[arg-type]
    if ranked:
        found += _at_equal_tokens(sides) + _at_equal_time(sides) + _time_to_loss(sides)
    found.append(_row("mfu", _mfu(analyses), None))
    return [row for row in found if any(value is not None for value in row.values)]


def _mfu(analyses: Sequence[Analysis]) -> list[float | None]:
    """Shares of each device's own peak; the printed ones only where all are shares of the same peak."""
    printed = [a.mfu for a in analyses if a.mfu and a.mfu.logged]
    if printed and all(mfu.recomputed is None for mfu in printed) and len({mfu.assumed_tflops for mfu in printed}) == 1:
        return [a.mfu.logged if a.mfu else None for a in analyses]
    return [believable_mfu(a.mfu, a.achieved) for a in analyses]


def _at_equal_tokens(sides: Sequence[Side]) -> list[ComparisonRow]:
    tokens = [side.analysis.progress.tokens_per_step for side in sides]
    known = [t for t in tokens if t]
    if len(known) < len(sides) or len(set(known)) == 1:  # then it is the row of equal steps
        return []
    least = min(_last_eval(side) * t for side, t in zip(sides, known, strict=True))
    values = [loss_at(side, least / t) for side, t in zip(sides, known, strict=True)]
    return [_row("val_at_equal_tokens", values, min, float(least))] if _two_known(values) else []


def _at_equal_time(sides: Sequence[Side]) -> list[ComparisonRow]:
    ends = [seconds_at(_last_eval(side), side.run, side.analysis) for side in sides]
    known = [end for end in ends if end is not None]
    if len(known) < len(sides) or min(known) <= 0:
        return []
    shortest = min(known)
    values = [loss_at(side, step_at(shortest, side.run, side.analysis)) for side in sides]
    return [_row("val_at_equal_time", values, min, shortest)] if _two_known(values) else []


def _time_to_loss(sides: Sequence[Side]) -> list[ComparisonRow]:
    """How long the runs took to the loss that all of them reached."""
    bests = [side.analysis.evals.best_val if side.analysis.evals else None for side in sides]
    known = [best for best in bests if best is not None]
    if len(known) < len(sides):
        return []
    steps = [step_of(side, max(known)) for side in sides]
    times = [
        None if step is None else seconds_at(step, s.run, s.analysis) for s, step in zip(sides, steps, strict=True)
    ]
    return [_row("time_to_loss", times, min, max(known))] if _two_known(times) else []


def _row(measure: RowMeasure, values: Sequence[float | None], order: object, at: float | None = None) -> ComparisonRow:
    known = [value for value in values if value is not None]
    best = None
    if len(known) == len(values) and order in (min, max):
        ahead = min(known) if order is min else max(known)
        share = SAME_LOSS if "val" in measure else SAME_TIME
        if max(known) - min(known) > share * abs(max(known)):
            best = values.index(ahead)
    return ComparisonRow(measure, tuple(values), best, at)


def _two_known(values: Sequence[float | None]) -> bool:
    return sum(value is not None for value in values) >= 2


def _last_eval(side: Side) -> int:
    return side.run.evals[-1].step if side.run.evals else 0


def _last_train(analysis: Analysis) -> float | None:
    evaluated = analysis.evals.last_train if analysis.evals else None
    return evaluated if evaluated is not None else analysis.train_loss.smoothed_last


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
