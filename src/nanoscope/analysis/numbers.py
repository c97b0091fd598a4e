"""Robust statistics that the analyses share."""

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    Floats: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
    Ints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
    Bools: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]
else:
    Floats = Ints = Bools = np.ndarray

MAD_TO_SIGMA = 1.4826  # of normally distributed values


def robust_sigma(values: Floats) -> float:
    """Standard deviation as the bulk of the values has it, whatever the outliers do."""
    if len(values) == 0:
        return 0.0
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values))))


def blocks(count: int, at_least: int, at_most_blocks: int = 64) -> list[tuple[int, int]]:
    """Equal stretches of `count` values, each with `at_least` of them."""
    number = max(1, min(at_most_blocks, count // at_least))
    edges = np.linspace(0, count, number + 1).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def slow_baseline(values: Floats, at_least: int = 15) -> tuple[Floats, Floats]:
    """Median and robust sigma around each value, following slow drifts: medians of blocks, joined by lines."""
    parts = blocks(len(values), at_least)
    middles = np.array([(a + b - 1) / 2 for a, b in parts])
    medians = np.array([float(np.median(values[a:b])) for a, b in parts])
    positions = np.arange(len(values), dtype=np.float64)
    base = np.interp(positions, middles, medians)
    sigmas = np.array([robust_sigma(values[a:b] - base[a:b]) for a, b in parts])
    return base, np.interp(positions, middles, sigmas)


def scatter(values: Floats) -> float:
    """Noise of a series around its own trend, from second differences (a smooth curve has none)."""
    if len(values) < 3:
        return 0.0
    second = values[2:] - 2 * values[1:-1] + values[:-2]
    return float(MAD_TO_SIGMA * np.median(np.abs(second)) / np.sqrt(6))


def common_gap(steps: list[int] | Ints) -> int | None:
    """The usual distance between steps; None for fewer than two."""
    gaps = np.diff(np.asarray(steps, dtype=np.int64))
    gaps = gaps[gaps > 0]
    if len(gaps) == 0:
        return None
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[int(np.argmax(counts))])
