"""How well the device is used."""

from typing import Literal

from nanoscope.findings.declared.base import Finding
from nanoscope.messages import Message, Phrases, Said, Verbatim

PEAK = Verbatim("{peak_tflops:significant} TFLOPS, {peak_dtype}; {peak_source}")
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
        return Phrases(self._printed(), self._on_device(), self.falls(), self.begins_unmeasured and PLACEHOLDER)

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
                return Phrases(
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
        return Phrases(
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


class Mismatch(Finding):
    """Two figures of a log that cannot both be right, or that together show a setting that was hardly meant."""

    kind: Literal["step_of_data", "tokens_and_time", "beyond_total"]
    value: float
    other: float
    share: float  # value / other
    setting: str | None = None  # the setting that explains it, with its value
    setting_value: float | None = None

    def text(self) -> Said:
        match self.kind:
            case "step_of_data" if self.setting is not None:
                return Message(
                    "Each step reads {value} tokens, {share:percent} of the training data ({other} tokens): "
                    "{setting} is still {setting_value:plain}."
                )
            case "step_of_data":
                return Message("Each step reads {value} tokens, {share:percent} of the training data ({other} tokens).")
            case "beyond_total":
                return Message(
                    "The log has reached {value}, beyond its total of {other}: one of the two numbers counts "
                    "something else, so nothing is said about the time remaining."
                )
            case "tokens_and_time" if self.share < 1:
                return Message(
                    "Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                    "the printed tokens/s may be those of one device or one micro-batch."
                )
            case "tokens_and_time":
                return Message(
                    "Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                    "there may be more devices or micro-batches than the log says."
                )
