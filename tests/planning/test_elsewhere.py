"""Time and memory on a device that is not here."""

from dataclasses import replace

import pytest

from fake_devices import SHAPES, forward_pass, gpu, on_fake_cuda
from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.hardware.peaks import named_device
from nanoscope.planning.elsewhere import Elsewhere, Times, chosen_compile, chosen_dtype, elsewhere, step_times
from nanoscope.planning.memory import _count, _Live
from nanoscope.planning.work import StepWork, Work, count_work
from nanoscope.training.initial_model import new_shape

GPT2 = TrainConfig(recipe="classic")
TINY = TrainConfig(n_layer=2, n_head=2, n_embd=64, block_size=32, batch_size=4, gradient_accumulation_steps=2)


def on(device: str, config: TrainConfig = GPT2, vocabulary: int = 50257) -> Elsewhere:
    return elsewhere(config, new_shape(config, vocabulary), named_device(device))


def times(
    device: str, *, flops: float = 1e12, moved: float = 1e6, operations: float = 100, compiled: bool = True
) -> Times:
    work = StepWork(Work(flops, moved, operations), Work(0, 0, 0), 124_000_000)
    return step_times(work, 1, named_device(device), "bfloat16", compiled)


def test_arithmetic_takes_its_share_of_the_peak() -> None:
    found = times("RTX 4090", flops=165.2e12)
    assert found.limit == "arithmetic"
    assert found.mfu is not None
    assert found.least_s == pytest.approx(1)
    assert found.step_s is not None
    assert found.step_s.expected == pytest.approx(1 / found.mfu.expected)
    assert found.step_s.low == pytest.approx(1 / found.mfu.high)
    assert found.step_s.high == pytest.approx(1 / found.mfu.low)


def test_a_step_that_moves_much_is_limited_by_memory() -> None:
    found = times("RTX 4090", moved=1008e9)
    assert found.limit == "memory"
    assert found.step_s == found.memory_s


def test_a_step_of_many_small_operations_is_limited_by_starting_them() -> None:
    found = times("RTX 4090", flops=1e9, operations=10_000, compiled=False)
    assert found.limit == "overhead"
    assert found.step_s == found.overhead_s
    assert times("RTX 4090", flops=1e9, operations=10_000).overhead_s.expected < found.overhead_s.expected


def test_a_laptop_part_may_be_as_slow_as_its_lowest_power_limit() -> None:
    laptop, card = times("RTX 4090 Laptop", flops=1e15), times("RTX 4090", flops=1e15)
    assert laptop.step_s is not None
    assert card.step_s is not None
    assert laptop.step_s.high / laptop.step_s.low == pytest.approx(card.step_s.high / card.step_s.low / 0.71)


@pytest.mark.slow
def test_without_known_runs_there_is_only_a_least_time() -> None:
    found = on("Apple M2 Pro").times
    assert (found.mfu, found.step_s) == (None, None)
    assert found.least_s > 60  # 491,520 tokens × 855 MFLOPs at 6.8 TFLOPS


@pytest.mark.slow
def test_gpt2_on_eight_gigabytes_needs_smaller_micro_batches_than_nanogpts() -> None:
    small, large = on("RTX 4060"), on("RTX 4090")
    assert (small.fits, large.fits) == (False, True)
    assert 0 < small.largest_micro_batch < 12 < large.largest_micro_batch
    assert GPT2.sequences_per_step % small.largest_micro_batch == 0
    size = small.largest_micro_batch
    assert on("RTX 4060", replace(GPT2, batch_size=size, gradient_accumulation_steps=480 // size)).fits


@pytest.mark.slow
def test_the_known_times_of_gpt2_lie_in_the_range() -> None:
    a100, rtx4090 = (on(device).times.step_s for device in ("A100", "RTX 4090"))
    assert a100 is not None
    assert a100.low < 8 * 0.562 < a100.high  # nanoGPT, on each of 8
    assert rtx4090 is not None
    assert rtx4090.low < 480 * 1024 / 110_350 < rtx4090.high


@pytest.mark.slow
def test_a_model_that_cannot_fit_has_no_micro_batch() -> None:
    huge = replace(TINY, n_embd=8192, n_head=64, n_layer=80)
    found = on("RTX 4060", huge, 65)
    assert (found.fits, found.largest_micro_batch) == (False, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize("recipe", SHAPES)
@pytest.mark.parametrize(("dtype", "rel"), [("bfloat16", 0.001), ("float16", 0.001), ("float32", 0.02)])
def test_a_forward_pass_keeps_on_a_gpu_what_the_plan_counts(recipe: str, dtype: str, rel: float) -> None:
    shape = replace(SHAPES[recipe], n_layer=2, vocab_size=2048, dropout=0.1)
    counted = _count(shape, 2, sparse=False, device_type="cuda", dtype=dtype)
    with on_fake_cuda(), _Live() as live:
        model, loss, _ = forward_pass(shape, gpu(dtype=dtype))
        kept = live.bytes - sum(each.nbytes for each in (*model.parameters(), *model.buffers()))
        assert loss.requires_grad
    assert counted.saved == pytest.approx(kept, rel=rel)  # in float32 attention is another kernel, which saves a copy


@pytest.mark.slow
def test_work_grows_with_sequences_and_layers() -> None:
    def work(config: TrainConfig) -> StepWork:
        return count_work(new_shape(config, 65), config, config.batch_size, "cuda", "bfloat16")

    one, wide, deep = (work(each) for each in (TINY, replace(TINY, batch_size=8), replace(TINY, n_layer=8)))
    assert wide.micro_batch.flops == 2 * one.micro_batch.flops
    assert wide.micro_batch.operations == one.micro_batch.operations
    assert one.micro_batch.bytes < wide.micro_batch.bytes < 2 * one.micro_batch.bytes
    assert deep.micro_batch.operations > 3 * one.micro_batch.operations
    assert one.update.flops > 0  # Muon


@pytest.mark.parametrize(
    ("device", "dtype", "compiled"),
    [("A100", "bfloat16", True), ("T4", "float16", True), ("GTX 1660", "float32", True), ("GTX 1080", "float32", False),
     ("P100", "float16", False), ("Apple M3", "float32", False), ("MI300X", "bfloat16", True)],
)  # fmt: skip
def test_auto_is_what_train_would_choose_there(device: str, dtype: str, compiled: bool) -> None:
    row = named_device(device)
    assert (chosen_dtype(GPT2, row), chosen_compile(GPT2, row)) == (dtype, compiled)
    asked = replace(GPT2, dtype="float32", compile=False)
    assert (chosen_dtype(asked, row), chosen_compile(asked, row)) == ("float32", False)


def test_a_tpu_is_refused() -> None:
    with pytest.raises(UsageError, match="does not train on TPUs"):
        on("TPU v4")
