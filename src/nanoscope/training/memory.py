"""The memory that training takes: a fixed part, and as much again for each sequence of a micro-batch.

Start-up fills in this model from the warm-up's pass of one sequence, `plan` from fake tensors.
"""

from dataclasses import dataclass

import psutil
import torch
from torch import Tensor, nn

from nanoscope.errors import JobError
from nanoscope.model import ModelConfig

MUCH, GOOD = 0.9, 0.8  # of the memory: more does not fit; what is suggested instead
PROCESS_BYTES = 350_000_000  # Python and torch themselves
LEAST_PER_PARAMETER = 12  # weight, gradient and what the optimizer keeps, 4 bytes each


@dataclass(frozen=True)
class Memory:
    """In bytes."""

    fixed: int
    each: int
    """For each sequence of a micro-batch."""

    def total(self, sequences: int) -> int:
        return self.fixed + sequences * self.each

    def fits(self, sequences: int, available: float) -> bool:
        return self.total(sequences) <= MUCH * available

    def largest(self, available: float) -> int:
        """The micro-batch that fits with some room to spare; 0 if there is none."""
        return max(int((GOOD * available - self.fixed) / self.each), 0)


class SavedBytes:
    """Adds up the tensors that a forward pass keeps, each storage once and parameters not at all.

    Autocast's copies of the weights are counted apart: there is one of each, however many sequences there are.
    """

    def __init__(self, model: nn.Module) -> None:
        self.bytes = self.weight_copies = 0
        self._seen = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self._shapes = {parameter.shape for parameter in model.parameters()}

    def count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            transposed = tensor.ndim == 2 and not tensor.is_contiguous()  # as linear layers keep their weights
            if transposed and tensor.dtype != torch.float32 and tensor.t().shape in self._shapes:
                self.weight_copies += storage.nbytes()
            else:
                self.bytes += storage.nbytes()
        return tensor


def checkpoint_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The weights and what the optimizer keeps of each: two averages where it has betas (AdamW), else one."""
    groups = optimizer.param_groups
    return sum(p.nbytes * (3 if "betas" in group else 2) for group in groups for p in group["params"])


def check_fits(shape: ModelConfig, device: torch.device) -> None:
    """JobError for a model that exceeds the memory of the device, before any of it is taken."""
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else psutil.virtual_memory().total
    parameters = shape.estimated_parameters
    needed = LEAST_PER_PARAMETER * parameters
    if needed > available:
        raise JobError(
            "training {billions:.2f}B parameters needs {needed}, this device has {available}\n"
            "Reduce --n_layer or --n_embd.",
            billions=parameters / 1e9,
            needed=f"{needed / 2**30:.0f} GB",
            available=f"{available / 2**30:.0f} GB",
        )
