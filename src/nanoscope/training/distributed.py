"""Several processes that train one run: what torchrun says about them, and what they exchange besides gradients."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from nanoscope.errors import UsageError


@dataclass
class Processes:
    """This process among those of the run: the only one unless torchrun started it."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    _patient: "dist.ProcessGroup | None" = field(default=None, init=False)
    """Does not time out: the first process may prepare data for hours."""

    @classmethod
    def from_environment(cls) -> "Processes":
        if "RANK" not in os.environ:
            return cls()
        return cls(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", 0)))

    @property
    def first(self) -> bool:
        """Whether this is the process that prints, logs and saves."""
        return self.rank == 0

    def connect(self, backend: str, device_type: str) -> None:
        """Join the process group. Control messages always use gloo: they must not wait for the GPU."""
        if self.world == 1:
            return
        if backend == "nccl" and device_type != "cuda":
            raise UsageError(
                "backend=nccl needs CUDA, but the device is {device_type}: use --backend=gloo or leave it out",
                device_type=device_type,
            )
        chosen = backend if backend != "auto" else "nccl" if device_type == "cuda" else "gloo"
        dist.init_process_group(
            f"cpu:gloo,cuda:{chosen}" if device_type == "cuda" else "gloo", timeout=timedelta(minutes=30)
        )
        self._patient = dist.new_group(backend="gloo", timeout=timedelta(days=30))

    def leave(self, status: int) -> None:
        """Exit together with the other processes, if there are any.

        This skips the interpreter's cleanup: destroying a process group while another process still uses it sometimes
        ended in SIGABRT, after all work was done and saved.
        """
        if self.world > 1:
            self.wait()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def wait(self) -> None:
        """Wait for the others, however long they take."""
        if self.world > 1:
            dist.barrier(self._patient)

    def from_first(self, text: str) -> str:
        """The text that the first process has."""
        shared = [text]
        if self.world > 1:
            dist.broadcast_object_list(shared, group=self._patient)
        return shared[0]

    def any(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is set in any process. All processes get the same answer."""
        return [total > 0 for total in self.sum(flags)]

    def sum(self, values: Iterable[float]) -> list[float]:
        """The sum over all processes, value by value."""
        total = torch.tensor(list(values), dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(total)
        return total.tolist()


def is_another_gone(error: RuntimeError) -> bool:
    """Whether an exchange failed because another process of the run has ended."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    return isinstance(error, dist.DistBackendError) or "by peer" in str(error)  # gloo raises no type of its own
