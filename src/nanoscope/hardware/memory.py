"""Whether a model fits, asked before it takes the machine's memory with it; and how to tell that it did not."""

import psutil
import torch

from nanoscope.errors import JobError
from nanoscope.model import ModelConfig

NO_ROOM_FOR_ONE = JobError(
    "out of memory, with one sequence at a time\nUse a smaller --block_size, --n_layer or --n_embd."
)


def check_fits(shape: ModelConfig, device: torch.device, batch_size: int) -> None:
    """JobError for a model or batch that cannot fit on the device, however empty it is."""
    parameters = 12 * shape.n_layer * shape.n_embd**2 + (shape.vocab_size + shape.block_size) * shape.n_embd
    needed = 16 * parameters  # weights, gradients and AdamW's two averages, 4 bytes each
    there = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else psutil.virtual_memory().total
    if needed > there:
        raise JobError(
            f"a model of {parameters / 1e9:.2f}B parameters needs {needed / 2**30:.0f} GB to train, "
            f"this device has {there / 2**30:.0f} GB\nUse a smaller --n_layer or --n_embd."
        )
    logits = 4 * batch_size * shape.block_size * shape.vocab_size
    if logits > there:
        raise JobError(
            f"batch_size={batch_size} needs {logits / 2**30:.0f} GB for its logits alone, this device has "
            f"{there / 2**30:.0f} GB\nUse a smaller --batch_size and more --gradient_accumulation_steps."
        )


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has an exception of its own for it; a CPU and Apple's GPUs only say so."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def release(device: torch.device) -> None:
    """Give back what the allocator keeps, so that pieces of another size find room."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
