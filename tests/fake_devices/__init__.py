"""CUDA without a GPU: fake tensors, which have a device and a dtype but no data, go through the real model.

Forward passes, autocast, saved tensors and optimizers work. Backward passes don't: autograd looks for a real device.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DeviceConfig, DeviceInfo, autocast, choose
from nanoscope.model import LanguageModel, ModelConfig, build_model
from nanoscope.optim.groups import build_optimizer

_SIZES: dict[str, Any] = {"vocab_size": 65, "block_size": 32, "n_layer": 1, "n_head": 4, "n_embd": 32}
SHAPES = {
    "classic": ModelConfig(**_SIZES, recipe="classic", bias=True),
    "modern": ModelConfig(**_SIZES, recipe="modern", ngrams=3, token_shift=2),
}


def gpu(name: str = "NVIDIA A100-SXM4-40GB", capability: tuple[int, int] = (8, 0), dtype: str = "auto") -> DeviceConfig:
    """How a run in eager mode would use such a GPU."""
    info = DeviceInfo(cuda_names=(name,), cuda_capabilities=(capability,), torch_has_cuda=True)
    return choose("cuda", dtype, False, info)


def allow_fake_cuda(folder: Path) -> None:
    """Build the device guard in this folder and load it; a torch that is built with CUDA has its own."""
    if torch.backends.cuda.is_built():
        return
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        pytest.skip("fake CUDA tensors need a C++ compiler: c++, g++ or clang++")
    library, of_torch = folder / "guard.so", Path(torch.__file__).parent
    command = [compiler, "-std=c++20", "-shared", "-fPIC", str(Path(__file__).with_name("guard.cpp"))]
    command += [f"-I{of_torch / 'include'}", f"-L{of_torch / 'lib'}", "-lc10", "-o", str(library)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    torch.ops.load_library(library)


@contextlib.contextmanager
def on_fake_cuda() -> Iterator[None]:
    """Tensors have no data and may be on 'cuda'. Autocast believes in it, and attention is flash attention."""
    with contextlib.ExitStack() as changes:
        changes.enter_context(mock.patch("torch.cuda.amp.common.amp_definitely_not_available", return_value=False))
        changes.enter_context(mock.patch("torch.cuda.is_bf16_supported", return_value=True))
        changes.enter_context(mock.patch("torch.nn.functional.scaled_dot_product_attention", _flash_attention))
        changes.enter_context(FakeTensorMode())
        yield


def _flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: None = None, dropout_p: float, is_causal: bool
) -> Tensor:
    if q.dtype == torch.float32:  # for 16 bits only; the memory-efficient kernel keeps the same
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, dropout_p, is_causal)[0]
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal)[0]


@dataclass(frozen=True)
class Op:
    """An operation with the dtypes of the floating-point tensors that it takes and gives."""

    name: str
    takes: tuple[torch.dtype, ...]
    gives: tuple[torch.dtype, ...]


class Recorded(TorchDispatchMode):
    """Collects the operations that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view and func.namespace == "aten":
            self.ops.append(Op(func.overloadpacket.__name__, _floating((args, kwargs)), _floating(found)))
        return found


def _floating(values: Any) -> tuple[torch.dtype, ...]:
    tensors = (each for each in tree_leaves(values) if isinstance(each, Tensor))
    return tuple(each.dtype for each in tensors if each.is_floating_point())


def forward_pass(shape: ModelConfig, choice: DeviceConfig) -> tuple[LanguageModel, Tensor, list[Op]]:
    """A new model, the loss of a forward pass on two sequences, and what that did. Call it within `on_fake_cuda`."""
    with torch.device(choice.device):  # fake parameters can't be moved
        model = build_model(shape)
    tokens = torch.zeros(2, shape.block_size, dtype=torch.int64, device=choice.device)
    with Recorded() as recorded, autocast(choice):
        loss = model(tokens, tokens)
    return model, loss, recorded.ops


def optimizer_step(model: LanguageModel, choice: DeviceConfig) -> list[Op]:
    """What an update of all weights did."""
    config = TrainConfig(recipe=model.config.recipe)
    optimizer = build_optimizer(model, config, choice.type, choice.dtype)
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    with Recorded() as recorded:
        optimizer.step()
    return recorded.ops
