"""The rules that training applies while a run works and the findings apply to its log: one time left, one
spike. They rest on robust statistics, in plain Python: numpy alone would take a third of `explain`'s start.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

MAD_TO_SIGMA = 1.4826  # of normally distributed values
ENOUGH = 30_000  # values: more do not change a median, and only cost time
GOLDEN = 0.6180339887498949

SPIKE_SIGMAS, SPIKE_NOISE, SPIKE_HEIGHT = 12, 0.01, 0.3  # times the noise, of at least so much; at least so high
SPIKE_SHARE = 0.1  # of the loss before it


def multiples_between(last: int, end: int, interval: int | None) -> int:
    """How many multiples of `interval` come after `last`, up to `end`."""
    return end // interval - last // interval if interval and end > last else 0


def spike_height(losses: Sequence[float]) -> float:
    """How far above the losses before it a loss has to lie to be a spike, by the noise of `losses`."""
    return max(SPIKE_SIGMAS * max(scatter(losses), SPIKE_NOISE), SPIKE_HEIGHT)


def is_spike(loss: float, before: Sequence[float], height: float) -> bool:
    """Whether a loss jumps out of the ones just before it; `height` is `spike_height` of the run."""
    usual = median(before[-3:])
    return loss - before[-1] > height and loss - usual >= max(height, SPIKE_SHARE * usual)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return percentile(values, 50)


def percentile(values: Sequence[float], per_cent: float) -> float:
    """The value that `per_cent` of the values lie below, interpolated linearly."""
    ordered = sorted(sample_of(values))
    place = (len(ordered) - 1) * per_cent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (place - below))


def scatter(values: Sequence[float]) -> float:
    """The noise of a series around its own trend, from second differences (a smooth curve has none)."""
    if len(values) < 3:
        return 0.0
    bends = [abs(values[i + 2] - 2 * values[i + 1] + values[i]) for i in spread_indices(len(values) - 2)]
    return MAD_TO_SIGMA * median(bends) / 6**0.5


def sample_of(values: Sequence[float]) -> Sequence[float]:
    """All values; of very many, a part."""
    return values if len(values) <= ENOUGH else [values[i] for i in spread_indices(len(values))]


@lru_cache(maxsize=4)  # a long run asks again and again for the same two or three
def spread_indices(count: int, enough: int = ENOUGH) -> Sequence[int]:
    """All indices; of very many, a part that keeps step with no period (multiples of the golden section)."""
    return range(count) if count <= enough else [int(part * count) for part in _spread(enough)]


@cache
def _spread(enough: int) -> list[float]:
    return sorted(i * GOLDEN % 1.0 for i in range(enough))
