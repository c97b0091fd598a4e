"""A GPU where there is none: torch says that it has MPS, and whatever is put there stays on the CPU.

So the paths that training takes on a device other than a CPU are taken. MPS's rule about float64 holds, and time is
virtual: work is queued, and only waiting for the device makes its time pass.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanoscope.hardware import device
from nanoscope.model import cpu_kernels
from nanoscope.training.engine import Engine


class PretendGPU(TorchFunctionMode):
    """Leaves tensors where they are when they are moved to a device or made there. Remembers how they were moved."""

    def __init__(self) -> None:
        super().__init__()
        self.non_blocking: list[bool] = []
        self.on_host: dict[int, Tensor] = {}  # by address; kept, so that no other tensor gets the address

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {key: value for key, value in (kwargs or {}).items() if key != "device"}
        if func is Tensor.cpu:
            copy = args[0].detach().clone()
            return self.on_host.setdefault(copy.untyped_storage().data_ptr(), copy)
        if func is Tensor.to and any(isinstance(arg, torch.device | str) for arg in args):
            if args[0].dtype == torch.int64:
                self.non_blocking.append(kwargs.get("non_blocking", False))
            return args[0]
        return func(*args, **kwargs)


class NoFloat64(TorchDispatchMode):
    """Refuses float64 as MPS does: also as the result of something else that is on the device."""

    def __init__(self, gpu: PretendGPU) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        before = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        ours = [leaf for leaf in before if leaf.untyped_storage().data_ptr() not in self.gpu.on_host]
        after = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        if any(leaf.dtype == torch.float64 for leaf in after) and any(leaf.dtype != torch.float64 for leaf in ours):
            raise TypeError(f"{func}: Cannot convert a MPS Tensor to float64 dtype")
        return found


class VirtualTime:
    """A clock, and a device that works through its queue beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step_seconds: float, depth: int) -> None:
        self.now, self.queue = 0.0, list[float]()  # the queue: when each step will be done
        self.steps = 0
        monkeypatch.setattr(time, "perf_counter", self.perf_counter)
        monkeypatch.setattr(torch.mps, "synchronize", self.synchronize)
        original: Callable[..., Tensor] = Engine.update

        def update(*args: Any) -> Tensor:
            self.now += 0.001  # to start its operations
            while len(self.queue) >= depth:
                self.now = max(self.now, self.queue.pop(0))
            self.queue.append(max([self.now, *self.queue[-1:]]) + step_seconds)
            self.steps += 1
            return original(*args)

        monkeypatch.setattr(Engine, "update", update)

    def perf_counter(self) -> float:
        self.now += 1e-6  # something passes always
        return self.now

    def synchronize(self) -> None:
        self.now = max([self.now, *self.queue])
        self.queue.clear()


def install(monkeypatch: pytest.MonkeyPatch) -> PretendGPU:
    """Let `--device=mps` choose the pretend GPU. It has to be entered, too."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 0)
    monkeypatch.setattr(device, "measure_peak", lambda *_: 1e12)
    monkeypatch.setattr(cpu_kernels, "use_cpu_kernels", lambda x: False)  # which is for CPUs
    return PretendGPU()
