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
from nanoscope.hardware.peaks import find_device
from nanoscope.messages import Message, Said, sentences, verbatim
from nanoscope.runs.run import OWN_FORMAT, ConfigValue, Run

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
BLOCK, FEWEST_IN_BLOCK = 10, 3

Outcome = Literal["ok", "other_device", "impossible", "unknown"]

PEAK = verbatim("{peak_tflops:significant} TFLOPS, {peak_dtype}; {peak_source}")
PLACEHOLDER = Message(
    "{mfu} is a placeholder: the trainer does not measure MFU during its first five iterations.", mfu="mfu -100.00%"
)


class OnDevice(Finding):
    """What the device at hand can do, as far as that is known."""

    device: str | None
    peak_tflops: float | None
    peak_dtype: str | None
    peak_source: str | None


class Mfu(OnDevice):
    """The printed MFU, whether it is that of the device at hand, and what it is there.

    `settled` × `assumed_tflops` = `achieved_tflops` = `recomputed` × `peak_tflops`.
    """

    logged: float | None  # median of the printed values, as a fraction; None if never measured
    settled: float | None  # of a normal step, without the evaluations in a printed moving average
    last: float  # printed; zero or less if never measured
    outcome: Outcome
    assumed_device: str | None
    assumed_tflops: float | None  # the peak that the trainer divides by
    achieved_tflops: float | None
    recomputed: float | None  # fraction of the peak of `device`
    lags: bool  # slow steps have pulled the printed moving average down
    fell: tuple[int, float, float] | None = None  # the first evaluation at which a moving average falls, from and to
    begins_unmeasured: bool = False  # the first value printed is a placeholder

    @property
    def believed(self) -> float | None:
        """The share of the device at hand."""
        if self.recomputed is not None or self.settled is None:
            return self.recomputed
        low, high = PLAUSIBLE if self.assumed_device else (WORTH_BELIEVING, 1.0)
        # A figure that good trainers reach on the assumed device is likely to have been measured on it.
        likely = self.outcome == "unknown" and low <= self.settled <= high
        return self.settled if likely or self.outcome == "ok" else None

    @property
    def trust(self) -> Literal["ok", "wrong_peak", "smoothing_lag", "unmeasured"]:
        """The outcome in the words of explain/1."""
        if self.settled is None:
            return "unmeasured"
        if self.outcome in ("other_device", "impossible") or self.believed is None:
            return "wrong_peak"
        return "smoothing_lag" if self.outcome == "ok" and self.lags else "ok"

    def text(self) -> Said:
        said = (self._unmeasured(),) if self.settled is None else (self._printed(), self._on_device())
        return sentences(*said, self.falls(), self.begins_unmeasured and PLACEHOLDER)

    def _printed(self) -> Said:
        match self.outcome:
            case "impossible":
                return self._impossible()
            case "ok" if self.lags:
                return Message(
                    "The printed MFU (last {last:percent}) is a moving average that evaluations pull down: "
                    "a normal step reaches {settled:percent}, {achieved_tflops:significant} TFLOP/s."
                )
            case "ok":
                return Message(
                    "MFU {settled:percent}: training uses {achieved_tflops:significant} of the "
                    "{assumed_tflops:significant} TFLOP/s that this device can do."
                )
        if self.assumed_tflops is None:
            return Message("The log prints an MFU of {settled:percent}, and does not show against which peak.")
        if self.assumed_device is not None:
            return Message(
                "Achieved {achieved_tflops:significant} TFLOP/s = MFU {settled:percent} × "
                "{assumed_tflops:significant} TFLOP/s, the peak of {assumed_device}, which the trainer assumes."
            )
        if self.outcome == "other_device":
            return None
        return Message(
            "The printed MFU of {settled:percent} assumes a peak of {assumed_tflops:significant} TFLOP/s: "
            "{achieved_tflops:significant} TFLOP/s were achieved. The log does not show whether this device "
            "has that peak."
        )

    def _unmeasured(self) -> Said:
        if self.last < 0:
            missing = Message("MFU was not measured; the negative value is a placeholder.")
            return None if self.begins_unmeasured else missing
        if self.assumed_device and self.assumed_tflops:
            return Message(
                "MFU is printed as 0: this run does too little arithmetic to show against "
                "{assumed_tflops:significant} TFLOP/s, the peak of {assumed_device}, which the trainer assumes."
            )
        return Message("MFU is printed as 0: the trainer does not know the peak of this device.")

    def _impossible(self) -> Said:
        if self.achieved_tflops and self.peak_tflops and self.recomputed is None:
            return Message(
                "These figures do not fit together: the printed MFU of {settled:percent} means "
                "{achieved_tflops:significant} TFLOP/s, more than the {peak_tflops:significant} TFLOP/s "
                "that {device} can do. Check the device, the batch and the number of parameters."
            )
        return sentences(
            Message(
                "The printed MFU of {settled:percent} is impossible, because no device exceeds its peak: the "
                "trainer divides by the peak of another device, or miscounts the work."
            ),
            self.achieved_tflops is not None
            and Message("If the work is counted correctly, {achieved_tflops:significant} TFLOP/s were achieved."),
        )

    def _on_device(self) -> Said:
        if self.recomputed is not None and self.outcome in ("other_device", "impossible"):
            return Message("On {device} (peak {peak}) that is {recomputed:percent}.", peak=PEAK)
        if self.device and self.peak_dtype and self.peak_source and self.outcome in ("ok", "unknown"):
            return Message("The peak is that of {device}: {peak}.", peak=PEAK)
        if self.device is None and self.assumed_tflops and self.trust == "wrong_peak":
            return Message("{option} works out the share for your device.", option="--device NAME")
        return None

    def falls(self) -> Said:
        if self.fell is None:
            return None
        falls_at, before, after = self.fell
        return Message(
            "The printed MFU falls at evaluations (step {falls_at:plain}: from {before} to {after}) though training is "
            "no slower: it is a moving average, {kept} × the value before + {new} × that of the line, whose time "
            "includes the evaluation.",
            kept="0.9",
            new="0.1",
            falls_at=falls_at,
            before=f"{100 * before:.2f}%",
            after=f"{100 * after:.2f}%",
        )


