"""`nanoscope plan`: what follows from which figures, and the whole command on a tiny run."""

import contextlib
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from conftest import SONG, DatasetFactory
from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.model import build_model
from nanoscope.planning.advice import advice
from nanoscope.planning.figures import DiskPlan, MemoryPlan
from nanoscope.planning.limits import judge
from nanoscope.planning.memory import Memory, training_memory
from nanoscope.planning.plan import Process, disk_plan, memory_plan, plan_here, splits, time_plan
from nanoscope.planning.plan_text import lines
from nanoscope.planning.request import Data, Request, understand
from nanoscope.planning.steps import StepTimes, problem_of_status
from nanoscope.training.initial_model import new_shape
from nanoscope.training.memory import SavedBytes
from small_runs import TINY, Folder

GB = 10**9
CONFIG = resolve(["laptop", "--batch_size=8", "--gradient_accumulation_steps=4"]).config


def request_of(config: TrainConfig = CONFIG, **fields: Any) -> Request:
    return Request(config, "mine", new_shape(config, 65), Data("text", None, 65, 10**6, 10**5), **fields)


def times(**fields: Any) -> StepTimes:
    figures: dict[str, Any] = {
        "micro_batch": 8, "first_seconds": [0.08], "later_seconds": [0.1], "half_seconds": [0.05],
        "update_seconds": [0.02], "data_seconds": [0.0], "eval_batch": 10, "eval_seconds": [0.5], "save_seconds": 0.4,
        "startup_seconds": 3.0, "flops_per_token": 10**6, "peak_flops": 2e7 * 1024,
    }  # fmt: skip
    return StepTimes(**figures | fields)


def memory(peak: int) -> Memory:
    return Memory(10**6, 4 * 10**6, 4 * 10**6, 8 * 10**6, 10**7, 10**6, peak)


def test_splits_keep_the_sequences_of_an_iteration() -> None:
    found = splits(replace(CONFIG, batch_size=12, gradient_accumulation_steps=40))
    assert {1, 12} <= set(found)
    assert all(480 % size == 0 for size in found)


