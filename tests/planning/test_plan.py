"""`nanoscope plan`: what follows from which figures, and the whole command on a tiny run."""

import contextlib
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from conftest import SONG, DatasetFactory
from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.hardware.peaks import named_device
from nanoscope.planning.memory import TrainingMemory
from nanoscope.planning.plan import Plan, add_measured_time, outline, plan_elsewhere, plan_here, smaller
from nanoscope.planning.plan_text import lines
from nanoscope.planning.request import Data, Request, understand
from nanoscope.planning.rig import Figures
from nanoscope.training.forecast import save_seconds
from nanoscope.training.initial_model import new_shape
from small_runs import TINY, Folder

GB = 10**9
HERE: dict[str, Any] = {"device": "cpu", "device_name": "a CPU", "dtype": "float32", "compiled": False}
CONFIG = resolve(["laptop", "--batch_size=8", "--gradient_accumulation_steps=4"]).config
GPT2 = TrainConfig(recipe="classic")


def request_of(config: TrainConfig = CONFIG, vocab_size: int = 65, **fields: Any) -> Request:
    data = Data("text", None, vocab_size, 10**6, 10**5)
    return Request(config, "mine", new_shape(config, vocab_size), data, **fields)


def plan_of(request: Request, window_seconds: float = 0.05) -> Plan:
    """As measured: 0.4 s a step."""
    plan = outline(request, lambda size: TrainingMemory(10**6, 10**8, 1), 0, 10**10, **HERE)
    plan.peak_flops = 2e10
    add_measured_time(plan, request, Figures(0.4, window_seconds, 0.0, steps=1), startup=3.0)
    return plan


def plan_of_memory(*, fitting: int) -> Plan:
    """A sequence takes a gigabyte, and so many fit."""
    available = int((fitting + 0.5) * GB / 0.9)
    return outline(request_of(), lambda size: TrainingMemory(1, 1, size * GB), 0, available, **HERE)


def test_splits_keep_the_sequences_of_an_iteration() -> None:
    found = plan_of_memory(fitting=16).splits
    assert [(split.batch_size, split.gradient_accumulation_steps) for split in found] == [
        (2, 16), (4, 8), (8, 4), (16, 2), (32, 1),
    ]  # fmt: skip
    assert [split.fits for split in found] == [True, True, True, True, False]


