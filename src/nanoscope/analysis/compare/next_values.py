"""Where the best value of a setting lies in the range that was tried, and which values to try next."""

import math
from collections.abc import Collection, Sequence
from typing import Literal

Edge = Literal["low", "high", "inside"]


def next_values(values: Sequence[float], best: Collection[int]) -> tuple[Edge, tuple[str, ...]]:
    """Judge rising values, of which those at the indices `best` are equally good."""
    whole = all(value == int(value) for value in values)
    powers = whole and all(value > 0 and math.log2(value).is_integer() for value in values)
    geometric = values[0] > 0 and values[-1] >= 2 * values[0]

    def round_off(value: float) -> str:
        if powers:
            return str(2 ** round(math.log2(value)))
        rounded = float(f"{value:.1g}") if geometric else float(f"{value:.2g}")
        return str(round(value) if value >= 10 else int(rounded)) if whole else f"{rounded:g}"

    def middle(one: float, two: float) -> float:
        return math.sqrt(one * two) if geometric else (one + two) / 2

    def beyond(end: float, neighbour: float) -> float:
        return end * end / neighbour if geometric else 2 * end - neighbour

    last = len(values) - 1
    suggested: list[float]
    edge: Edge
    if last in best:
        edge, suggested = "high", [beyond(values[last], values[last - 1])]
    elif 0 in best:
        further = beyond(values[0], values[1])
        edge, suggested = "low", [further] if further > 0 or values[0] < 0 else []
    else:
        edge = "inside"
        suggested = [middle(values[min(best) - 1], values[min(best)]), middle(values[max(best)], values[max(best) + 1])]
    tried = {round_off(value) for value in values} | {f"{value:g}" for value in values}
    return edge, tuple(dict.fromkeys(text for text in map(round_off, suggested) if text not in tried))
