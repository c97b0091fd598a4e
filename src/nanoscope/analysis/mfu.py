"""The printed MFU: whose peak it was divided by, and what it is on the device at hand."""

import math
from array import array

from nanoscope.analysis.findings import Mfu, MfuReason, MfuTrust
from nanoscope.estimates import median, percentile
from nanoscope.hardware.peaks import Peak, find_peak
from nanoscope.runs.run import Run

LAG = 0.05  # a moving average this far below its settled value is no longer the speed of a normal step
PLAUSIBLE = (0.3, 0.7)
CPU_NAMES = ("cpu", "mps")


def analyse_mfu(run: Run, device_option: str | None) -> Mfu | None:
    """What the log's MFU is worth; None if it prints none."""
    printed = array("d", (mfu / 100 for mfu in run.steps.mfu_pct if math.isfinite(mfu)))
    if not printed:
        return None
    assumed_name = _assumed(run)
    assumed = find_peak(assumed_name) if assumed_name else None
    device_name = device_option or _device_of(run)
    device = find_peak(device_name) if device_name else None
    dtype = _dtype(run)
    measured = array("d", (mfu for mfu in printed if mfu > 0))
    logged = median(measured) if measured else None
    last = measured[-1] if measured else None
    smoothed = run.traits.mfu_is_moving_average
    settled = percentile(measured, 90) if smoothed and measured else logged
    lag = settled - last if smoothed and len(measured) >= 5 and settled and last else None
    trust: MfuTrust
    reason: MfuReason
    if settled is None:
        trust, reason = "unmeasured", "not_measured" if min(printed) < 0 else "peak_unknown"
    elif settled > 1:
        trust, reason = "wrong_peak", "above_one"
    elif assumed is None:
        trust, reason = "ok", "trainer_knows_device"
    elif device is not None and device.name == assumed.name:
        lagging = lag is not None and lag > LAG * settled
        trust, reason = ("smoothing_lag", "moving_average") if lagging else ("ok", "matches_device")
    elif device_name:
        trust, reason = "wrong_peak", "assumes_other_device"
    else:  # a figure that good trainers reach on the assumed device is likely to have been measured on it
        trust, reason = "ok" if PLAUSIBLE[0] <= settled <= PLAUSIBLE[1] else "wrong_peak", "device_unknown"
    return Mfu(
        logged=logged,
        last=last,
        trust=trust,
        reason=reason,
        assumed_device=assumed_name,
        device=device.name if device else device_name,
        peak_tflops=_tflops(device, dtype),
        peak_source=device.source if device else None,
        recomputed=_recompute(settled, assumed, device, dtype),
        lag=lag,
    )


def _assumed(run: Run) -> str | None:
    """The device that the trainer takes for granted."""
    said = run.config.get("mfu_assumes")
    return str(said) if said else run.traits.mfu_assumes


def _device_of(run: Run) -> str | None:
    name = run.config.get("device_name")
    if name:
        return str(name)
    device = str(run.config.get("device", ""))
    return device if device in CPU_NAMES else None


def _dtype(run: Run) -> str:
    text = str(run.config.get("dtype", "")).lower()
    if "float32" in text or text in ("fp32", "32-true"):
        return "float32"
    return "float16" if text in ("float16", "fp16") or "16-mixed" in text else "bfloat16"


def _tflops(peak: Peak | None, dtype: str) -> float | None:
    if peak is None:
        return None
    flops = peak.flops(dtype) or peak.flops("float16") or peak.flops("float32")
    return flops / 1e12 if flops else None


def _recompute(settled: float | None, assumed: Peak | None, device: Peak | None, dtype: str) -> float | None:
    """The same work over the device's own peak."""
    of, by = _tflops(assumed, "bfloat16"), _tflops(device, dtype)
    return settled * of / by if settled and of and by else None
