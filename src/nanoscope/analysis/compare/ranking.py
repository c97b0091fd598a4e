"""Settings in the order of the losses that they reach, repeats with other seeds taken together."""

import math
from collections.abc import Sequence

from nanoscope.analysis.compare.groups import by_settings, places_of, settings_in
from nanoscope.analysis.compare.losses import Levels
from nanoscope.analysis.compare.settings import differs, learning_factors
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import RankedSettings
from nanoscope.analysis.numbers import mean, sample_deviation


def ranked_settings(sides: Sequence[Side], levels: Levels | None) -> tuple[RankedSettings, ...]:
    """The lowest mean first; empty if no settings were repeated, since then runs can be ranked one by one."""
    factors = learning_factors(sides)
    cells = by_settings(list(sides), factors)
    if levels is None or len(cells) < 2 or not any(differs(cell, "seed") for cell in cells):
        return ()
    ranked = []
    for cell in cells:
        order = sorted(places_of(cell), key=lambda place: levels.of[place].loss)
        losses = [levels.of[place].loss for place in order]
        middle = mean(losses) if all(map(math.isfinite, losses)) else None
        spread = sample_deviation(losses) if middle is not None and len(losses) > 1 else None
        ranked.append(RankedSettings(settings_in(factors, cell[0]), tuple(order), middle, spread))
    return tuple(sorted(ranked, key=lambda each: math.inf if each.mean is None else each.mean))
