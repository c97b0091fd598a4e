"""The printed MFU: whose peak it was divided by, and what it is on the device at hand."""

import numpy as np

from nanoscope.analysis.findings import Mfu
from nanoscope.analysis.timing import Timing
from nanoscope.hardware.peaks import Peak, find_peak
from nanoscope.runs.run import Run

LAG = 0.05  # a moving average this far below its settled value is no longer the speed of a normal step
CPU_NAMES = ("cpu", "mps")


def analyse_mfu(run: Run, timing: Timing, device_option: str | None) -> Mfu | None:
    """What the log's MFU is worth; None if it prints none."""
    printed = np.array(run.steps.mfu_pct, dtype=np.float64) / 100
    if not np.isfinite(printed).any():
        return None
    assumed_name = _assumed(run)
    assumed = find_peak(assumed_name) if assumed_name else None
    device_name = device_option or _device_of(run)
    device = find_peak(device_name) if device_name else None
    dtype = _dtype(run)
    peaks = dict(
        assumed_device=assumed_name,
        assumed_peak_tflops=_tflops(assumed, "bfloat16"),
        device=device.name if device else device_name,
        peak_tflops=_tflops(device, dtype),
        peak_source=device.source if device else None,
    )
    measured = printed[np.isfinite(printed) & (printed > 0)]
    if len(measured) == 0:
        reason = "not_measured" if (printed[np.isfinite(printed)] < 0).any() else "peak_unknown"
        return Mfu(
            logged=None, last=None, trust="unmeasured", reason=reason, recomputed=None, lag=None, **peaks
        )  # type: ignore[arg-type]
    logged, last = float(np.median(measured)), float(measured[-1])
    settled = float(np.percentile(measured, 90)) if run.traits.mfu_is_moving_average else logged
    lag = settled - last if run.traits.mfu_is_moving_average and len(measured) >= 5 else None

    if assumed is None:
        trust, reason, recomputed = (
            ("wrong_peak", "above_one", None) if last > 1 else ("ok", "trainer_knows_device", None)
        )
    else:
        same_device = device is not None and device.name == assumed.name
        recomputed = _recompute(settled, assumed, device, dtype)
        if same_device:
            lagging = lag is not None and lag > LAG * settled
            trust, reason = ("smoothing_lag", "moving_average") if lagging else ("ok", "matches_device")
        elif device_name:
            trust, reason = "wrong_peak", "assumes_other_device"
        else:
            trust, reason = "wrong_peak", "above_one" if settled > 1 else "device_unknown"
    return Mfu(logged=logged, last=last, trust=trust, reason=reason, recomputed=recomputed, lag=lag, **peaks)  # type: ignore[arg-type]


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


def _recompute(settled: float, assumed: Peak, device: Peak | None, dtype: str) -> float | None:
    """The same work over the device's own peak."""
    of, by = _tflops(assumed, "bfloat16"), _tflops(device, dtype)
    return settled * of / by if of and by else None
