"""A safetensors file in the making: tensors are copied into one piece of memory, which is written when there is time.

The format: eight bytes with the header's length, the header (JSON: type, shape and place of each tensor), the bytes.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

TYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class TensorFile:
    """Holds a copy of some tensors as the bytes of their file.

    Memory and layout are kept for the next copy of the same tensors, so that it costs no page faults and, as training
    may be waiting for the interpreter, little Python.
    """

    def __init__(self) -> None:
        self._sources: list[tuple[str, int]] | None = None
        self._copies: list[Callable[[], object]] = []
        self._header = b""
        self._body = torch.empty(0, dtype=torch.uint8)

    @property
    def nbytes(self) -> int:
        return len(self._header) + self._body.nbytes

    def copy(self, tensors: dict[str, Tensor]) -> None:
        sources = [(name, tensor.data_ptr()) for name, tensor in tensors.items()]
        if sources != self._sources:
            self._lay_out(tensors)
            self._sources = sources
        for copy in self._copies:
            copy()

    def chunks(self, chunk_bytes: int) -> Iterator[bytes | memoryview]:
        """The file's bytes, in pieces."""
        yield self._header
        body = self._body.numpy().data
        for start in range(0, len(body), chunk_bytes):
            yield body[start : start + chunk_bytes]

    def _lay_out(self, tensors: dict[str, Tensor]) -> None:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # so that all are aligned
        end = 0
        for name in names:
            start, end = end, end + tensors[name].nbytes
            kind, shape = TYPE_NAMES[tensors[name].dtype], list(tensors[name].shape)
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        self._header = len(text).to_bytes(8, "little") + text
        # Not numpy's memory: it asks Linux for huge pages, which took five times as long to get (benchmarks/LOG.md).
        on_gpu = any(tensor.is_cuda for tensor in tensors.values())
        self._body = torch.empty(end, dtype=torch.uint8, pin_memory=on_gpu)
        self._copies = []
        for name in names:
            start, end = header[name]["data_offsets"]
            place = self._body[start:end].view(tensors[name].dtype).view(tensors[name].shape)
            self._copies.append(_copying(tensors[name], place))


def _copying(source: Tensor, place: Tensor) -> Callable[[], object]:
    if source.device.type != "cpu":
        return partial(place.copy_, source)
    if source.dtype == torch.bfloat16:  # numpy has no such type
        source, place = source.view(torch.int16), place.view(torch.int16)
    # numpy copies in this thread alone; torch would start OpenMP threads that compete with those of training.
    return partial(np.copyto, place.numpy(), source.numpy())
