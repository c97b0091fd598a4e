"""Memory: how much there is, and recognising that it ran out."""

from contextlib import suppress
from pathlib import Path

import psutil
import torch

from nanoscope.errors import OUT_OF_MEMORY
from nanoscope.messages import Message

SEQUENCE_TOO_LARGE = Message(
    "out of memory with one sequence per micro-batch\nReduce --block_size, --n_layer or --n_embd."
)
OPTIMIZER_TOO_LARGE = Message(  # a smaller micro-batch would not help: its tensors are free by then
    "out of memory in the optimizer's step; nothing of this iteration was saved\n"
    "Free memory on the device, or reduce --n_layer or --n_embd."
)


def available_bytes(device: torch.device) -> int:
    """The memory that this process can use in total: what it holds and what is free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    found: int = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    # the limits of a container
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not Linux, or "max"
            found = min(found, int(Path(limit).read_text("ascii")))
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out. CUDA's allocator has its own exception; all others only have their message."""
    said = f"{type(error).__name__}: {error}"
    return isinstance(error, RuntimeError | MemoryError) and OUT_OF_MEMORY.search(said) is not None


def release(device: torch.device) -> None:
    """Return cached blocks to the device, so that allocations of other sizes can use them."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
