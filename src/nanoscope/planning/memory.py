"""The memory that training takes, by part, without taking it: one iteration on fake tensors, which have no data.

Fake tensors go through the real model, backward pass and optimizers, so nothing has to be derived by hand for a recipe
or a setting. Blocks are alike, and so are sequences: what is large is extrapolated from what is small. On another
device than a CPU, the functions and data types are those that are used there (flash attention on CUDA), and the
caching allocator's fragmentation is not included.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DTYPES
from nanoscope.model import ModelConfig, Modern, build_model, cpu_kernels
from nanoscope.optim.groups import build_optimizer, clip_gradients

SHALLOW = 2, 4  # layers of the two models that a deeper one is extrapolated from
SEQUENCES = 2, 4  # of the two micro-batches that others are extrapolated from; a single one is laid out differently


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
    shape = replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)
    sparse = device_type == "cpu" and config.compile is not True

    def counted(layers: int, sequences: int) -> _Counted:
        return _count(replace(shape, n_layer=layers), sequences, sparse, device_type, dtype)

    in_depth = [
        _between(SHALLOW, [counted(layers, sequences) for layers in SHALLOW], shape.n_layer) for sequences in SEQUENCES
    ]
    found = _between(SEQUENCES, in_depth, micro_batch)
    passes = found.later_peak if config.sequences_per_step > micro_batch else found.first_peak
    logits = 4 * micro_batch * shape.block_size * shape.vocab_size
    return Memory(
        parameters=found.parameters,
        weights=found.weights,
        gradients=found.gradients,
        optimizer=found.optimizer,
        activations=found.saved - logits,
        logits=3 * logits,
        peak=max(passes, found.update_peak),
    )


class _Counted(NamedTuple):
    parameters: int
    weights: int
    gradients: int
    optimizer: int
    saved: int
    first_peak: int
    """During the first forward and backward pass of an iteration, which has no gradients yet."""
    later_peak: int
    update_peak: int


def _between(places: tuple[int, int], counted: list[_Counted], place: int) -> _Counted:
    """Everything grows in proportion to layers, and to sequences."""
    times = (place - places[0]) / (places[1] - places[0])
    return _Counted(*(round(low + times * (high - low)) for low, high in zip(*counted, strict=True)))


@lru_cache(maxsize=64)
def _count(shape: ModelConfig, sequences: int, sparse: bool, device_type: str, dtype: str) -> _Counted:
    live = _Live()
    with as_on(device_type), FakeTensorMode(), live:
        model = build_model(shape)
        if isinstance(model, Modern) and model.ngrams is not None:
            model.ngrams.sparse = sparse
        weights = live.bytes
        config = TrainConfig(recipe="modern" if isinstance(model, Modern) else "classic")
        optimizer = build_optimizer(model, config, "cpu", dtype)
        tokens = torch.zeros(sequences, shape.block_size, dtype=torch.int64)
        for _ in range(2):  # only the second iteration has the optimizer's state from its beginning
            begin, peaks = live.bytes, []
            for _ in range(2):
                before = live.restart()
                with torch.autocast("cpu", DTYPES[dtype], enabled=dtype != "float32"):
                    loss = model(tokens, tokens)
                saved = live.bytes - before
                loss.backward()
                peaks.append(live.peak)
            gradients = live.bytes - begin - _bytes(loss)
            live.restart()
            clip_gradients(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        state = live.bytes - weights - _bytes(tokens) - _bytes(loss)
    first, later = peaks
    return _Counted(model.parameter_count(), weights, gradients, state, saved, first, later, live.peak)


def _bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that exist, and remembers the most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def restart(self) -> int:
        """Forget the most so far; returns what there is now."""
        self.peak = self.bytes
        return self.bytes

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
def as_on(device_type: str) -> Iterator[None]:
    """Let the model's functions do on fake tensors what they do on this device."""
    with contextlib.ExitStack() as changes:
        change = partial(mock.patch.object, cpu_kernels)
        if device_type != "cpu":
            changes.enter_context(change("by_hand", lambda x: False))
            changes.enter_context(change("dropout", _dropout))
            changes.enter_context(change("causal_attention", partial(_without_dropout, cpu_kernels.causal_attention)))
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
