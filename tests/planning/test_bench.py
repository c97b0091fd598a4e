"""The figures of `nanoscope bench` fit each other."""

import pytest
import torch

from nanoscope.hardware.device import Choice, decide, look
from nanoscope.hardware.probe import ProbeResult
from nanoscope.model import ModelConfig
from nanoscope.planning import bench as measure
from nanoscope.planning.bench import MachineBench, Measurement, Shape, machine

TINY = Shape(ModelConfig(vocab_size=65, block_size=8, n_layer=1, n_head=1, n_embd=16), 2)
PEAK_FLOPS = 5e9


@pytest.fixture
def choice() -> Choice:
    return decide("cpu", "float32", False, look())


@pytest.fixture
def bench(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> MachineBench:
    monkeypatch.setattr(measure, "measure_peak", lambda device, dtype, seconds: PEAK_FLOPS)
    monkeypatch.setattr(MachineBench, "_median_seconds", lambda bench, action: action() or 0.5)
    return MachineBench(choice)


def test_a_steps_tokens_and_mfu_follow_from_its_time(bench: MachineBench) -> None:
    # 6·N + 12·L·C·T with N = 65·16 (embedding) + 12·16² (block) + 2·16 + 16 (norms)
    flops_per_token = 6 * (65 * 16 + 12 * 16**2 + 48) + 12 * 16 * 8
    mfu = {"mfu": 32 * flops_per_token / PEAK_FLOPS, "mfu_peak_gflops": PEAK_FLOPS / 1e9}
    assert bench.step(TINY) == pytest.approx({"ms": 500, "tokens_per_second": 32, **mfu})


def test_evaluation_counts_every_token_of_the_batch(bench: MachineBench) -> None:
    assert bench.evaluation(TINY) == {"tokens_per_second": 2 * 8 / 0.5}


def test_sampling_counts_every_text(bench: MachineBench) -> None:
    assert bench.sample(TINY.model, texts=3) == {"tokens_per_second": 3 * 7 / 0.5}


def test_a_slow_action_is_measured_once_after_its_warm_up(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def act() -> None:
        nonlocal now
        now += 30.0

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    assert MachineBench(choice)._median_seconds(act) == 30.0
    assert now == 60.0


def test_a_fast_action_is_measured_for_two_seconds(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    now, durations = 0.0, iter([9.0, *[0.25] * 5, 0.75, 0.25])

    def act() -> None:
        nonlocal now
        now += next(durations)

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    assert MachineBench(choice)._median_seconds(act) == 0.25
    assert now == 9.0 + 2.0


def test_a_shape_that_does_not_fit_is_reported_and_the_next_is_measured() -> None:
    def too_large() -> measure.Figures:
        raise torch.OutOfMemoryError

    assert Measurement("step_huge", "huge", too_large).figures() == {"failed": "not enough memory"}


def test_a_dtype_that_the_cpu_lacks_is_skipped(bench: MachineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "probe_cpu_dtype", lambda dtype: ProbeResult("SIGILL", {}, None))
    assert bench.peak("bfloat16") == {"skipped": "doesn't work on this CPU"}


def test_a_dtype_that_the_cpu_emulates_is_skipped(bench: MachineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "probe_cpu_dtype", lambda dtype: ProbeResult("", {}, 150.0))
    assert bench.peak("bfloat16") == {"skipped": "takes 150 times as long as float32"}


def test_every_measurement_has_a_key_of_its_own(bench: MachineBench, choice: Choice) -> None:
    keys = [each.key for each in bench.measurements()]
    assert len(keys) == len(set(keys)) == 11
    assert not set(keys) & machine(choice).keys()
