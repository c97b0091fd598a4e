"""Runs of other lengths: whether the shorter one was simply trained less."""

from nanoscope.analysis.compare.losses import SAME_STEPS, Levels, levels_at_equal_steps, levels_at_the_ends
from nanoscope.analysis.compare.noise import Noise, doubt
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import FewerSteps

EXACT = 5  # times what is left at equal steps, and its error


def fewer_steps(one: Side, two: Side) -> FewerSteps | None:
    """What two runs of other lengths had reached at the same step; None if they are about as long."""
    shorter, longer = sorted((one, two), key=lambda side: side.last_step)
    if longer.last_step - shorter.last_step <= SAME_STEPS * longer.last_step:
        return None

    def found(verdict: str, levels: Levels | None = None, sure: bool = False) -> FewerSteps:
        return FewerSteps(
            shorter.place,
            longer.place,
            shorter.last_step,
            longer.last_step,
            levels.step if levels else None,
            (levels.of[shorter.place].loss, levels.of[longer.place].loss) if levels else None,
            verdict,  # type: ignore[arg-type]
            levels.measure if levels else "val",
            confidence="sure" if sure else "likely",
        )

    levels = levels_at_equal_steps([shorter, longer])
    if levels is None or not all(level.is_finite for level in levels.of.values()):
        return found("no_common_step", sure=longer.first_step > shorter.last_step)
    ends = levels_at_the_ends([shorter, longer])
    pair = [shorter.place], [longer.place]
    unsure = doubt(levels, *pair, Noise())
    verdict = unsure.judge(levels.difference(shorter.place, longer.place))
    if verdict == "within_noise":
        # What has to be explained must be larger than what could have been seen at equal steps.
        to_explain = ends.difference(shorter.place, longer.place) if ends is not None else 0.0
        left = abs(levels.difference(shorter.place, longer.place))
        clear = unsure.error is not None and to_explain > EXACT * max(unsure.error, left)
        return found("explains" if clear else "unclear", levels)
    return found("differs_too" if verdict == "differs" else "unclear", levels, sure=verdict == "differs")
