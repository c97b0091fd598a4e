"""Memory: checking that a model fits before allocating it, and recognising that memory ran out."""

from contextlib import suppress
from pathlib import Path

import psutil
import torch

from nanoscope.errors import OUT_OF_MEMORY, JobError
from nanoscope.messages import Text


class DoesNotFitError(JobError):
    """The memory of the device is too small."""


class SequenceTooLargeError(DoesNotFitError):
    """Memory ran out although the micro-batch is a single sequence."""

    def __init__(self) -> None:
        super().__init__(
            Text("out of memory with one sequence per micro-batch\nReduce --block_size, --n_layer or --n_embd.")
        )


class OptimizerTooLargeError(DoesNotFitError):
    """Memory ran out in the optimizer's step. A smaller micro-batch would not help: its tensors are free by then."""

    def __init__(self) -> None:
        super().__init__(
            Text(
                "out of memory in the optimizer's step; nothing of this iteration was saved\n"
                "Free memory on the device, or reduce --n_layer or --n_embd."
            )
        )


def check_fits(device: torch.device, *, parameters: int, batch_size: int, logits_per_sequence: int) -> None:
    """Raise DoesNotFitError for a model or a batch that exceeds the total memory of the device."""
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else psutil.virtual_memory().total
    model_bytes = training_bytes(parameters)
    if model_bytes > available:
        raise DoesNotFitError(
            "training {billions:.2f}B parameters needs {needed}, this device has {available}\n"
            "Reduce --n_layer or --n_embd.",
            billions=parameters / 1e9,
            needed=_gigabytes(model_bytes),
            available=_gigabytes(available),
        )
    logits_bytes = 4 * batch_size * logits_per_sequence
    if logits_bytes > available:
        raise DoesNotFitError(
            "batch_size={batch_size} needs {needed} for the logits alone, this device has {available}\n"
            "Reduce --batch_size and increase --gradient_accumulation_steps.",
            batch_size=batch_size,
            needed=_gigabytes(logits_bytes),
            available=_gigabytes(available),
        )


def available_bytes(device: torch.device) -> int:
    """What this process can have in total: what it has already, and what is free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    found: int = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        with suppress(OSError, ValueError):  # not Linux, or "max"
            found = min(found, int(Path(limit).read_text("ascii")))
    return found


def training_bytes(parameters: int) -> int:
    """Weights, gradients and AdamW's two averages, 4 bytes each."""
    return 16 * parameters


def _gigabytes(count_bytes: int) -> str:
    return f"{count_bytes / 2**30:.0f} GB"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out. CUDA's allocator has its own exception; all others only have their message."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def release(device: torch.device) -> None:
    """Return cached blocks to the device, so that allocations of other sizes can use them."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