def test_a_run_fits_if_a_tenth_of_the_memory_is_left() -> None:
    counted = {1: memory(GB), 8: memory(8 * GB), 32: memory(32 * GB)}
    found = memory_plan(CONFIG, counted, Process(GB // 2), 10 * GB, measured=True)
    assert found.fits
    assert [split.fits for split in found.splits] == [True, True, False]
    assert not memory_plan(CONFIG, counted, Process(GB // 2), 9 * GB, measured=True).fits


def test_what_a_process_takes_besides_tensors_is_corrected_by_what_was_measured() -> None:
    found = Process.measured(times(peak_bytes=GB, process_bytes=GB // 4), memory(GB // 2))
    assert found.bytes(memory(GB // 2)) == GB // 2
    assert found.bytes(memory(GB)) > GB // 2  # fragmentation grows with the tensors


def test_an_iteration_is_its_passes_and_its_update_however_few_were_measured() -> None:
    found = time_plan(request_of(), times())
    assert found.step_seconds == pytest.approx(0.08 + 3 * 0.1 + 0.02)


def test_the_whole_command_includes_start_up_evaluations_and_checkpoints() -> None:
    config = replace(CONFIG, max_iters=500, eval_interval=100, eval_iters=20)  # 2 × 160 windows
    found = time_plan(request_of(config), times())
    assert (found.evaluations, found.checkpoints) == (5, 5)
    assert found.evaluation_seconds == pytest.approx(320 * 0.05)
    expected = 3.0 * 1.2 + 500 * 0.4 + 5 * 16 + 5 * 0.4
    assert found.seconds == pytest.approx(expected, rel=0.01)
    assert found.seconds_low < found.seconds < found.seconds_high


def test_of_a_run_that_is_half_done_only_the_rest_is_planned() -> None:
    whole, half = (time_plan(request_of(done=done), times()) for done in (0, 250))
    assert half.evaluations < whole.evaluations
    assert half.seconds - 3 == pytest.approx((whole.seconds - 3) / 2, rel=0.2)


@pytest.mark.parametrize(
    ("figures", "limit"),
    [
        ({"data_seconds": [0.1]}, "data"),
        ({"half_seconds": [0.09]}, "overhead"),
        ({"peak_flops": 2e7 * 1024}, "arithmetic"),
        ({"peak_flops": 1e9 * 1024}, "memory"),
    ],
)
def test_what_limits_a_run_follows_from_what_was_measured(figures: dict[str, Any], limit: str) -> None:
    assert judge(times(**figures), 0.4, 128).limit == limit


def plan_of_memory(*, fitting: int) -> MemoryPlan:
    counted = {size: memory(size * GB) for size in (1, 2, 4, 8, 16)}
    return memory_plan(CONFIG, counted, Process(0), int((fitting + 0.5) * GB / 0.9), measured=False)


DISK = DiskPlan(checkpoint_bytes=1, bytes=1, free_bytes=10, fits=True)


def test_the_advice_for_too_large_a_batch_is_the_largest_split_that_fits() -> None:
    assert advice(request_of(), plan_of_memory(fitting=4), DISK, None, None) == [
        "use --batch_size=4 --gradient_accumulation_steps=8"
    ]


def test_a_model_that_fits_in_no_split_has_to_be_smaller() -> None:
    (text,) = advice(request_of(), plan_of_memory(fitting=0), DISK, None, None)
    assert text.startswith("use a smaller model")


def test_evaluations_that_take_most_of_the_time_are_advised_against() -> None:
    figures = times(eval_seconds=[20.0])
    found = advice(request_of(), plan_of_memory(fitting=16), DISK, time_plan(request_of(), figures), figures)
    assert any("evaluations take" in text for text in found)


def test_a_run_that_needs_no_advice_gets_none() -> None:
    figures = times(eval_seconds=[0.001])
    config = replace(CONFIG, max_iters=100)
    found = advice(
        request_of(config), plan_of_memory(fitting=16), DISK, time_plan(request_of(config), figures), figures
    )
    assert found == []


def test_the_disk_needs_room_for_the_checkpoints_kept_the_best_and_the_one_being_written() -> None:
    config = replace(CONFIG, keep_checkpoints=2)
    assert disk_plan(config, 100, saves=10, free=500).bytes == 400
    assert disk_plan(config, 100, saves=1, free=500).bytes == 100
    assert disk_plan(replace(config, keep_checkpoints=0), 100, saves=10, free=500).bytes == 1000


def test_a_killed_child_means_that_memory_ran_out() -> None:
    assert problem_of_status(-9, "")[1]
    problem, out_of_memory = problem_of_status(-4, "")
    assert "SIGILL" in problem
    assert not out_of_memory


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
        found = plan_here(understand(["run", "--max_iters=30"]), seconds=0.3, report=lambda text: None)
    plan = json.loads(found.encoded())
    assert (plan["schema"], plan["done"], plan["steps"]) == ("nanoscope.plan/1", 10, 20)
    assert 0 < plan["time"]["seconds_low"] < plan["time"]["seconds"] < plan["time"]["seconds_high"]
    assert 0 < plan["time"]["step_seconds"] < plan["time"]["seconds"]
    assert plan["disk"]["checkpoint_bytes"] > 4 * plan["parameters"]
    assert plan["memory"]["fits"]
    assert sorted(folder.path.rglob("*")) == before
    assert all(part in "\n".join(lines(found)) for part in ("model:", "memory:", "time:", "disk:", "20 are left"))


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
def test_a_device_that_is_not_here_has_an_assumed_mfu_with_its_sources(folder: Folder) -> None:
    found = folder.run("plan", *TINY[:-4], "--device=RTX 4090", "--json")
    plan = json.loads(found[found.index("{") :])
    assert not plan["here"]
    assert plan["memory"]["available_bytes"] == 24 << 30
    assert not plan["time"]["measured"]
    assert plan["time"]["mfu_source"].startswith("assumed: ")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["classic", "modern"])
def test_what_is_counted_without_data_is_what_a_real_forward_pass_keeps(recipe: str) -> None:
    words = [f"--recipe={recipe}", "--n_layer=3", "--n_head=2", "--n_embd=32", "--dropout=0.1", "--block_size=64"]
    config = resolve(["laptop", *words, "--batch_size=3"]).config
    model = build_model(replace(new_shape(config, 65), dropout=0.1))
    counted = training_memory(model.config, config, 3, "cpu", "float32")
    saved = SavedBytes(model)
    with torch.autograd.graph.saved_tensors_hooks(saved.count, lambda tensor: tensor):
        tokens = torch.zeros(3, 64, dtype=torch.int64)
        model(tokens, tokens)
    assert counted.parameters == model.parameter_count()
    assert counted.weights == pytest.approx(sum(each.nbytes for each in model.parameters()), rel=0.01)
    assert counted.activations + counted.logits / 3 == pytest.approx(saved.bytes, rel=0.03)