class Achieved(OnDevice):
    """Arithmetic per second, from the model's size and its tokens per second."""

    tflops: float
    per_device: bool
    parameters: int | None
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


def analyse_mfu(
    run: Run, normal: NormalStep | None, slow: Sequence[SlowRecord], device_option: str | None
) -> Mfu | None:
    """What the log's MFU is worth; None if it prints none."""
    column = run.steps.mfu_pct
    printed = array("d", (column[i] / 100 for i in spread_indices(len(column)) if math.isfinite(column[i])))
    if not printed:
        return None
    measured = array("d", (mfu for mfu in printed if mfu > 0))
    settled, last = _settled(run, normal, measured), (measured or printed)[-1]
    here = _device(run, device_option)
    assumed_device, assumed = _assumed(run, normal, settled, here.peak_tflops)
    peak = here.peak_tflops
    if assumed and peak and assumed > peak and not assumed_device:
        devices = round(assumed / peak)  # the trainer may divide by the peak of all of them together
        here.peak_tflops = devices * peak if abs(assumed / (devices * peak) - 1) <= SAME_PEAK else peak
    if run.format == OWN_FORMAT and assumed and not device_option:
        # nanoscope looks up or measures the peak of the devices it runs on
        here.peak_tflops, here.peak_dtype, here.peak_source = (
            assumed,
            _text(run, "peak_dtype"),
            _text(run, "peak_source"),
        )
    achieved = settled * assumed if settled and assumed else None
    share = achieved / here.peak_tflops if achieved and here.peak_tflops else None
    outcome: Outcome = "unknown"
    if settled and max(settled, (share or 0.0) / IMPOSSIBLE) > 1:
        outcome = "impossible"
    elif settled and assumed and here.peak_tflops and abs(assumed / here.peak_tflops - 1) <= SAME_PEAK:
        outcome = "ok"
    elif settled and assumed and here.device and (here.peak_tflops or assumed_device):
        outcome = "other_device"
    return Mfu(
        **vars(here),
        logged=median(measured) if measured else None,
        settled=settled,
        last=last,
        outcome=outcome,
        assumed_device=assumed_device,
        assumed_tflops=assumed,
        achieved_tflops=achieved,
        recomputed=None if share is not None and share > IMPOSSIBLE else share,
        lags=run.traits.mfu_is_moving_average and last < (1 - LAG) * (settled or 0.0) and len(measured) >= 5,
        fell=_fall(run, slow),
        begins_unmeasured=run.traits.mfu_is_moving_average and printed[0] == NOT_YET,
    )


def analyse_achieved(run: Run, normal: NormalStep | None, device_option: str | None) -> Achieved | None:
    """Arithmetic per second from the size of the model and its speed, for logs that print no MFU of use."""
    tflops, here = _tflops(run, normal), _device(run, device_option)
    if tflops is None or tflops < LEAST_TFLOPS or (tokens_in_step(run) is None and not run.tok_s_per_device):
        return None
    share = tflops / here.peak_tflops if here.peak_tflops else None
    if share is not None and share > IMPOSSIBLE and not run.tok_s_per_device:
        share = None  # several devices, then
    parameters = None if run.config.get("flops_per_token") else trained_parameters(run)
    return Achieved(**vars(here), tflops=tflops, per_device=run.tok_s_per_device, parameters=parameters, share=share)


