"""How well the device is used."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding

MfuTrust = Literal["ok", "wrong_peak", "smoothing_lag", "unmeasured"]
MfuReason = Literal[
    "matches_device", "above_one", "assumes_other_device", "device_unknown", "moving_average", "not_measured",
    "peak_unknown", "trainer_knows_device",
]  # fmt: skip


class Mfu(Finding):
    """The printed MFU, whether to believe it, and what it is on the actual device."""

    logged: float | None  # median of the printed values, as a fraction; None if never measured
    last: float | None
    trust: MfuTrust
    reason: MfuReason
    assumed_device: str | None
    device: str | None
    peak_tflops: float | None
    peak_source: str | None
    recomputed: float | None  # fraction of the peak of `device`
    lag: float | None  # how far slow steps pull the printed moving average down, as a fraction of MFU
