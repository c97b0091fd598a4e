"""How fast a run is now, and how far that may be off for the steps to come.

The range comes from the run's own past: at many earlier places, what would have been predicted there is held against
what followed. A run that was even gets a narrow range; one that has changed its pace before may do so again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nanoscope.analysis.numbers import mean
from nanoscope.estimates import median

BLOCKS = 48  # the past is seen in so many stretches of equal length
RECENT = 3  # the last third tells the pace: best on real logs, against all, a quarter, and lines through them
# Chosen on one half of a set of logs (benchmarks/LOG.md).
FLOOR, FLOOR_OF_ONE_LINE, PAST_ERRORS = 0.03, 0.2, 1.5
MOST_QUARTERS = 8  # of the past, that a drift may go on for
LEAST_DRIFT, EVEN_DRIFT, DRIFT_SIGMAS = 0.005, 2.0, 3.0


@dataclass(eq=False, repr=False)
class Pace:
    """Seconds a step for the steps to come, with a range, and the change from quarter to quarter where it is steady."""

    step_s: float
    low_s: float
    high_s: float
    drift: float = 0.0  # as a share of `step_s`; 0 where there is none, or none that can be relied on


def measure_pace(values: Sequence[float], weights: Sequence[int] | None, ahead: float) -> Pace:
    """The pace after `values` (each the mean of so many steps) for `ahead` times as many steps as they cover."""
    past = _block_means(values, weights)
    step_s, drift = _predict(past, ahead * len(past))
    errors = _errors_so_far(past, ahead)
    above, below = max([0.0, *errors]), -min([0.0, *errors])
    least = max(FLOOR + FLOOR_OF_ONE_LINE / len(values) ** 0.5, PAST_ERRORS * max(above, below) / 2)
    # The range also holds a drift that goes on for longer than is expected.
    farther = drift / 2 * max(0.0, min(MOST_QUARTERS, 4 * ahead) - 1)
    return Pace(
        step_s=step_s,
        low_s=step_s * (1 - min(0.9, max(least, PAST_ERRORS * below, -farther / step_s))),
        high_s=step_s * (1 + max(least, PAST_ERRORS * above, farther / step_s + FLOOR)),
        drift=drift / step_s,
    )


def _block_means(values: Sequence[float], weights: Sequence[int] | None) -> list[float]:
    count = min(BLOCKS, len(values))
    edges = [len(values) * edge // count for edge in range(count + 1)]
    return [mean(values[a:b], weights[a:b] if weights is not None else None) for a, b in pairwise(edges)]


def _predict(past: list[float], ahead: float) -> tuple[float, float]:
    """The mean of the next `ahead` blocks, and the drift a quarter of the past that is in it."""
    drift = _steady_drift(past)
    if not drift:
        return mean(past[-max(1, len(past) // RECENT) :]), 0.0
    quarter = len(past) / 4
    goes_on = min(1.0, ahead / quarter)  # for at most another quarter: no drift lasts for ever
    return mean(past[-(len(past) // 4) :]) + drift * (0.5 + goes_on / 2), drift


def _steady_drift(past: list[float]) -> float:
    """The change from one quarter to the next, where all changes agree and stand out of the noise; else 0."""
    if len(past) < 12:
        return 0.0
    quarters = [mean(past[len(past) * i // 4 : len(past) * (i + 1) // 4]) for i in range(4)]
    changes = [after - before for before, after in pairwise(quarters)]
    sizes = sorted(abs(change) for change in changes)
    noise = median([abs(b - a) for a, b in pairwise(past)]) * (2 / (len(past) / 4)) ** 0.5
    agree = min(changes) > 0 or max(changes) < 0
    clear = sizes[0] > DRIFT_SIGMAS * noise and sizes[-1] > LEAST_DRIFT * quarters[-1]
    return mean(changes) if agree and clear and sizes[-1] <= EVEN_DRIFT * sizes[0] else 0.0


def _errors_so_far(past: list[float], ahead: float) -> list[float]:
    """How far off earlier predictions would have been, as shares of what was predicted."""
    errors = []
    for here in range(max(2, len(past) // 6), len(past)):
        reach = min(len(past) - here, max(1, round(ahead * here)))
        if reach >= max(1, len(past) // 12):
            predicted, _ = _predict(past[:here], reach)
            errors.append(mean(past[here : here + reach]) / predicted - 1)
    return errors
