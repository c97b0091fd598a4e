"""The figures of `nanoscope tune --bench` fit each other."""

from dataclasses import replace

import pytest

from nanoscope.child import ChildError
from nanoscope.hardware.probe import ProbeResult
from nanoscope.planning import bench as benchmark
from nanoscope.planning.bench import CLASSIC, MachineBench, machine


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> MachineBench:
    tiny = replace(CLASSIC, batch_size=2, block_size=8, n_layer=1, n_head=1, n_embd=16)
    monkeypatch.setitem(benchmark.SHAPES, "tiny", (tiny, 65))
    monkeypatch.setattr(benchmark, "SECONDS", 0.01)
    return MachineBench("cpu", "float32")


@pytest.mark.slow
def test_a_steps_tokens_and_mfu_follow_from_its_time(bench: MachineBench) -> None:
    found = {key: float(value) for key, value in bench.step("tiny").items()}
    # 6·N + 12·L·C·T with N = 65·16 (embedding) + 12·16² (block) + 2·16 + 16 (norms)
    flops_per_token = 6 * (65 * 16 + 12 * 16**2 + 48) + 12 * 16 * 8
    rate = found["tokens_per_second"]
    assert rate == pytest.approx(16 / (found["ms"] / 1000))
    assert found["mfu"] == pytest.approx(rate * flops_per_token / (found["mfu_peak_gflops"] * 1e9))


def test_a_shape_that_does_not_fit_is_reported(bench: MachineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        raise ChildError("it does not fit into memory")

    monkeypatch.setattr(benchmark, "Rig", too_large)
    assert str(bench.step("tiny")["failed"]) == "it does not fit into memory"


@pytest.mark.parametrize(
    ("probed", "reason"),
    [
        (ProbeResult("SIGILL", {}, None), "doesn't work on this CPU"),
        (ProbeResult("", {}, 150.0), "takes 150 times as long as float32"),
    ],
)
def test_a_dtype_that_the_cpu_lacks_or_emulates_is_skipped(
    bench: MachineBench, monkeypatch: pytest.MonkeyPatch, probed: ProbeResult, reason: str
) -> None:
    monkeypatch.setattr(benchmark, "probe_cpu_dtype", lambda dtype: probed)
    assert str(bench.peak("bfloat16")["skipped"]) == reason


def test_every_measurement_has_a_key_of_its_own_and_a_label(bench: MachineBench) -> None:
    planned = bench.measurements()
    assert len(planned) == len({str(label) for label, _ in planned.values()}) == 7
    assert not planned.keys() & machine(bench.choice).keys()
