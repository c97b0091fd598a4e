"""The work of an iteration, counted without doing it: arithmetic, bytes moved and operations, on fake tensors.

Whatever a device is, a step has to do the arithmetic of its matrix multiplications, move the operands and results of
everything else through memory, and start every operation. elsewhere.py turns these into time.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DTYPES
from nanoscope.model import ModelConfig, build_model
from nanoscope.model.flops import flops_per_token
from nanoscope.optim.groups import build_optimizer, clip_gradients
from nanoscope.planning.memory import SEQUENCES, SHALLOW, as_on


@dataclass(frozen=True)
class Work:
    """What has to be done."""

    flops: float
    """Of matrix multiplications and attention, by the definition that MFU has (model/flops.py)."""
    bytes: float
    """Read and written by all other operations, each by itself, as in eager mode."""
    operations: float

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.bytes + other.bytes, self.operations + other.operations)

    def __mul__(self, times: float) -> "Work":
        return Work(self.flops * times, self.bytes * times, self.operations * times)


@dataclass(frozen=True)
class StepWork:
    """Of an iteration: forward and backward pass of each micro-batch, then one update of the weights."""

    micro_batch: Work
    update: Work
    multiplied_parameters: int


def count_work(shape: ModelConfig, config: TrainConfig, micro_batch: int, device_type: str, dtype: str) -> StepWork:
    """Count an iteration as it would run on such a device. Blocks are alike, sequences too: few of both are enough."""
    (few, update), (more, _) = (
        _in_depth(shape, config.recipe, sequences, device_type, dtype) for sequences in SEQUENCES
    )
    passes = _extrapolated(SEQUENCES, few, more, micro_batch)
    with torch.device("meta"):
        matrices = build_model(shape).multiplied_parameters()
    flops = flops_per_token(shape, matrices) * micro_batch * shape.block_size
    return StepWork(replace(passes, flops=flops), update, matrices)


def _in_depth(shape: ModelConfig, recipe: str, sequences: int, device_type: str, dtype: str) -> tuple[Work, Work]:
    few, more = (_counted(replace(shape, n_layer=n), recipe, sequences, device_type, dtype) for n in SHALLOW)
    passes, update = (_extrapolated(SHALLOW, *each, shape.n_layer) for each in zip(few, more, strict=True))
    return passes, update


def _extrapolated(places: tuple[int, int], few: Work, more: Work, place: int) -> Work:
    return few + (more + few * -1) * ((place - places[0]) / (places[1] - places[0]))


@lru_cache(maxsize=64)
def _counted(shape: ModelConfig, recipe: str, sequences: int, device_type: str, dtype: str) -> tuple[Work, Work]:
    """Count the passes of a micro-batch, and the update."""
    config = TrainConfig(recipe="modern" if recipe == "modern" else "classic")
    with as_on(device_type), FakeTensorMode():
        model = build_model(shape)
        optimizer = build_optimizer(model, config, "cpu", dtype)
        tokens = torch.zeros(sequences, shape.block_size, dtype=torch.int64)
        for _ in range(2):  # the second update has the optimizer's state
            with _Counter() as passes:
                with torch.autocast("cpu", DTYPES[dtype], enabled=dtype != "float32"):
                    loss = model(tokens, tokens)
                loss.backward()
            with _Counter() as update:
                clip_gradients(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
    return passes.work, update.work


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what operations do; views and allocations do nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work = Work(0, 0, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.is_view or func.namespace == "prim" or any(word in func.name() for word in ("view", "empty")):
            return found
        if (count := flop_registry.get(func.overloadpacket)) is not None:
            self.work += Work(count(*args, **(kwargs or {}), out_val=found), 0, 1)
        else:
            touched = [each for each in tree_leaves((args, kwargs, found)) if isinstance(each, Tensor)]
            self.work += Work(0, sum(each.numel() * each.element_size() for each in touched), 1)
        return found
