"""The choices for machines that are not here: the facts are made up, the decisions are real."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nanoscope.errors import UsageError
from nanoscope.hardware import device
from nanoscope.hardware.device import (
    DeviceConfig,
    DeviceInfo,
    choose,
    cpu_quota,
    detect,
    measure_peak,
    peak_flops,
    set_threads,
)

NVIDIA = {"triton": True, "torch_has_cuda": True, "cpu_name": "Xeon", "cpu_threads": 8}
A100 = DeviceInfo(cuda_names=("NVIDIA A100-SXM4-40GB",) * 2, cuda_capabilities=((8, 0),) * 2, **NVIDIA)  # type: ignore[arg-type]
T4 = DeviceInfo(cuda_names=("Tesla T4",), cuda_capabilities=((7, 5),), **NVIDIA)  # type: ignore[arg-type]
P100 = DeviceInfo(cuda_names=("Tesla P100-PCIE-16GB",), cuda_capabilities=((6, 0),), **NVIDIA)  # type: ignore[arg-type]
WINDOWS = DeviceInfo(cuda_names=("NVIDIA GeForce RTX 3060",), cuda_capabilities=((8, 6),), torch_has_cuda=True)
GTX_1080 = DeviceInfo(cuda_names=("NVIDIA GeForce GTX 1080",), cuda_capabilities=((6, 1),), **NVIDIA)  # type: ignore[arg-type]
MIXED = DeviceInfo(cuda_names=("RTX 4090", "Tesla P100"), cuda_capabilities=((8, 9), (6, 0)), **NVIDIA)  # type: ignore[arg-type]
MAC = DeviceInfo(mps=True, cpu_name="Apple M2", cpu_threads=8)
LAPTOP = DeviceInfo(cpu_name="Core i5", cpu_threads=4)
RYZEN = DeviceInfo(cpu_name="Ryzen 9", cpu_threads=8, cpu_bfloat16=True)


@pytest.mark.parametrize(
    ("info", "device", "dtype", "compiled"),
    [
        (A100, "cuda:0", "bfloat16", True),
        (T4, "cuda:0", "float16", True),
        (P100, "cuda:0", "float16", False),
        (GTX_1080, "cuda:0", "float32", False),
        (WINDOWS, "cuda:0", "bfloat16", False),
        (MAC, "mps", "float32", False),
        (LAPTOP, "cpu", "float32", False),
        (RYZEN, "cpu", "bfloat16", False),
    ],
    ids=["A100", "T4", "P100", "GTX 1080", "no Triton", "Mac", "laptop", "AVX512_BF16"],
)
def test_auto_chooses_what_suits_the_machine(info: DeviceInfo, device: str, dtype: str, compiled: bool) -> None:
    choice = choose("auto", "auto", "auto", info)
    assert (choice.device, choice.dtype, choice.compile) == (device, dtype, compiled)


def texts(choice: DeviceConfig) -> list[str]:
    return list(map(str, choice.reasons))


def test_the_choice_is_explained_in_one_line() -> None:
    assert ", ".join(texts(choose("auto", "auto", "auto", LAPTOP))) == (
        "cpu (no CUDA or MPS found), float32 (the safe choice), eager (compiling rarely pays here)"
    )
    assert "bfloat16 (fast on this CPU)" in texts(choose("auto", "auto", "auto", RYZEN))
    for info, before, said in [
        (RYZEN, "bfloat16", "bfloat16 (as before)"),
        (LAPTOP, "float32", "float32 (as before)"),
        (LAPTOP, "bfloat16", "float32 (the safe choice)"),  # it no longer works here
    ]:
        assert said in texts(choose("auto", "auto", "auto", replace(info, previous_cpu_dtype=before)))
    assert "float16 (this GPU is too old for bfloat16)" in texts(choose("auto", "auto", "auto", T4))
    assert "eager (torch.compile needs Triton)" in texts(choose("auto", "auto", "auto", WINDOWS))
    assert "eager (this GPU is too old for Triton)" in texts(choose("auto", "auto", "auto", P100))


def test_only_training_asks_whether_the_cpu_is_fast_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "fast_bfloat16", lambda previous: True)
    info = detect(), detect(training=True)
    assert [each.cpu_bfloat16 for each in info] == [False, not (info[1].cuda_names or info[1].mps)]


def test_a_request_is_followed_and_needs_no_reason() -> None:
    choice = choose("cpu", "bfloat16", True, A100, planned_steps=1)
    assert (choice.device, str(choice.device_name), choice.dtype) == ("cpu", "Xeon, 8 threads", "bfloat16")
    assert choice.compile
    assert texts(choice) == ["cpu", "bfloat16", "compiled"]


def test_a_short_run_is_not_compiled() -> None:
    short, long = (choose("auto", "auto", "auto", A100, planned_steps=steps) for steps in (100, 5000))
    assert (short.compile, long.compile) == (False, True)
    assert "eager (too few iterations to repay compiling)" in texts(short)


@pytest.mark.parametrize(
    ("info", "reason"),
    [(LAPTOP, "built without CUDA"), (DeviceInfo(torch_has_cuda=True), "its driver is missing or hides it")],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_cuda_without_a_gpu_is_refused_with_the_reason(device: str, info: DeviceInfo, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(device, "auto", "auto", info)
    assert reason in str(caught.value)
    assert "device=cuda" in str(caught.value)
    assert "--device=cpu" in str(caught.value)


def test_mps_without_an_apple_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="device=mps: torch finds no Apple GPU"):
        choose("mps", "auto", "auto", A100)


def test_a_gpu_beyond_the_last_one_is_refused() -> None:
    assert choose("cuda:1", "auto", "auto", A100).device == "cuda:1"
    with pytest.raises(UsageError, match="device=cuda:7: this machine has 2 GPUs, numbered from 0"):
        choose("cuda:7", "auto", "auto", A100)


def test_each_gpu_is_judged_by_its_own_generation() -> None:
    new, old = choose("cuda:0", "auto", "auto", MIXED), choose("cuda:1", "auto", "auto", MIXED)
    assert (new.device_name, new.dtype, new.compile) == ("RTX 4090", "bfloat16", True)
    assert (old.device_name, old.dtype, old.compile) == ("Tesla P100", "float16", False)


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:0"])
def test_under_torchrun_each_process_has_its_own_gpu(device: str) -> None:
    assert [choose(device, "auto", "auto", A100, rank).device for rank in (0, 1)] == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_process_that_sees_a_single_gpu_has_that_one(device: str) -> None:
    choice = choose(device, "auto", "auto", T4, local_rank=3)
    assert (choice.device, choice.device_name) == ("cuda:0", "Tesla T4")


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # as torchrun does
    assert detect().torchrun
    for info, gpus in [(A100, "2 GPUs, numbered from 0"), (replace(T4, torchrun=True), "1 GPU, numbered 0")]:
        with pytest.raises(UsageError, match=f"device=cuda:3: this machine has {gpus}"):
            choose("auto", "auto", "auto", info, local_rank=3)


@pytest.mark.parametrize(
    "device", ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:²", "cpu:1", "auto:1", "cuda:0:1"]
)
def test_an_invalid_device_is_refused_with_the_valid_ones(device: str) -> None:
    with pytest.raises(UsageError, match="expected auto, cpu, cuda, cuda:N or mps"):
        choose(device, "auto", "auto", A100)


def test_an_invalid_dtype_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid dtype 'int8': expected auto, float32, bfloat16, float16"):
        choose("cpu", "int8", "auto", LAPTOP)


def test_this_machine_can_be_looked_at_and_decided_on() -> None:
    info = detect()
    assert info.cpu_threads >= 1
    assert info.cpu_name
    assert len(info.cuda_names) == len(info.cuda_capabilities)
    assert choose("auto", "auto", "auto", info).dtype in ("float32", "bfloat16", "float16")


def test_the_peak_of_a_known_gpu_comes_from_the_table() -> None:
    flops, source = peak_flops(choose("auto", "auto", "auto", A100))
    assert (flops, source) == (312e12, "NVIDIA A100 data sheet")
    flops, _ = peak_flops(choose("auto", "float32", "auto", A100))
    assert flops == 156e12


def test_the_peak_of_a_cpu_is_measured_and_its_source_says_so() -> None:
    flops, source = peak_flops(choose("cpu", "float32", "auto", detect()))
    assert str(source) == "measured by a short matmul on this device, the highest so far"
    assert flops is not None
    assert 1e8 < flops < 1e15


def test_a_peak_that_cannot_be_measured_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object, **__: object) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "ones", no_memory)
    assert measure_peak(torch.device("cpu"), torch.float32) is None


def test_a_busy_moment_does_not_lower_the_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path))
    choice = choose("cpu", "float32", "auto", LAPTOP)
    found = []
    for measured in (5e9, 9e9, 3e9):
        monkeypatch.setattr(device, "measure_peak", lambda *_, measured=measured: measured)
        found.append(peak_flops(choice)[0])
    assert found == [5e9, 9e9, 9e9]
    (tmp_path / "peaks-seen.json").write_text("[1]", "utf-8")
    assert peak_flops(choice)[0] == 3e9


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_container_gets_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cpu_quota", lambda: 1.5)
    assert [str(text) for text in set_threads()] == ["this container may use 1.5 cores: threads reduced from 2 to 1"]
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("two_threads")
def test_threads_that_someone_asked_for_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cpu_quota", lambda: 1.0)
    assert set_threads(2) == []
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert set_threads() == []
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_a_container_is_read_in_cores(files: dict[str, str], cores: float | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cores
