"""Training on a device other than a CPU, as far as that can be shown without one."""

import math
from typing import Any

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.hardware.device import DeviceConfig
from nanoscope.messages import joined
from nanoscope.model import ModelConfig, build_model
from nanoscope.training import run, stopping
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.machine import Machine
from nanoscope.training.phases import PhaseClock
from nanoscope.training.stopping import StopRequest
from pretend_gpu import NoFloat64, PretendGPU, VirtualTime
from small_runs import Folder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("recipe", ["classic", "modern"])
def test_nothing_is_float64_on_the_device(folder: Folder, gpu: PretendGPU, recipe: str) -> None:
    with NoFloat64(gpu):
        folder.train("--device=mps", f"--recipe={recipe}", "--sample_interval=10", "--dropout=0.1")
        folder.run("eval", "run", "--device=mps")
        folder.run("sample", "run", "--device=mps", "--top_p=0.9")
    assert folder.events(kind="start")[0]["device"] == "mps"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The gradients of iteration 12 are NaN, and so are all weights after it; its loss looks good. Filled by then."""
    original, seen = Engine.passes, list[int]()

    def passes(self: Engine, batches: list[Batch], step: int, *rest: Any, **more: Any) -> torch.Tensor | None:
        found = original(self, batches, step, *rest, **more)
        if step == 12:
            seen.append(step)
            for parameter in self.plain_model.parameters():
                parameter.grad = torch.full_like(parameter, math.nan)
        return found

    monkeypatch.setattr(Engine, "passes", passes)
    return seen


@pytest.mark.parametrize(
    ("device", "ending", "saved"),
    [
        ("mps", "finished", [12]),
        ("mps", "max_minutes", [12]),
        ("mps", "patience", [12]),
        ("mps", "interrupted", [12]),
        ("mps", "evaluated", []),
        ("cpu", "evaluated", []),
        ("mps", "not clipped", [12]),
    ],
)
def test_nothing_is_saved_after_a_step_that_was_not_finite(
    folder: Folder,
    gpu: PretendGPU,
    broken: list[int],
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    ending: str,
    saved: list[int],
) -> None:
    if ending == "max_minutes":
        monkeypatch.setattr(PhaseClock, "wall_seconds", property(lambda self: 60.0 * len(broken)))
    if ending == "patience":
        monkeypatch.setattr(run, "out_of_patience", lambda *_: bool(broken))
    if ending == "interrupted":
        monkeypatch.setattr(StopRequest, "requested", property(lambda self: bool(broken)))
        monkeypatch.setattr(stopping, "SIGNALS", [])  # this process must not go on ignoring them
    words = {
        "finished": ["--max_iters=13"],
        "max_minutes": ["--max_minutes=1"],
        "evaluated": ["--eval_interval=13"],
        "not clipped": ["--max_iters=13", "--grad_clip=0"],
    }
    common = [f"--device={device}", "--eval_interval=6", "--log_interval=10", "--keep_checkpoints=1"]
    folder.train(*common, *words.get(ending, []), status=1)
    assert folder.events(kind="end")[-1]["reason"] == "non_finite"
    assert folder.events(kind="end")[-1]["step"] == 12
    names = [path.name for path in (folder.path / "run/checkpoints").glob("step-*")]
    assert names == [f"step-{step:06d}" for step in saved]


@pytest.mark.parametrize(("device", "expected"), [("mps", False), ("cuda", True)])
def test_only_pinned_memory_is_copied_without_waiting(gpu: PretendGPU, device: str, expected: bool) -> None:
    """To MPS such a copy may read memory that is freed already."""
    config = TrainConfig(n_layer=1, n_head=2, n_embd=16, block_size=8, batch_size=4)
    shape = ModelConfig(vocab_size=11, block_size=8, n_layer=1, n_head=2, n_embd=16, recipe="modern")
    engine = Engine(
        config, build_model(shape), Machine(DeviceConfig(device, "", "float32", False, joined("", ())), Processes())
    )
    engine.passes([(torch.zeros(4, 8, dtype=torch.int64),) * 2], 0)
    assert gpu.non_blocking == [expected, expected]


def test_the_times_of_a_device_with_a_queue_are_those_of_its_work(
    folder: Folder, gpu: PretendGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = VirtualTime(monkeypatch, step_seconds=0.05, depth=3)
    folder.train("--device=mps", "--max_iters=100", "--eval_interval=100", "--log_interval=10")
    end = folder.events(kind="end")[-1]
    last = folder.events(kind="iter")[-1]
    assert time.steps == 100
    assert last["tokens_per_second"] == pytest.approx(64 * 100 / time.now, rel=0.02)
    assert last["mean_seconds"] == pytest.approx(time.now / 100, rel=0.02)
    assert last["max_seconds"] == pytest.approx(time.now / 100, rel=0.02)
    assert end["phases"]["step"] == pytest.approx(time.now, rel=0.02)  # type: ignore[index]
