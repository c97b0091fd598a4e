"""How well the device is used: arithmetic achieved per second, and what share of a peak that is.

One definition: the share that a normal step reaches, without the evaluations that pull a printed moving average down.
The share printed, times the peak that the trainer assumed, is the arithmetic achieved; that, over the peak of the
device at hand, is the share of that device.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

from nanoscope.estimates import ENOUGH, median, spread_indices
from nanoscope.findings.declared.base import Finding
from nanoscope.findings.numbers import common_gap
from nanoscope.findings.progress import tokens_in_step, trained_parameters
from nanoscope.findings.slow import SlowRecord
from nanoscope.findings.timing import NormalStep
from nanoscope.hardware.peaks import KnownDevice, find_device
from nanoscope.messages import Message, Said, sentences, verbatim
from nanoscope.runs.run import OWN_FORMAT, Run

PEAK = verbatim("{peak_tflops:significant} TFLOPS, {peak_dtype}; {peak_source}")

PLACEHOLDER = Message(
    "{mfu} is a placeholder: the trainer does not measure MFU during its first five iterations.", mfu="mfu -100.00%"
)

MfuTrust = Literal["ok", "wrong_peak", "smoothing_lag", "unmeasured"]

MfuReason = Literal[
    "matches_device", "above_one", "does_not_fit", "assumes_other_device", "device_unknown", "moving_average",
    "not_measured", "rounds_to_zero", "peak_unknown", "unchecked",
]  # fmt: skip


class Mfu(Finding):
    """The printed MFU, whether to believe it, and what it is on the actual device.

    `settled` × `assumed_tflops` = `achieved_tflops` = `recomputed` × `peak_tflops`.
    """

    logged: float | None  # median of the printed values, as a fraction; None if never measured
    settled: float | None  # of a normal step, without the evaluations in a printed moving average
    last: float | None
    trust: MfuTrust
    reason: MfuReason
    assumed_device: str | None
    assumed_tflops: float | None  # the peak that the trainer divides by
    achieved_tflops: float | None
    device: str | None
    peak_tflops: float | None
    peak_dtype: str | None
    peak_source: str | None
    recomputed: float | None  # fraction of the peak of `device`
    lag: float | None  # how far slow steps pull the printed moving average down, as a fraction of MFU
    falls_at: int | None = None  # the first evaluation at which a printed moving average falls …
    fell_from: float | None = None
    fell_to: float | None = None
    begins_unmeasured: bool = False  # the first value printed is a placeholder

    def text(self) -> Said:
        return sentences(self._printed(), self._on_device(), self.falls(), self.begins_unmeasured and PLACEHOLDER)

    def _printed(self) -> Said:
        match self.reason:
            case "not_measured":
                if self.begins_unmeasured:
                    return None
                return Message("MFU was not measured; the negative value is a placeholder.")
            case "rounds_to_zero":
                return Message(
                    "MFU is printed as 0: this run does too little arithmetic to show against "
                    "{assumed_tflops:significant} TFLOP/s, the peak of {assumed_device}, which the trainer assumes."
                )
            case "peak_unknown":
                return Message("MFU is printed as 0: the trainer does not know the peak of this device.")
            case "above_one":
                return sentences(
                    Message(
                        "The printed MFU of {settled:percent} is impossible, because no device exceeds its peak: the "
                        "trainer divides by the peak of another device, or miscounts the work."
                    ),
                    self.achieved_tflops is not None
                    and Message(
                        "If the work is counted correctly, {achieved_tflops:significant} TFLOP/s were achieved."
                    ),
                )
            case "does_not_fit":
                return Message(
                    "These figures do not fit together: the printed MFU of {settled:percent} means "
                    "{achieved_tflops:significant} TFLOP/s, more than the {peak_tflops:significant} TFLOP/s "
                    "that {device} can do. Check the device, the batch and the number of parameters."
                )
            case "assumes_other_device" | "device_unknown":
                if self.assumed_device is None:
                    return None
                return Message(
                    "Achieved {achieved_tflops:significant} TFLOP/s = MFU {settled:percent} × "
                    "{assumed_tflops:significant} TFLOP/s, the peak of {assumed_device}, which the trainer assumes."
                )
            case "moving_average":
                return Message(
                    "The printed MFU (last {last:percent}) is a moving average that evaluations pull down: "
                    "a normal step reaches {settled:percent}, {achieved_tflops:significant} TFLOP/s."
                )
            case "matches_device":
                return Message(
                    "MFU {settled:percent}: training uses {achieved_tflops:significant} of the "
                    "{assumed_tflops:significant} TFLOP/s that this device can do."
                )
            case "unchecked":
                return self._unchecked()

    def _unchecked(self) -> Said:
        if self.assumed_tflops is None:
            return Message("The log prints an MFU of {settled:percent}, and does not show against which peak.")
        return Message(
            "The printed MFU of {settled:percent} assumes a peak of {assumed_tflops:significant} TFLOP/s: "
            "{achieved_tflops:significant} TFLOP/s were achieved. The log does not show whether this device "
            "has that peak."
        )

    def _on_device(self) -> Said:
        if self.recomputed is not None and self.reason in ("assumes_other_device", "above_one"):
            return Message("On {device} (peak {peak}) that is {recomputed:percent}.", peak=PEAK)
        known = self.device and self.peak_dtype and self.peak_source
        if known and self.reason in ("matches_device", "moving_average", "unchecked"):
            return Message("The peak is that of {device}: {peak}.", peak=PEAK)
        if self.device is None and self.assumed_tflops and self.trust == "wrong_peak":
            return Message("{option} works out the share for your device.", option="--device NAME")
        return None

    def falls(self) -> Said:
        if self.falls_at is None or self.fell_from is None or self.fell_to is None:
            return None
        return Message(
            "The printed MFU falls at evaluations (step {falls_at:plain}: from {before} to {after}) though training is "
            "no slower: it is a moving average, {kept} × the value before + {new} × that of the line, whose time "
            "includes the evaluation.",
            kept="0.9",
            new="0.1",
            before=f"{100 * self.fell_from:.2f}%",
            after=f"{100 * self.fell_to:.2f}%",
        )


class Achieved(Finding):
    """Arithmetic per second, from the model's size and its tokens per second."""

    tflops: float
    per_device: bool
    parameters: int | None
    device: str | None
    peak_tflops: float | None
    peak_dtype: str | None
    peak_source: str | None
    share: float | None  # of the peak of `device`

    def text(self) -> Said:
        return sentences(
            self._achieved(),
            self.share is not None and Message("That is {share:percent} of the peak of {device} ({peak}).", peak=PEAK),
        )

    def _achieved(self) -> Said:
        if self.parameters is None:
            return Message("Achieved {tflops:significant} TFLOP/s, by the log's own FLOPs per token.")
        if self.per_device:
            return Message(
                "Achieved {tflops:significant} TFLOP/s on each device: 6 × {parameters:large} parameters × tokens/s."
            )
        return Message("Achieved {tflops:significant} TFLOP/s: 6 × {parameters:large} parameters × tokens/s.")


