"""Where a shorter run would be, had it gone on as far as the longest one."""

import math
from collections.abc import Sequence

from nanoscope.analysis.compare.losses import SAME_STEPS
from nanoscope.analysis.compare.settings import LENGTH_KEYS, learning_factors, shows_all_settings
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.extrapolation import FARTHEST, FEWEST_POINTS, extrapolate
from nanoscope.analysis.findings import Continued, Diverged, NonFinite, Overfitting

MOST_RUNS = 3
WIDEST = 0.15  # of the loss: a wider range does not help to compare


def continued(sides: Sequence[Side]) -> list[Continued]:
    """A range, or the reason why there is none, for each of a few runs that did not go as far."""
    longest = max(sides, key=lambda side: side.last_step)
    shorter = [side for side in sides if 0 < side.last_step < (1 - SAME_STEPS) * longest.last_step]
    if len(shorter) > MOST_RUNS:
        return []
    return [_continue(side, longest.last_step) for side in shorter if not _is_continued_by(longest, side)]


def _is_continued_by(longer: Side, side: Side) -> bool:
    """Whether two runs differ in their lengths alone: the longer one has measured what the other would reach."""
    pair = [side, longer]
    return all(map(shows_all_settings, pair)) and set(learning_factors(pair)) <= set(LENGTH_KEYS)


def _continue(side: Side, to_step: int) -> Continued:
    def unknown(why: str) -> Continued:
        return Continued(side.place, to_step, None, None, "val", why, confidence="sure")  # type: ignore[arg-type]

    verdicts = side.analysis.verdicts
    if any(isinstance(verdict, Diverged | NonFinite) for verdict in verdicts):
        return unknown("diverged")
    if any(isinstance(verdict, Overfitting) for verdict in verdicts):
        return unknown("overfitting")
    points = [(e.step, e.val) for e in side.run.evals if math.isfinite(e.val) and e.step > 0]
    if to_step > FARTHEST * side.last_step:
        return unknown("too_far")
    if len(points) < FEWEST_POINTS or to_step > FARTHEST * points[-1][0]:
        return unknown("too_short")
    ends = extrapolate(points, to_step)
    if ends is None or ends[1] - ends[0] > WIDEST * ends[1]:
        return unknown("unsteady")
    return Continued(side.place, to_step, *ends, "val", None)