def test_a_run_fits_if_a_tenth_of_the_memory_is_left_besides_the_process() -> None:
    def fits(process: int, available: int) -> bool:
        return outline(request_of(), lambda size: TrainingMemory(1, 1, 8 * GB), process, available, **HERE).fits

    assert fits(GB // 2, 10 * GB)
    assert not fits(GB // 2, 9 * GB)
    assert not fits(2 * GB, 10 * GB)


def test_the_whole_command_includes_start_up_evaluations_and_checkpoints() -> None:
    config = replace(CONFIG, max_iters=500, eval_interval=100, eval_iters=20)  # 2 × 160 windows
    found = plan_of(request_of(config))
    times = {part.phase: part.times * part.seconds for part in found.parts}
    save = save_seconds(10**8)
    assert times == pytest.approx({"startup": 3, "step": 500 * 0.4, "eval": 5 * 16, "checkpoint": 5 * save})
    assert found.seconds == pytest.approx(sum(times.values()))
    assert found.seconds_low is not None
    assert found.seconds_high is not None
    assert found.seconds_low < found.seconds < found.seconds_high
    assert found.tokens_per_second == pytest.approx(config.tokens_per_step / 0.4)


def test_the_limit_of_time_bounds_a_run_on_another_device_too() -> None:
    config = replace(GPT2, n_layer=2, n_head=2, n_embd=64, block_size=32, max_minutes=1.0)
    found = on("RTX 4090", config)
    assert found.seconds_high == 60
    assert found.seconds_low is not None
    assert found.seconds_low <= 60


def test_of_a_run_that_is_half_done_only_the_rest_is_planned() -> None:
    whole, half = (plan_of(request_of(done=done)).seconds or 0.0 for done in (0, 250))
    assert half - 3 == pytest.approx((whole - 3) / 2, rel=0.2)


def test_the_advice_for_too_large_a_batch_is_the_largest_split_that_fits() -> None:
    found = [smaller(plan_of_memory(fitting=4))]
    assert list(map(str, found)) == ["use --batch_size=4 --gradient_accumulation_steps=8"]


def test_a_model_that_fits_in_no_split_has_to_be_smaller() -> None:
    text = smaller(plan_of_memory(fitting=0))
    assert str(text).startswith("use a smaller model")


def test_a_run_that_needs_no_advice_gets_none() -> None:
    request = request_of(replace(CONFIG, max_iters=100))
    assert plan_of(request, 0.0001).advice == []


def on(device: str, config: TrainConfig = GPT2) -> Plan:
    return plan_elsewhere(request_of(config, 50257), named_device(device))


@pytest.mark.slow
def test_gpt2_on_eight_gigabytes_needs_smaller_micro_batches_than_nanogpts() -> None:
    small, large = on("RTX 4060"), on("RTX 4090")
    assert (small.fits, large.fits) == (False, True)
    assert small.seconds is None
    best = max(split.batch_size for split in small.splits if split.fits)
    assert 0 < best < 12
    assert f"--batch_size={best} " in str(small.advice[0])
    assert on("RTX 4060", replace(GPT2, batch_size=best, gradient_accumulation_steps=480 // best)).fits


@pytest.mark.slow
@pytest.mark.parametrize(("device", "seconds"), [("A100", 8 * 0.562), ("RTX 4090", 480 * 1024 / 110_350)])
def test_the_known_times_of_gpt2_lie_in_the_range(device: str, seconds: float) -> None:
    found = on(device)
    assert found.seconds is not None
    assert found.seconds_low is not None
    assert found.seconds_high is not None
    assert str(found.peak_source).startswith("assumed: ")
    step = found.parts[0].seconds
    assert found.seconds_low / found.seconds < seconds / step < found.seconds_high / found.seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "dtype"), [("A100", "bfloat16"), ("T4", "float16"), ("GTX 1660", "float32"), ("Apple M3", "float32")]
)
def test_auto_is_the_dtype_that_train_would_choose_there(device: str, dtype: str) -> None:
    tiny = replace(GPT2, n_layer=2, n_head=2, n_embd=64, block_size=32)
    found = on(device, tiny)
    assert found.dtype == dtype
    assert (found.seconds is None) == (device == "Apple M3")  # of which no run is known
    assert on(device, replace(tiny, dtype="float32")).dtype == "float32"


def test_a_tpu_is_refused() -> None:
    with pytest.raises(UsageError, match="does not train on TPUs"):
        on("TPU v4")


def test_a_known_corpus_is_planned_without_preparing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = understand(["laptop"]).data
    assert (data.folder, data.vocab_size, data.train_tokens) == (None, 65, 1_003_854)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_of_unknown_vocabulary_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="There is no dataset"):
        understand(["laptop", "--dataset=data/mine"])


@pytest.fixture
def folder(tmp_path: Path, small_dataset: DatasetFactory) -> Folder:
    small_dataset(20 * SONG, name="tiny")
    return Folder(tmp_path)


@pytest.mark.slow
def test_the_plan_of_a_run_is_what_is_left_of_it_and_leaves_nothing_behind(folder: Folder) -> None:
    folder.train("--max_iters=10")
    before = sorted(folder.path.rglob("*"))
    with contextlib.chdir(folder.path):
        found = plan_here(understand(["run", "--max_iters=30"]), lambda text: None, seconds=0.3)
    plan = msgspec.to_builtins(found, enc_hook=str)
    assert (plan["schema"], plan["done"], plan["steps"]) == ("nanoscope.plan/3", 10, 20)
    assert 0 < plan["seconds_low"] < plan["seconds"] < plan["seconds_high"]
    assert [part["phase"] for part in plan["parts"]] == ["startup", "step", "eval", "checkpoint"]
    assert plan["checkpoint_bytes"] > 4 * plan["parameters"]
    assert plan["fits"]
    assert sorted(folder.path.rglob("*")) == before
    assert all(
        part in "\n".join(map(str, lines(found))) for part in ("model:", "memory:", "time:", "disk:", "20 are left")
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_while_measuring_leaves_neither_a_process_nor_a_folder(folder: Folder) -> None:
    before = sorted(folder.path.rglob("*"))
    process = folder.start("plan", *TINY)
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 120
    while not children and process.poll() is None and time.monotonic() < deadline:
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert children
    assert not psutil.wait_procs(children, timeout=60)[1]
    assert sorted(folder.path.rglob("*")) == before


@pytest.mark.slow
def test_a_hundred_billion_parameters_do_not_fit_and_nothing_is_allocated(folder: Folder) -> None:
    found = folder.run("plan", *TINY, "--n_layer=100", "--n_embd=8192", "--n_head=64", status=1)
    assert "80.5B parameters" in found
    assert "does not fit: needs 1." in found
    assert "use a smaller model" in found
    assert "measuring" not in found


@pytest.mark.slow
def test_a_device_that_is_not_here_has_an_assumed_mfu(folder: Folder) -> None:
    found = folder.run("plan", *TINY[:-4], "--device=RTX 4090", "--json")
    plan = json.loads(found[found.index("{") :])
    assert not plan["measured"]
    assert plan["available_bytes"] == 24 << 30
    assert plan["peak_source"].startswith("assumed: ")
