"""The columns of a run as the page draws them: thinned to what a chart can show, and packed.

A short series is sent as it is. Of a longer one, each stretch is sent as its mean, which the page smooths, and its
lowest and highest value, which it draws as a band: no spike gets lost. Numbers are base64 of little-endian arrays.
"""

import base64
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nanoscope.runs.run import Run

MAX_POINTS = 3000  # of a series that is sent as it is, if its run has the page to itself
MIN_POINTS = 800  # the same, however many runs share the page
STRETCHES_PER_POINT = 0.5  # a stretch needs three numbers
THIN_BAND = 0.005  # of a series' range: where no stretch is wider, its mean is enough
COLUMNS = ("loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")
LOWEST_VALID = {"mfu_pct": 0.0, "time_s": 1e-12}  # nanoGPT prints -100 % before it has measured
MAX_EXTRAS = 24  # series beyond the columns

Floats = NDArray[np.float64]


@dataclass(eq=False)
class Points:
    """Steps and values. Where these are means of stretches, `low` and `high` are others."""

    steps: NDArray[np.int64]
    values: Floats
    low: Floats
    high: Floats


Series = Mapping[str, Points]


def thinned_series(run: Run, slow: Collection[int] = ()) -> Series:
    """Each column that has numbers. Steps in `slow`, which are drawn one by one, have no time here."""
    steps = np.array(run.steps.step, dtype=np.int64)
    raw: dict[str, tuple[NDArray[np.int64], Floats]] = {
        name: (steps, np.array(getattr(run.steps, name))) for name in COLUMNS
    }
    if len(slow):
        raw["time_s"][1][np.isin(steps, np.array(list(slow), dtype=np.int64))] = math.nan
    for name, extra in islice(run.series.items(), MAX_EXTRAS):
        raw[name] = (np.array(extra.steps, dtype=np.int64), np.array(extra.values))
    found = {}
    for name, (at, values) in raw.items():
        keep = np.isfinite(values) & (values >= LOWEST_VALID.get(name, -math.inf))
        if np.any(keep):
            kept = values[keep]
            found[name] = _thinned(Points(at[keep], kept, kept, kept), MAX_POINTS)
    return found


class PackedSteps(msgspec.Struct):
    """Steps at equal distances, as they usually are, or each of them as base64."""

    first: int = 0
    every: int = 1
    count: int = 0
    each: str | None = None


class PackedSeries(msgspec.Struct):
    """A column as base64; of stretches, the means with the lowest and the highest."""

    y: str
    low: str | None = None
    high: str | None = None
    x: PackedSteps | None = None  # where they are not the common steps


def packed(series: Series, run_count: int) -> dict[str, Any]:
    """The series as the page's script reads them. Steps that several have in common are written once."""
    most = max(MAX_POINTS // run_count, MIN_POINTS)
    thinned = {name: _thinned(points, most) for name, points in series.items()}
    common = next(iter(thinned.values())).steps if thinned else np.array([], dtype=np.int64)
    columns = {}
    for name, points in thinned.items():
        column = columns[name] = PackedSeries(_base64(points.values))
        if _is_seen(points.low, points.high):
            column.low, column.high = _base64(points.low), _base64(points.high)
        if not np.array_equal(points.steps, common):
            column.x = _packed_steps(points.steps)
    return {"steps": _packed_steps(common), "series": columns}


def extremes(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` values: the lowest and the highest of every stretch, so that spikes stay."""
    if len(values) <= most:
        return list(range(len(values)))
    edges = np.linspace(0, len(values), (most - 2) // 2 + 1).astype(int)
    column = np.asarray(values)
    kept = {0, len(values) - 1}
    for start, end in pairwise(edges):
        stretch = column[start:end]
        if not np.all(np.isnan(stretch)):
            kept |= {int(start + np.nanargmin(stretch)), int(start + np.nanargmax(stretch))}
    return sorted(kept)


def _thinned(points: Points, most: int) -> Points:
    count = len(points.values)
    if count <= most * (1 if points.low is points.values else STRETCHES_PER_POINT):
        return points
    # Equally long, so that their first steps are equally spaced; the last one may be shorter.
    starts = np.arange(0, count, math.ceil(count / (most * STRETCHES_PER_POINT)))
    ends = np.append(starts[1:], count)
    return Points(
        points.steps[starts],
        np.add.reduceat(points.values, starts) / (ends - starts),
        np.minimum.reduceat(points.low, starts),
        np.maximum.reduceat(points.high, starts),
    )


def _is_seen(low: Floats, high: Floats) -> bool:
    return bool(np.max(high - low) > THIN_BAND * (np.max(high) - np.min(low)))


def _packed_steps(steps: NDArray[np.int64]) -> PackedSteps:
    every = int(steps[1] - steps[0]) if len(steps) > 1 else 1
    if len(steps) and np.all(np.diff(steps) == every):
        return PackedSteps(int(steps[0]), every, len(steps))
    return PackedSteps(each=_base64(steps, "<f8"))


def _base64(numbers: NDArray[Any], kind: str = "<f4") -> str:
    return base64.b64encode(numbers.astype(kind).tobytes()).decode("ascii")
