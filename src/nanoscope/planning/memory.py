"""The memory that training takes, without taking it: steps of the engine on fake tensors, which have no data.

The real model, backward pass and optimizers run, so nothing is derived by hand for a recipe or a setting. Blocks are
alike, and so are sequences: what is large is extrapolated from what is small. For another device than a CPU, the
functions and data types are those that are used there (flash attention on CUDA), and the fragmentation of its caching
allocator is not included.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DeviceConfig
from nanoscope.model import ModelConfig, Modern, build_model, cpu_kernels
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.machine import Machine

LAYERS = 2, 4  # of the two models that a deeper one is extrapolated from
# Other micro-batches are extrapolated from two small and two large ones: the peak lies at the end of the backward
# pass, where all gradients exist, or at its beginning, where all activations do. One sequence is laid out differently.
SMALL, LARGE_TOKENS = 2, 2048


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of one process."""

    parameters: int
    checkpoint: int
    """Weights and the optimizer's state."""
    peak: int
    """At most, at any moment: also with gradients and activations."""


def training_memory(
    shape: ModelConfig, config: TrainConfig, micro_batch: int, device_type: str, dtype: str
) -> TrainingMemory:
    """What a step with micro-batches of this size takes; `dtype` is that of matrix multiplications."""
    shape = replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)
    sparse = device_type == "cpu" and config.compile is not True

    def counted(layers: int, sequences: int) -> tuple[int, ...]:
        return _count(replace(shape, n_layer=layers), sequences, sparse, device_type, dtype)

    def extrapolated(least: int) -> np.ndarray:
        sizes = least, 2 * least
        found = np.array([[counted(layers, sequences) for sequences in sizes] for layers in LAYERS])
        return _extrapolated(sizes, _extrapolated(LAYERS, found, shape.n_layer), micro_batch)

    large = max(LARGE_TOKENS // shape.block_size, SMALL)
    parameters, checkpoint, first, later, update = map(int, np.maximum(extrapolated(SMALL), extrapolated(large)))
    accumulates = config.sequences_per_step > micro_batch  # from its second pass on, a step also has gradients
    return TrainingMemory(parameters, checkpoint, max(later if accumulates else first, update))


def _extrapolated(places: tuple[int, int], found: np.ndarray, place: int) -> np.ndarray:
    """Everything grows in proportion to layers, and to sequences."""
    few, more = found
    grown: np.ndarray = few + (more - few) * (place - places[0]) // (places[1] - places[0])
    return grown


@lru_cache(maxsize=64)
def _count(shape: ModelConfig, sequences: int, sparse: bool, device_type: str, dtype: str) -> tuple[int, ...]:
    """Parameters; bytes of a checkpoint; the most during the first pass of a step, a later one, and the update."""
    machine = Machine(DeviceConfig("cpu", "", dtype, False, ()), Processes())
    with _faked(device_type) as live:
        model = build_model(shape)
        if isinstance(model, Modern) and model.ngrams is not None:
            model.ngrams.sparse = sparse
        recipe: Literal["modern", "classic"] = "modern" if isinstance(model, Modern) else "classic"
        engine = Engine(TrainConfig(recipe=recipe, batch_size=sequences), model, machine)
        engine.scaler = torch.amp.GradScaler("cpu", enabled=False)  # it would read numbers
        tokens = torch.zeros(sequences, shape.block_size, dtype=torch.int64)
        one_pass = partial(engine.passes, [(tokens, tokens)], 0)
        for _ in range(2):  # only the second step has the optimizer's state from its beginning
            peaks = []
            for work in (one_pass, one_pass, lambda: engine.update(1e-3)):
                live.peak = live.bytes
                work()
                peaks.append(live.peak)
        checkpoint = live.bytes - tokens.nbytes
    return model.parameter_count(), checkpoint, *peaks


@contextmanager
def _faked(device_type: str) -> Iterator["_Live"]:
    """Make tensors without data, which are on a CPU, and do what is done on this type of device."""
    attention = SDPBackend.MATH if device_type == "mps" else SDPBackend.FLASH_ATTENTION
    with cpu_kernels.as_on(device_type), sdpa_kernel(attention), _LikeGpu(), FakeTensorMode(), _Live() as live:
        yield live


class _LikeGpu(TorchFunctionMode):
    """Dropout by torch keeps a byte for each value on a GPU, and its attention no more with dropout than without."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.dropout:
            return torch.native_dropout(args[0], kwargs["p"], train=True)[0]
        if func is F.scaled_dot_product_attention:
            kwargs = kwargs | {"dropout_p": 0.0}
        return func(*args, **kwargs)


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that exist, and remembers the most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self._add(tensor.untyped_storage())
        self.peak = max(self.peak, self.bytes)
        return found

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known[key] = weakref.ref(storage, lambda _: self._remove(key, size))
            self.bytes += size

    def _remove(self, key: int, size: int) -> None:
        del self._known[key]
        self.bytes -= size
