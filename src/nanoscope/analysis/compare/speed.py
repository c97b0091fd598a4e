"""How fast the steps of runs are, and why: more arithmetic in a step, a setting, another machine, or nobody knows."""

import math
from collections.abc import Sequence

from nanoscope.analysis.compare.settings import SIZE_KEYS, differs, shows_all_settings, speed_factors, written
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import Speed, Work
from nanoscope.estimates import percentile

EQUAL = 1.05  # times: step times that differ by less are the same on any machine
DIFFERENT = 1.5  # times: step times that differ by more are not the same, however wide their spread
UNREMARKABLE = 1.2  # times: the same machine varies by so much from run to run
MORE_WORK = 1.25  # times the arithmetic, from which on it is worth a word: the printed MFU is a rough figure
MFU_DOUBT = 1.5
MOST_OF_IT = 2.0  # times: more work explains a longer step that is longer by at most so much more
DEVICE_KEYS = ("device_name", "device")


def speeds(sides: Sequence[Side], same_log: bool) -> list[Speed | Work]:
    """What tells the speeds of the runs apart; empty if fewer than two have times, or they hardly differ."""
    timed = sorted((side for side in sides if side.analysis.timing), key=_seconds)
    if len(timed) < 2:
        return []
    fastest, slowest = timed[0], timed[-1]
    if _equally_fast(fastest, slowest):
        return [_speed(slowest, fastest, "equal", confidence="sure")]
    factors = speed_factors(timed)
    found: list[Speed | Work] = []
    entangled = []
    for factor in factors:
        pairs = _clean_pairs(factor, factors, timed)
        if not pairs:
            entangled.append(factor)
            continue
        slow, fast = max(pairs, key=lambda pair: _seconds(pair[0]) / _seconds(pair[1]))
        if not _equally_fast(slow, fast):
            found.append(_speed(slow, fast, *_one_setting(slow, fast, factor)))
    differing = tuple(factor for factor in entangled if differs([slowest, fastest], factor))
    if differing:
        found.append(_speed(slowest, fastest, "several", differing, confidence="sure"))
    work = _work(slowest, fastest)
    if not factors and _seconds(slowest) > UNREMARKABLE * _seconds(fastest):
        found.append(_without_settings(slowest, fastest, work, same_log))
    if work is not None and work.ratio >= MORE_WORK:
        found.append(work)
    elif work is not None and work.ratio <= 1 / MORE_WORK:
        found.append(Work(work.other, work.run, 1 / work.ratio, work.source, 1 / work.time_ratio))
    return found


def _one_setting(slow: Side, fast: Side, factor: str) -> tuple[str, tuple[str, ...], str]:
    """Reason, setting and confidence, where only one setting that matters differs in the logs."""
    complete = shows_all_settings(slow) and shows_all_settings(fast)
    if factor in DEVICE_KEYS:
        work = _work(slow, fast)
        same_work = complete or (work is not None and 1 / MORE_WORK < work.ratio < MORE_WORK)
        return ("device", (factor,), "sure") if same_work else ("unexplained", (), "hint")
    sizes = slow.settings.get(factor), fast.settings.get(factor)
    if factor in SIZE_KEYS and all(isinstance(size, int) for size in sizes) and sizes[0] < sizes[1]:  # type: ignore[operator]
        return ("unexplained", (), "hint")  # the slower step is the smaller one
    return ("setting", (factor,), "sure" if complete else "likely")


def _without_settings(slow: Side, fast: Side, work: Work | None, same_log: bool) -> Speed:
    """No setting in the logs tells the speeds apart."""
    if work is not None and work.ratio >= MORE_WORK and work.ratio >= work.time_ratio / MOST_OF_IT:
        return _speed(slow, fast, "work")
    if work is not None and 1 / MORE_WORK < work.ratio < MORE_WORK:
        names = {side.settings.get("device_name") for side in (slow, fast)}
        one_machine = same_log or (len(names) == 1 and None not in names)
        return _speed(slow, fast, "same_machine" if one_machine else "machine")
    return _speed(slow, fast, "unexplained", confidence="hint")


def _clean_pairs(factor: str, factors: Sequence[str], sides: Sequence[Side]) -> list[tuple[Side, Side]]:
    """Pairs, slower run first, that differ in one setting only."""
    found = []
    for index, fast in enumerate(sides):
        for slow in sides[index + 1 :]:
            differing = [other for other in factors if differs([slow, fast], other)]
            if differing == [factor]:
                found.append((slow, fast))
    return found


def _seconds(side: Side) -> float:
    return side.analysis.timing.typical_s if side.analysis.timing else math.inf


def _equally_fast(one: Side, two: Side) -> bool:
    """Whether one run's spread of step times holds the other's typical one, or both are about the same."""
    fast, slow = sorted((one, two), key=_seconds)
    if _seconds(slow) <= EQUAL * _seconds(fast):
        return True
    if _seconds(slow) > DIFFERENT * _seconds(fast):
        return False
    spreads = [side.analysis.timing for side in (fast, slow) if side.analysis.timing]
    return _seconds(slow) <= spreads[0].high_s or _seconds(fast) >= spreads[1].low_s


def _speed(slow: Side, fast: Side, reason: str, settings: tuple[str, ...] = (), confidence: str = "likely") -> Speed:
    values = None
    if len(settings) == 1:
        values = written(slow.settings.get(settings[0])), written(fast.settings.get(settings[0]))
    times = _seconds(slow), _seconds(fast)
    return Speed(slow.place, fast.place, *times, reason, settings, values, confidence=confidence)  # type: ignore[arg-type]


def _work(one: Side, two: Side) -> Work | None:
    """How much more arithmetic a step of `one` does: by parameters × tokens, else by MFU × time against one peak."""
    times = _seconds(one) / _seconds(two)
    sizes = _by_sizes(one), _by_sizes(two)
    if sizes[0] and sizes[1]:
        return Work(one.place, two.place, sizes[0] / sizes[1], "sizes", times)
    amounts = _by_mfu(one), _by_mfu(two)
    if amounts[0] is None or amounts[1] is None or amounts[0][0] != amounts[1][0]:
        return None
    ratio = amounts[0][1] / amounts[1][1]
    tokens = one.analysis.progress.tokens_per_step, two.analysis.progress.tokens_per_step
    # An MFU may be that of one device of several: where the tokens are known, they have to agree with it.
    if tokens[0] and tokens[1] and not 1 / MFU_DOUBT < ratio * tokens[1] / tokens[0] < MFU_DOUBT:
        return None
    return Work(one.place, two.place, ratio, "mfu", times)


def _by_mfu(side: Side) -> tuple[str, float] | None:
    """The peak that the printed MFU is a share of, and the arithmetic of a step as a multiple of a second of it."""
    measured = [mfu for mfu in side.run.steps.mfu_pct if mfu > 0 and math.isfinite(mfu)]
    if not measured:
        return None
    # Slow lines pull a moving average down; most lines lie near the value without them.
    share = percentile(measured, 75)
    if share > 100:
        return None
    peak = side.settings.get("peak_flops")
    if isinstance(peak, int | float) and peak > 0:
        return "flops", share / 100 * peak * _seconds(side)
    assumed = side.settings.get("mfu_assumes") or side.run.traits.mfu_assumes
    return (str(assumed), share * _seconds(side)) if assumed else None


def _by_sizes(side: Side) -> float | None:
    parameters, tokens = side.settings.get("parameters"), side.analysis.progress.tokens_per_step
    return parameters * tokens if isinstance(parameters, int) and tokens else None