LAG = 0.05  # a moving average this far below the value of a normal step is no longer its speed
NOT_YET = -1.0  # printed before the first measurement
ROUNDED_PCT = 0.01  # how far two printed values may be off together
KEPT = 0.9  # of the value before, in nanoGPT's moving average
PLAUSIBLE = (0.3, 0.7)
WORTH_BELIEVING = 0.05  # less, against a peak that nothing confirms, is more likely a wrong peak than a slow trainer
IMPOSSIBLE = 1.05  # of a peak: beyond what a rounded peak explains
SAME_PEAK = 0.15  # two peaks that differ by less are those of one device
ATTENTION = 0.25  # of the arithmetic: what 6 × parameters leaves out
LEAST_TFLOPS = 0.01  # less is not worth a line
CPU_NAMES = ("cpu", "mps")
BLOCK = 10  # printed values, whose rounding averages out


def analyse_mfu(
    run: Run, normal: NormalStep | None, slow: Sequence[SlowRecord], device_option: str | None
) -> Mfu | None:
    """What the log's MFU is worth; None if it prints none."""
    column = run.steps.mfu_pct
    printed = array("d", (column[i] / 100 for i in spread_indices(len(column)) if math.isfinite(column[i])))
    if not printed:
        return None
    device_name = device_option or _device_of(run)
    device = find_device(device_name) if device_name else None
    peak, dtype = _peak(device, run)
    source = device.source if device else None
    assumed_name, assumed = _assumed(run)
    measured = array("d", (mfu for mfu in printed if mfu > 0))
    last = measured[-1] if measured else None
    settled, smoothed = _settled(run, normal, measured)
    lag = settled - last if smoothed and len(measured) >= 5 and settled and last else None
    if assumed is None and settled:
        assumed = _implied_peak(run, normal, settled)
        if assumed and peak and assumed > peak:  # of all devices together, if it is a whole number of peaks
            devices = round(assumed / peak)
            peak = devices * peak if abs(assumed / (devices * peak) - 1) <= SAME_PEAK else peak
    if assumed is None and settled and peak and _confirms(run, normal, settled * peak):
        assumed = peak
    if run.format == OWN_FORMAT and assumed and not device_option:
        peak = assumed  # nanoscope looks up or measures the peak of the devices it runs on
        dtype, source = _said(run, "peak_dtype"), _said(run, "peak_source")
    achieved = settled * assumed if settled and assumed else None
    recomputed = achieved / peak if achieved and peak else None
    falls_at, fell_from, fell_to = _fall(run, slow) or (None, None, None)
    trust: MfuTrust
    reason: MfuReason
    if settled is None:
        trust, reason = "unmeasured", "not_measured"
        if max(printed) == 0:
            reason = "rounds_to_zero" if assumed_name and assumed else "peak_unknown"
    elif recomputed is not None and recomputed > IMPOSSIBLE:
        trust, reason, recomputed = "wrong_peak", "does_not_fit", None
    elif settled > 1:
        trust, reason = "wrong_peak", "above_one"
    elif assumed is None:
        trust, reason = "ok" if settled >= WORTH_BELIEVING else "wrong_peak", "unchecked"
    elif peak is not None and abs(assumed / peak - 1) <= SAME_PEAK:
        lagging = lag is not None and lag > LAG * settled
        trust, reason = ("smoothing_lag", "moving_average") if lagging else ("ok", "matches_device")
    elif device_name and (peak or assumed_name):
        trust, reason = "wrong_peak", "assumes_other_device"
    elif assumed_name is None:
        trust, reason = "ok" if settled >= WORTH_BELIEVING else "wrong_peak", "unchecked"
    else:  # a figure that good trainers reach on the assumed device is likely to have been measured on it
        trust, reason = "ok" if PLAUSIBLE[0] <= settled <= PLAUSIBLE[1] else "wrong_peak", "device_unknown"
    return Mfu(
        logged=median(measured) if measured else None,
        settled=settled,
        last=last,
        trust=trust,
        reason=reason,
        assumed_device=assumed_name,
        assumed_tflops=assumed,
        achieved_tflops=achieved,
        device=device.name if device else device_name,
        peak_tflops=peak,
        peak_dtype=dtype if peak else None,
        peak_source=source if peak else None,
        recomputed=recomputed,
        lag=lag,
        falls_at=falls_at,
        fell_from=fell_from,
        fell_to=fell_to,
        begins_unmeasured=run.traits.mfu_is_moving_average and printed[0] == NOT_YET,
    )


