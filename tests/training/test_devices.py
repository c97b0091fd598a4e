"""Training on a device other than a CPU, as far as that can be shown without one."""

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import Choice
from nanoscope.messages import Joined
from nanoscope.model import ModelConfig, build_model
from nanoscope.training.distributed import Processes
from nanoscope.training.learner import Learner
from nanoscope.training.machine import Machine
from pretend_gpu import NoFloat64, PretendGPU
from small_runs import Folder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("recipe", ["classic", "modern"])
def test_nothing_is_float64_on_the_device(folder: Folder, gpu: PretendGPU, recipe: str) -> None:
    with NoFloat64(gpu):
        folder.train("--device=mps", f"--recipe={recipe}", "--sample_interval=10", "--dropout=0.1")
        folder.run("eval", "run", "--device=mps")
        folder.run("sample", "run", "--device=mps", "--top_p=0.9")
    assert folder.events(kind="start")[0]["device"] == "mps"


@pytest.mark.parametrize(("device", "expected"), [("mps", False), ("cuda", True)])
def test_only_pinned_memory_is_copied_without_waiting(gpu: PretendGPU, device: str, expected: bool) -> None:
    """To MPS such a copy may read memory that is freed already."""
    config = TrainConfig(n_layer=1, n_head=2, n_embd=16, block_size=8, batch_size=4)
    shape = ModelConfig(vocab_size=11, block_size=8, n_layer=1, n_head=2, n_embd=16, recipe="modern")
    learner = Learner(
        config, build_model(shape), Machine(Choice(device, "", "float32", False, Joined("", ())), Processes())
    )
    learner.forward_backward([(torch.zeros(4, 8, dtype=torch.int64),) * 2], 0)
    assert gpu.non_blocking == [expected, expected]
