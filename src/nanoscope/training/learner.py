"""What learns: a model with its optimizer. Forward, backward, clip and step are its methods."""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.hardware.memory import OptimizerTooLargeError, is_out_of_memory
from nanoscope.model import LanguageModel
from nanoscope.model.checkpoint import LoadedCheckpoint
from nanoscope.model.flops import flops_per_token
from nanoscope.model.weights import load_model_weights
from nanoscope.optim.groups import build_optimizer, clip_gradients
from nanoscope.training.checkpoint import load_optimizer
from nanoscope.training.machine import Machine


class Learner:
    """`plain_model` holds the weights. `model` computes with them: it may be compiled and distributed."""

    def __init__(self, config: TrainConfig, plain_model: LanguageModel, machine: Machine) -> None:
        self.config, self.machine = config, machine
        self.plain_model, self.model = plain_model, cast(nn.Module, plain_model)
        self.optimizer = build_optimizer(plain_model, config, machine.choice.type, machine.choice.dtype)
        self.scaler = torch.amp.GradScaler(machine.choice.type, enabled=machine.choice.dtype == "float16")
        self.flops_per_token = flops_per_token(plain_model.config, plain_model.multiplied_parameters())
        self._parameters = list(plain_model.parameters())

    def forward_backward(
        self, batches: list[Batch], step: int, abandoned: Callable[[], bool] = lambda: False
    ) -> Tensor | None:
        """Add up the gradients of all micro-batches. Returns this process's share of the mean loss.

        None if `abandoned`, asked before each micro-batch, became true; then there are no gradients.
        """
        self._seed_dropout(step)
        device, world = self.machine.device, self.machine.processes.world
        total = torch.zeros((), device=device)
        for number, (tokens, targets) in enumerate(batches, start=1):  # (B, T) each
            if abandoned():
                self.zero_grad()
                return None
            if isinstance(self.model, DistributedDataParallel):  # exchange gradients once, after the last micro-batch
                self.model.require_backward_grad_sync = number == len(batches)
            share = len(tokens) / self.config.sequences_per_step
            pinned = device.type == "cuda"  # only from pinned memory is it safe not to wait for the copy
            with self.machine.autocast():
                loss = self.model(tokens.to(device, non_blocking=pinned), targets.to(device, non_blocking=pinned))
            # DDP averages over the processes, and each holds only its own part of the mean: hence × world.
            self.scaler.scale(loss * (share * world)).backward()
            total += loss.detach() * share
        return total

    def clip(self) -> Tensor:
        """Clip the gradients, unless grad_clip is 0. Returns their norm before that."""
        self.scaler.unscale_(self.optimizer)
        return clip_gradients(self._parameters, self.config.grad_clip)

    def step(self, lr: float) -> None:
        """Update the weights."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("lr_scale", 1.0)
        try:
            self.scaler.step(self.optimizer)
        except (RuntimeError, MemoryError) as error:  # some weights may have changed already
            raise OptimizerTooLargeError() if is_out_of_memory(error) else error from None
        self.scaler.update()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def is_finite(self, loss: float, grad_norm: float) -> bool:
        """Whether an iteration went well, and may be followed by others."""
        # float16 overflows now and then, which is what the scaler is for: there only the loss is a sign of trouble.
        return math.isfinite(loss) and (self.scaler.is_enabled() or math.isfinite(grad_norm))

    def restore(self, checkpoint: LoadedCheckpoint) -> None:
        """Take weights, optimizer and scaler from a checkpoint."""
        load_model_weights(self.plain_model, checkpoint.model)
        load_optimizer(self.optimizer, self.plain_model, checkpoint.optimizer)
        if checkpoint.scaler:  # it has none if it was not trained in float16
            self.scaler.load_state_dict(checkpoint.scaler)

    def distribute(self) -> None:
        """Have the processes of the run average their gradients."""
        if self.machine.processes.world > 1:
            device, on_gpu = self.machine.device, self.machine.choice.type == "cuda"
            self.model = DistributedDataParallel(self.model, device_ids=[device.index] if on_gpu else None)

    def _seed_dropout(self, step: int) -> None:
        """Dropout depends on seed, iteration and process alone: a resumed run needs no random state to repeat it."""
        if self.config.dropout > 0 or self.config.ngram_dropout > 0:
            mixed = (self.config.seed * 1_000_003 + step) * 1_000_003 + self.machine.processes.rank
            torch.manual_seed(mixed % 2**63)
