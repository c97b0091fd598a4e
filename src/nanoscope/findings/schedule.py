"""Where a run stands in its learning-rate schedule, by the printed rates or else by the settings."""

import math
from array import array
from dataclasses import replace

from nanoscope.findings.declared import RunProgress, Schedule
from nanoscope.findings.declared.learning import Stage
from nanoscope.findings.numbers import is_printed
from nanoscope.runs.run import OWN_FORMAT, Run

RISING, ENDED = 1.02, 0.02  # of the rate a quarter of the lines earlier; of the highest rate
LEAST_PRINTED = 4
WARMUP_KEYS = ("warmup_iters", "warmup_steps")


def analyse_schedule(run: Run, progress: RunProgress) -> Schedule | None:
    """The stage of the schedule at the last line; None where nothing tells."""
    last = progress.last_step
    if last is None or not run.steps:
        return None
    if run.format == OWN_FORMAT:  # its events hold the rates and its console doesn't: both tell the same
        return _configured(run, last, progress.total_steps)
    rates = array("d", (lr for lr in run.steps.lr if math.isfinite(lr)) if is_printed(run.steps.lr) else ())
    if len(rates) >= LEAST_PRINTED or (len(rates) > 1 and rates[-1] == 0):
        return _printed(run, rates)
    shares = run.series.get("lr_share")
    if shares is not None and len(shares.values) >= LEAST_PRINTED:
        found = _printed(run, shares.values)
        return replace(found, lr=None, highest=None, share=shares.values[-1])
    return _configured(run, last, progress.total_steps)


def _printed(run: Run, rates: "array[float]") -> Schedule:
    now, highest = rates[-1], max(rates)
    earlier = rates[-max(2, len(rates) // 4)]
    warmup = _setting(run, *WARMUP_KEYS)
    from_the_start = run.steps.step[0] <= max(1, 0.1 * run.steps.step[-1])
    stage: Stage = "constant" if now >= 0.98 * highest else "decay"
    if now <= ENDED * highest:
        stage = "ended"
    elif now > RISING * earlier and now >= 0.999 * highest and rates[0] < now / 2 and from_the_start:
        stage = "warmup"
    return Schedule(stage, now, highest, int(warmup) if warmup and stage == "warmup" else None, printed=True)


def _configured(run: Run, last: int, total_steps: int | None) -> Schedule | None:
    """By the settings of a run that prints no rates."""
    warmup, rate, scale = _setting(run, *WARMUP_KEYS), _setting(run, "learning_rate"), _setting(run, "lr_scale") or 1.0
    rate = None if rate is None else scale * rate
    if warmup is not None and warmup > last:
        return Schedule("warmup", None, rate, int(warmup), printed=False)
    if run.config.get("decay_lr") is False:
        return Schedule("constant", rate, rate, None, printed=False)
    end = _setting(run, "lr_decay_iters") or total_steps
    if rate is None or end is None or not ("lr_decay_iters" in run.config or "cooldown" in run.config):
        return None
    lowest = _setting(run, "min_lr")
    if lowest is None:
        lowest = 0.0 if run.config.get("recipe") == "modern" else rate / 10
    else:
        lowest *= scale
    if lowest > rate / 2:
        return Schedule("constant", rate, rate, None, printed=False)
    if last >= 0.98 * end:
        return Schedule("ended", lowest, rate, None, printed=False)
    return Schedule("decay", None, rate, None, printed=False)


def _setting(run: Run, *keys: str) -> float | None:
    values = (run.config.get(key) for key in keys)
    return next((float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)), None)
