"""How fast a run is now, and how far that may be off for the steps to come.

The range comes from the run's own past: at many earlier places, what would have been predicted there is held against
what followed. A run that was even gets a narrow range; one that has changed its pace before may do so again.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from nanoscope.findings.numbers import mean

STRETCHES = 48  # of equal length, in which the past is seen
# Chosen on one half of 72 logs, checked on the other (benchmarks/LOG.md, 'The pace of a log and its range').
RECENT, LASTS = 3, 3
PAST_ERRORS, GROWTH, LEAST, LEAST_OF_ONE_LINE = 1.2, 0.75, 0.03, 0.2


class Pace(NamedTuple):
    """Seconds a step for the steps to come, with a range that held the truth nine times in ten."""

    step_s: float
    low_s: float
    high_s: float


def measure_pace(values: Sequence[float], weights: Sequence[int] | None, ahead: float) -> Pace:
    """The pace after `values` (each the mean of so many steps) for `ahead` times as many steps as they cover."""
    count = min(STRETCHES, len(values))
    edges = pairwise(len(values) * edge // count for edge in range(count + 1))
    past = [mean(values[a:b], weights and weights[a:b]) for a, b in edges]
    step_s, errors = _level(past), _errors_so_far(past, ahead)
    usual_error = mean([error**2 for error in errors]) ** 0.5 if errors else 0.0
    share = max(LEAST + LEAST_OF_ONE_LINE / len(values) ** 0.5, PAST_ERRORS * usual_error)
    farther = _drift(past) * (0.5 + 1.5 * ahead) / step_s  # by the middle of what is to come, if it goes on to the end
    return Pace(step_s, step_s / (1 + max(share, LEAST - farther)), step_s * (1 + max(share, LEAST + farther)))


def _level(past: list[float]) -> float:
    """The mean of the last third of the stretches; of its end alone, where that lies wholly above or below the rest."""
    recent = past[-max(1, len(past) // RECENT) :]
    for count in range(LASTS, len(recent) - LASTS + 1):
        end, rest = recent[-count:], recent[:-count]
        if min(end) > max(rest) or max(end) < min(rest):
            return mean(end)
    return mean(recent)


def _drift(past: list[float]) -> float:
    """The smaller change from one third of the past to the next, where both go the same way."""
    first, second, last = (mean(past[len(past) * i // 3 : len(past) * (i + 1) // 3] or past) for i in range(3))
    changes = second - first, last - second
    return min(changes, key=abs) if changes[0] * changes[1] > 0 else 0.0


def _errors_so_far(past: list[float], ahead: float) -> list[float]:
    """How far off earlier predictions would have been, as shares of what was predicted.

    Where less of the past followed than is to be predicted now, the error has grown by then: as the root of the time
    in a random walk, as the time itself in a drift.
    """
    errors = []
    for here in range(max(2, len(past) // 6), len(past)):
        wanted = max(1, round(ahead * here))
        reach = min(len(past) - here, wanted)
        if reach >= max(1, len(past) // 12):
            error = mean(past[here : here + reach]) / _level(past[:here]) - 1
            errors.append(error * (wanted / reach) ** GROWTH)
    return errors