def analyse_achieved(run: Run, normal: NormalStep | None, device_option: str | None) -> Achieved | None:
    """Arithmetic per second from the size of the model and its speed, for logs that print no MFU of use."""
    per_token, tok_s = _flops_per_token(run), normal.throughput_tok_s if normal else None
    if not per_token or not tok_s or (tokens_in_step(run) is None and not run.tok_s_per_device):
        return None
    if per_token * tok_s < LEAST_TFLOPS * 1e12:
        return None
    device_name = device_option or _device_of(run)
    device = find_device(device_name) if device_name else None
    tflops = per_token * tok_s / 1e12
    peak, dtype = _peak(device, run)
    share = tflops / peak if peak else None
    if share is not None and share > IMPOSSIBLE and not run.tok_s_per_device:
        share = None  # several devices, then
    parameters = None if run.config.get("flops_per_token") else trained_parameters(run)
    return Achieved(
        tflops=tflops,
        per_device=run.tok_s_per_device,
        parameters=parameters,
        device=device.name if device else None,
        peak_tflops=peak,
        peak_dtype=dtype,
        peak_source=device.source if device and peak else None,
        share=share,
    )


# --- what a normal step reaches ---


def believable_mfu(mfu: Mfu | None, achieved: Achieved | None) -> float | None:
    """MFU of the device that the run was on; None where the printed figure is not to be believed."""
    if mfu is None:
        return achieved.share if achieved else None
    if mfu.recomputed is not None:
        return mfu.recomputed
    return mfu.settled if mfu.trust in ("ok", "smoothing_lag") else None


