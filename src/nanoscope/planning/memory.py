"""The memory that training takes, by part, without taking it: one iteration on fake tensors, which have no data.

Fake tensors go through the real model, backward pass and optimizers, so nothing has to be derived by hand for a recipe
or a setting. Blocks are alike: a deep model is extrapolated from two shallow ones. On another device than a CPU, the
functions and data types are those that are used there (flash attention on CUDA), and the caching allocator's
fragmentation is not included.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DTYPES
from nanoscope.model import ModelConfig, Modern, build_model, kernels
from nanoscope.optim.groups import build_optimizer, clip_gradients

SHALLOW = 2, 4  # layers of the two models that a deeper one is extrapolated from


@dataclass(frozen=True)
class Memory:
    """Bytes of one process. The parts are not all there at the same moment: `peak` is the most at any."""

    parameters: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    """What the forward pass keeps for the backward pass."""
    logits: int
    """Logits, their probabilities and the gradients of both."""
    peak: int


def training_memory(shape: ModelConfig, config: TrainConfig, micro_batch: int, device_type: str, dtype: str) -> Memory:
    """What one iteration with micro-batches of this size takes; `dtype` is that of matrix multiplications."""
    accumulates = config.sequences_per_step > micro_batch
    sparse = device_type == "cpu" and config.compile is not True
    shape = replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)

    def counted(layers: int) -> Memory:
        case = _Case(replace(shape, n_layer=layers), micro_batch, accumulates, sparse, device_type, dtype)
        return _count(case, config)

    if shape.n_layer <= SHALLOW[1]:
        return counted(shape.n_layer)
    few, more = (counted(layers) for layers in SHALLOW)
    times = (shape.n_layer - SHALLOW[0]) / (SHALLOW[1] - SHALLOW[0])
    return Memory(**{key: round(low + times * (vars(more)[key] - low)) for key, low in vars(few).items()})


@dataclass(frozen=True)
class _Case:
    shape: ModelConfig
    micro_batch: int
    accumulates: bool
    sparse: bool
    device_type: str
    dtype: str


def _count(case: _Case, config: TrainConfig) -> Memory:
    live = _Live()
    with _as_on(case.device_type), FakeTensorMode(), live:
        model = build_model(case.shape)
        if isinstance(model, Modern) and model.ngrams is not None:
            model.ngrams.sparse = case.sparse
        weights = live.bytes
        optimizer = build_optimizer(model, config, "cpu")
        tokens = torch.zeros(case.micro_batch, case.shape.block_size, dtype=torch.int64)
        for _ in range(2):  # only the second iteration has the optimizer's state from its beginning
            live.peak, begin = 0, live.bytes
            for _ in range(2 if case.accumulates else 1):
                before = live.bytes
                with torch.autocast("cpu", DTYPES[case.dtype], enabled=case.dtype != "float32"):
                    loss = model(tokens, tokens)
                saved = live.bytes - before
                loss.backward()
            gradients = live.bytes - begin - _bytes(loss)
            if config.grad_clip > 0:
                clip_gradients(model.parameters(), config.grad_clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        state = live.bytes - weights - _bytes(tokens) - _bytes(loss)
    logits = 4 * case.micro_batch * case.shape.block_size * case.shape.vocab_size
    return Memory(model.parameter_count(), weights, gradients, state, saved - logits, 3 * logits, live.peak)


def _bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


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


@contextlib.contextmanager
def _as_on(device_type: str) -> Iterator[None]:
    """Let the model's functions do on fake tensors what they do on this device."""
    with contextlib.ExitStack() as changes:
        kernels._mask.cache_clear()  # masks that have data, and afterwards those that don't
        changes.callback(kernels._mask.cache_clear)
        change = partial(mock.patch.object, kernels)
        changes.enter_context(change("_dropout_factors", lambda shape, p: torch.empty(shape)))  # without random numbers
        if device_type != "cpu":
            changes.enter_context(change("by_hand", lambda x: False))
            changes.enter_context(change("dropout", _dropout))
            changes.enter_context(change("causal_attention", partial(_without_dropout, kernels.causal_attention)))
        changes.enter_context(sdpa_kernel(SDPBackend.MATH if device_type == "mps" else SDPBackend.FLASH_ATTENTION))
        yield


def _dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """As on a GPU, where it keeps a byte for each value."""
    return torch.native_dropout(x, p, training)[0] if p > 0 and training else x


def _without_dropout(
    attention: Callable[..., Tensor], qkv: Tensor, n_head: int, dropout: float = 0.0, rotation: Tensor | None = None
) -> Tensor:
    """As on a GPU, where attention with dropout keeps no more than without."""
    return attention(qkv, n_head, 0.0, rotation)