def share_of_device(mfu: Mfu | None, achieved: Achieved | None) -> tuple[float | None, float | None]:
    """MFU of the device that the run was on, None where the printed figure is not to be believed, and the TFLOPS that
    it is a share of."""
    if mfu is None:
        return (achieved.share, achieved.peak_tflops) if achieved else (None, None)
    return mfu.believed, mfu.assumed_tflops if mfu.recomputed is None else mfu.peak_tflops


# --- what a normal step reaches ---


def _settled(run: Run, normal: NormalStep | None, measured: Sequence[float]) -> float | None:
    """The share that a normal step reaches."""
    work = _work_of_a_step(run) if run.traits.mfu_is_moving_average and normal is not None else None
    return work / normal.typical_s if work and normal else median(measured) if measured else None


def _work_of_a_step(run: Run) -> float | None:
    """MFU × seconds, the same for all steps, out of the printed average: new = kept × old + (1 − kept) × MFU.

    Lines count in blocks, in which their rounding averages out.
    """
    steps, times, printed = run.steps.step, run.steps.time_s, run.steps.mfu_pct
    interval = common_gap(steps)
    lines: list[tuple[float, float]] = []
    for index in range(max(1, len(steps) - ENOUGH), len(steps)):
        before, after, time_s = printed[index - 1], printed[index], times[index]
        if steps[index] - steps[index - 1] == interval and before > 0 and after > 0 and 0 < time_s < math.inf:
            lines.append(((after - KEPT * before) / 100, (1 - KEPT) / time_s))
    blocks = [lines[i : i + BLOCK] for i in range(0, len(lines) - FEWEST_IN_BLOCK + 1, BLOCK)]
    return median([sum(gained for gained, _ in b) / sum(weight for _, weight in b) for b in blocks]) if blocks else None


def _fall(run: Run, slow: Sequence[SlowRecord]) -> tuple[int, float, float] | None:
    """The first evaluation at which a printed moving average falls: its step, the value before and that after."""
    steps, printed = run.steps.step, run.steps.mfu_pct
    for record in slow if run.traits.mfu_is_moving_average else ():
        index = bisect_left(steps, record.step)
        before, after = printed[index - 1], printed[index]
        if "evaluation" in record.causes and index and max(0.0, KEPT * before - ROUNDED_PCT) < after < before:
            return record.step, before / 100, after / 100
    return None


# --- peaks ---


def _assumed(
    run: Run, normal: NormalStep | None, settled: float | None, peak: float | None
) -> tuple[str | None, float | None]:
    """The device that the trainer takes for granted, and the peak in TFLOPS that it divides by."""
    said, name = run.config.get("peak_flops"), run.config.get("mfu_assumes") or run.traits.mfu_assumes
    if isinstance(said, int | float) and said > 0:
        return None, said / 1e12
    if name:  # trainers mean its fastest dtype for training
        device = find_device(str(name))
        return str(name), device.bf16_tflops or device.fp16_tflops or device.fp32_tflops if device else None
    tflops = _tflops(run, normal)
    if not settled or not tflops:
        return None, None
    if run.config.get("flops_per_token") and not run.tok_s_per_device:
        return None, tflops / settled
    confirmed = peak is not None and abs(settled * peak / tflops - 1) <= ATTENTION
    return None, peak if confirmed else None


def _tflops(run: Run, normal: NormalStep | None) -> float | None:
    """Arithmetic per second by the model's size and its speed."""
    said, parameters = run.config.get("flops_per_token"), trained_parameters(run)
    per_token = said if isinstance(said, int | float) and said > 0 else 6.0 * parameters if parameters else None
    tok_s = normal.throughput_tok_s if normal else None
    return per_token * tok_s / 1e12 if per_token and tok_s else None


def _device(run: Run, option: str | None) -> OnDevice:
    """The device at hand, and its peak in the run's dtype or the next that the device has."""
    kind = str(run.config.get("device", ""))
    name = option or run.config.get("device_name") or (kind if kind in ("cpu", "mps") else None)
    device = find_device(str(name)) if name else None
    for dtype in (_dtype(run.config.get("dtype", "")), "float16", "float32"):
        flops = device.flops(dtype) if device else None
        if device is not None and flops is not None:
            return OnDevice(device.name, flops / 1e12, dtype, device.source)
    return OnDevice(device.name if device else name and str(name), None, None, None)


def _dtype(said: ConfigValue) -> str:
    text = str(said).lower()
    if "float32" in text or text in ("fp32", "32-true"):
        return "float32"
    return "float16" if text in ("float16", "fp16") or "16-mixed" in text else "bfloat16"


def _text(run: Run, key: str) -> str | None:
    return str(run.config[key]) if run.config.get(key) else None
