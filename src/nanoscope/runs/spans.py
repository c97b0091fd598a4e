"""Whether a printed time is that of one step, or of all steps since the line before."""

from array import array
from collections.abc import Iterable
from itertools import pairwise

from nanoscope.runs.fields import timestamp_s
from nanoscope.runs.run import MISSING, Run

MOST_SEEN = 1000  # lines whose timestamps are looked at
LEAST_INTERVAL = 5  # steps between two lines; with fewer, the two readings are too close to tell apart
FIRST_IS_SHORT = 0.3  # of a usual line's time: start-up and one step took less than that


def median(values: Iterable[float]) -> float:
    """The middle value; `statistics` takes longer to load than a log to read."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class TimeSpans:
    """Compares printed times with the timestamps of their lines, the first step and the tokens per second."""

    def __init__(self) -> None:
        self._seen = 0
        self._before: tuple[Run, int, float] | None = None  # run, step and timestamp of the line before
        self._votes: dict[int, list[bool]] = {}  # id of a run → whether a line's time is all that passed since the last

    def see(self, line: str, run: Run | None) -> None:
        """Look at the timestamp of a step's line."""
        if run is None or not run.steps or run.time_spans_steps or self._seen >= MOST_SEEN:
            return
        self._seen += 1
        at = timestamp_s(line)
        if at is None:
            return
        step, time_s = run.steps.step[-1], run.steps.time_s[-1]
        before, self._before = self._before, (run, step, at)
        if before is None or before[0] is not run or step - before[1] < LEAST_INTERVAL or not time_s > 0:
            return
        passed = at - before[2]
        if passed > 3:  # timestamps may show whole seconds
            self._votes.setdefault(id(run), []).append(0.75 * passed < time_s < 1.3 * passed + 1)

    def settle(self, run: Run) -> None:
        """Divide the times of a run by the steps that they cover, if there is evidence that they cover several."""
        steps, times = run.steps.step, run.steps.time_s
        if run.time_source != "printed" or run.time_spans_steps or len(steps) < 3:
            return
        gaps = [b - a for a, b in pairwise(steps[:2000])]
        interval = median(gaps)
        if interval < LEAST_INTERVAL or not self._covers_interval(run, interval):
            return
        covered = [1, *(b - a for a, b in pairwise(steps))]
        run.steps.time_s = array("d", (time / count for time, count in zip(times, covered, strict=True)))
        if steps[0] > 1:
            run.steps.time_s[0] = MISSING
        run.time_spans_steps = True

    def _covers_interval(self, run: Run, interval: float) -> bool:
        votes = self._votes.get(id(run), [])
        if len(votes) >= 3:
            return sum(votes) > 0.8 * len(votes)
        usual = [time for time in run.steps.time_s[1:2000] if time > 0]
        if not usual:
            return False
        each = median(usual)
        first = run.steps.time_s[0]
        if run.steps.step[0] <= 1 and each / interval < first < FIRST_IS_SHORT * each:
            return True
        tokens = run.config.get("tokens_per_step")
        speeds = [speed for speed in run.steps.tok_s[1:2000] if speed > 0]
        if isinstance(tokens, int) and tokens > 0 and speeds:
            return abs(median(speeds) * each / (tokens * interval) - 1) < 0.15
        return False


def is_clock(times: "array[float]") -> bool:
    """Whether times that are printed as a step's own only ever rise: then they are a clock that keeps running."""
    rises = sum(a < b for a, b in pairwise(times))
    return len(times) >= 4 and rises >= 0.95 * (len(times) - 1) and not times[-1] < 3 * times[0]


def take_differences(run: Run) -> None:
    """Turn the readings of a clock that keeps running into seconds per step."""
    steps, times = run.steps.step, run.steps.time_s
    seconds = [
        (b - a) / (t - s) if b > a else MISSING for (a, b), (s, t) in zip(pairwise(times), pairwise(steps), strict=True)
    ]
    run.steps.time_s = array("d", [MISSING, *seconds])
    run.time_source, run.time_spans_steps = "cumulative", True