def mfu_peak(mfu: Mfu | None, achieved: Achieved | None) -> float | None:
    """The TFLOPS that `believable_mfu` is a share of."""
    if mfu is None:
        return achieved.peak_tflops if achieved else None
    return mfu.peak_tflops if mfu.recomputed is not None else mfu.assumed_tflops


def _settled(run: Run, normal: NormalStep | None, measured: Sequence[float]) -> tuple[float | None, bool]:
    """The share that a normal step reaches, and whether the printed values are a moving average."""
    if not measured:
        return None, False
    if not run.traits.mfu_is_moving_average:
        return median(measured), False
    work = _work_of_steps(run)
    if normal is None or not work:
        return median(measured), True
    return median(work) / normal.typical_s, True


def _fall(run: Run, slow: Sequence[SlowRecord]) -> tuple[int, float, float] | None:
    """The first evaluation at which a printed moving average falls: its step, the value before and that after."""
    steps, printed = run.steps.step, run.steps.mfu_pct
    for record in slow if run.traits.mfu_is_moving_average else ():
        index = bisect_left(steps, record.step)
        before, after = printed[index - 1], printed[index]
        if "evaluation" in record.causes and index and max(0.0, KEPT * before - ROUNDED_PCT) < after < before:
            return record.step, before / 100, after / 100
    return None


def _work_of_steps(run: Run) -> list[float]:
    """MFU × seconds, which is the work of a step, out of the printed average: new = kept × old + (1 − kept) × MFU."""
    steps, times, printed = run.steps.step, run.steps.time_s, run.steps.mfu_pct
    interval = common_gap(steps)
    work: list[float] = []
    gained = weight = 0.0
    count = 0
    for index in range(max(1, len(steps) - ENOUGH), len(steps)):
        before, after, time_s = printed[index - 1], printed[index], times[index]
        if not (before > 0 and after > 0 and 0 < time_s < math.inf and steps[index] - steps[index - 1] == interval):
            gained = weight = 0.0
            count = 0
            continue
        gained += after - KEPT * before
        weight += (1 - KEPT) / time_s
        count += 1
        if count == BLOCK or (index == len(steps) - 1 and not work and count > 2):
            work.append(gained / weight / 100)
            gained = weight = 0.0
            count = 0
    return [value for value in work if value > 0]


# --- peaks ---


def _assumed(run: Run) -> tuple[str | None, float | None]:
    """The device that the trainer takes for granted, and its peak in TFLOPS."""
    said = run.config.get("peak_flops")
    if isinstance(said, int | float) and said > 0:
        return None, said / 1e12
    name = run.config.get("mfu_assumes") or run.traits.mfu_assumes
    return (str(name), _assumed_tflops(str(name))) if name else (None, None)


def _implied_peak(run: Run, normal: NormalStep | None, settled: float) -> float | None:
    """The peak that the trainer must have divided by, where the log has the arithmetic of a token and the speed."""
    per_token, tok_s = run.config.get("flops_per_token"), normal.throughput_tok_s if normal else None
    if not isinstance(per_token, int | float) or not tok_s or run.tok_s_per_device:
        return None
    return per_token * tok_s / 1e12 / settled


def _confirms(run: Run, normal: NormalStep | None, achieved: float) -> bool:
    """Whether the model's size and its speed give about as many TFLOP/s."""
    per_token, tok_s = _flops_per_token(run), normal.throughput_tok_s if normal else None
    return bool(per_token and tok_s) and abs(achieved * 1e12 / (per_token or 1.0) / (tok_s or 1.0) - 1) <= ATTENTION


def _flops_per_token(run: Run) -> float | None:
    said, parameters = run.config.get("flops_per_token"), trained_parameters(run)
    if isinstance(said, int | float) and said > 0:
        return float(said)
    return 6.0 * parameters if parameters else None


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


def _said(run: Run, key: str) -> str | None:
    return str(run.config[key]) if run.config.get(key) else None


def _assumed_tflops(name: str) -> float | None:
    """The peak that trainers mean by the name of a device: that of its fastest dtype for training."""
    device = find_device(name)
    return device.bf16_tflops or device.fp16_tflops or device.fp32_tflops if device else None


def _peak(device: KnownDevice | None, run: Run) -> tuple[float | None, str | None]:
    """The peak of a device in TFLOPS, in the run's dtype or the next that the device has, and that dtype."""
    if device is not None:
        for dtype in (_dtype(run), "float16", "float32"):
            if (flops := device.flops(dtype)) is not None:
                return flops / 1e12, dtype
    return None, None
