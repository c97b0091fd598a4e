"""The figures of `nanoscope tune --bench`."""

import pytest

from nanoscope.hardware.device import set_up_device
from nanoscope.hardware.probe import ProbeResult
from nanoscope.planning import bench


@pytest.mark.parametrize(
    ("probed", "reason"),
    [
        (ProbeResult("SIGILL", {}, None), "doesn't work on this CPU"),
        (ProbeResult("", {}, 150.0), "takes 150 times as long as float32"),
    ],
)
def test_a_dtype_that_the_cpu_lacks_or_emulates_is_skipped(
    monkeypatch: pytest.MonkeyPatch, probed: ProbeResult, reason: str
) -> None:
    monkeypatch.setattr(bench, "probe_cpu_dtype", lambda dtype: probed)
    assert str(bench.matmul_gflops("bfloat16", set_up_device("cpu", "float32")[0])) == reason
