"""How well the device is used."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding

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


class Mismatch(Finding):
    """Two figures of a log that cannot both be right, or that together show a setting that was hardly meant."""

    kind: Literal["step_of_data", "tokens_and_time", "beyond_total"]
    value: float
    other: float
    share: float  # value / other
    setting: str | None = None  # the setting that explains it, with its value
    setting_value: float | None = None
