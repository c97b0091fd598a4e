"""The columns of a run as the page draws them: thinned to what a chart can show, and packed.

Numbers are sent as base64 of little-endian arrays, in which NaN means missing.
"""

import base64
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from itertools import islice

from nanoscope.runs.run import Run
from nanoscope.views.charts import stretch_medians

MAX_POINTS = 6000  # of a series; of a longer one, each stretch keeps its lowest and its highest value
MIN_POINTS = 600  # of a series, however many runs share the page
SMOOTH_STRETCHES = 200
COLUMNS = ("loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")
LOWEST_VALID = {"mfu_pct": 0.0, "time_s": 1e-12}  # nanoGPT prints -100 % before it has measured

Series = Mapping[str, tuple["array[int]", "array[float]"]]


def thinned_series(run: Run) -> Series:
    """Steps and values of each column that has at least two numbers."""
    steps, details = run.steps, run.details
    columns: dict[str, Sequence[float]] = {name: getattr(steps, name) for name in COLUMNS}
    if details is not None and details.eta_steps:
        estimates = dict(zip(details.eta_steps, details.eta_seconds, strict=True))
        columns["eta_s"] = [estimates.get(step, math.nan) for step in steps.step]
    series = {}
    for name, values in columns.items():
        lowest = LOWEST_VALID.get(name, -math.inf)
        finite = array("f", [y if lowest <= y < math.inf else math.nan for y in values])
        if len(list(islice((y for y in finite if y == y), 2))) == 2:
            series[name] = _thinned(steps.step[:], finite, MAX_POINTS)
    return series


def packed(series: Series, run_count: int) -> dict[str, object]:
    """The series as the page's script reads them. Steps that several have in common are written once."""
    most = max(MAX_POINTS // run_count, MIN_POINTS)
    thinned = {name: _thinned(steps, values, most) for name, (steps, values) in series.items()}
    common = next(iter(thinned.values()))[0] if thinned else array("q")
    columns = {
        name: {"y": _base64(values)} if steps == common else {"x": _packed_steps(steps), "y": _base64(values)}
        for name, (steps, values) in thinned.items()
    }
    return {"steps": _packed_steps(common), "series": columns}


def smoothed(steps: Sequence[int], values: Sequence[float], without: set[int] | None = None) -> list[tuple[int, float]]:
    """Medians of stretches, long enough to remove the noise of single batches; `without` are steps to leave out."""
    skipped = without or set()
    points = [(float(x), y) for x, y in zip(steps, values, strict=True) if math.isfinite(y) and x not in skipped]
    stretches = min(SMOOTH_STRETCHES, max(len(points) // 3, 2))
    return [(int(x), float(f"{y:.5g}")) for x, y in stretch_medians(points, stretches // 2)]


def extremes(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` values: the lowest and the highest of every stretch, so that spikes stay."""
    if len(values) <= most:
        return list(range(len(values)))
    size = math.ceil(2 * len(values) / (most - 2))
    kept = {0, len(values) - 1}
    has_gaps = any(value != value for value in values)
    for start in range(0, len(values), size):
        stretch = values[start : start + size]
        numbers = [value for value in stretch if value == value] if has_gaps else stretch
        if numbers:
            kept |= {start + stretch.index(min(numbers)), start + stretch.index(max(numbers))}
    return sorted(kept)


def _thinned(steps: "array[int]", values: "array[float]", most: int) -> "tuple[array[int], array[float]]":
    if len(values) <= most:
        return steps, values
    kept = extremes(values, most)
    return array("q", [steps[i] for i in kept]), array("f", [values[i] for i in kept])


def _packed_steps(steps: Sequence[int]) -> dict[str, object]:
    """Steps at equal distances, as they usually are, need only three numbers."""
    every = steps[1] - steps[0] if len(steps) > 1 else 1
    if steps and all(step == steps[0] + i * every for i, step in enumerate(steps)):
        return {"first": steps[0], "every": every, "count": len(steps)}
    return {"each": _base64(array("d", steps))}


def _base64(numbers: "array[float]") -> str:
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")
