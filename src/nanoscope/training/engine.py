"""The only body of a step: micro-batches forward and backward, clip, update. Knows no folder and no log.

Everything that trains or measures training calls `Engine.step`. The device is idle when it returns, so a step's time is
its own, and a loss that is not finite is known before anything else happens.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.parallel import DistributedDataParallel

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.errors import JobError
from nanoscope.hardware.device import autocast, synchronize
from nanoscope.hardware.memory import OPTIMIZER_TOO_LARGE, SEQUENCE_TOO_LARGE, is_out_of_memory, release
from nanoscope.model import LanguageModel
from nanoscope.model.checkpoint import LoadedCheckpoint
from nanoscope.model.flops import flops_per_token
from nanoscope.model.weights import load_model_weights
from nanoscope.optim.groups import build_optimizer, clip_gradients
from nanoscope.training.checkpoint import load_optimizer
from nanoscope.training.machine import Machine
from nanoscope.training.memory import PROCESS_BYTES, Memory, SavedBytes, checkpoint_bytes

Result = TypeVar("Result")
MEASURED_SECONDS = 0.05  # of a pass that only measures
LONG_SECONDS = 0.5  # for one sequence: setting up takes no part of that which counts


Abandoned = Callable[[int, int], bool]
"""Asked before each batch, with how many are done and how many there are: whether to stop there."""


def never(done: int, total: int) -> bool:
    return False


@dataclass(frozen=True)
class Step:
    """What one step found. Plain numbers: the device is idle by then."""

    loss: float
    """The mean over all sequences of the step, before the update."""
    grad_norm: float
    """Before clipping."""
    seconds: float
    finite: bool
    """The same in all processes."""
    update_seconds: float
    """On a GPU, also what was left of the micro-batches, unless they were timed."""
    passes: list[float]
    """Seconds of each micro-batch, if they were timed."""


@dataclass(frozen=True)
class WarmUp:
    seconds: float
    """Of a forward and backward pass, for each sequence."""
    memory: Memory
    updated: int
    """Parameters that every step updates: n-gram embeddings with sparse gradients are left out."""
    compile_problem: str | None = None
    """Why compiling failed, if it did; then training is eager."""


class Engine:
    """A model with its optimizer. `plain_model` holds the weights; `model` computes: compiled, distributed, or both.

    `micro_batch` is how many sequences go through the model at once. Where memory runs out it is halved for good.
    """

    def __init__(self, config: TrainConfig, model: LanguageModel, machine: Machine, micro_batch: int = 0) -> None:
        self.config, self.machine = config, machine
        self.device, self.processes = machine.device, machine.processes
        self.plain_model, self.compiled = model, False
        self.model: Any = model
        self.micro_batch = min(micro_batch or config.batch_size, config.batch_size)
        self.optimizer = build_optimizer(model, config, machine.choice.type, machine.choice.dtype)
        self.scaler = torch.amp.GradScaler(machine.choice.type, enabled=machine.choice.dtype == "float16")
        self.flops_per_token = flops_per_token(model.config, model.multiplied_parameters())

    def step(
        self,
        batches: list[Batch],
        step: int,
        lr: float,
        *,
        abandoned: Abandoned = never,
        timed: bool = False,
    ) -> Step | None:
        """Train on this process's sequences of iteration `step`, in micro-batches that fit.

        If it is `abandoned` it returns None, and nothing has changed. With `timed`, each micro-batch is timed.
        """
        began = time.perf_counter()
        spent: list[float] | None = [] if timed else None
        share = until_it_fits(
            lambda: self.passes(batches, step, abandoned, spent), lambda: self.halve_micro_batch(step)
        )
        if share is None:
            return None
        before_update = time.perf_counter()
        norm = self.update(lr)
        synchronize(self.device)
        now = time.perf_counter()
        # If one process's loss is not finite, neither is the sum: all of them notice it.
        loss, norms = self.processes.sum([share.item(), norm.item()])
        # float16 overflows now and then, which is what the scaler is for: there only the loss is a sign of trouble.
        finite = math.isfinite(loss) and (self.scaler.is_enabled() or math.isfinite(norms))
        return Step(loss, norms / self.processes.world, now - began, finite, now - before_update, spent or [])

    def passes(
        self,
        batches: list[Batch],
        step: int,
        abandoned: Abandoned = never,
        seconds: list[float] | None = None,
    ) -> Tensor | None:
        """Add up the gradients of all micro-batches. Returns this process's share of the mean loss, on the device.

        None if it was `abandoned`; then there are no gradients. `seconds` is filled with those of each micro-batch.
        """
        self._seed_dropout(step)
        if seconds:
            seconds.clear()  # of a try that ran out of memory
        device, world = self.device, self.processes.world
        pinned = device.type == "cuda"  # only from pinned memory is it safe not to wait for the copy
        parts = split(batches, self.micro_batch)
        mean_loss = torch.zeros((), device=device)
        for done, (tokens, targets) in enumerate(parts):  # (B, T) each
            began = time.perf_counter()
            if abandoned(done, len(parts)):
                self.zero_grad()
                return None
            if isinstance(self.model, DistributedDataParallel):  # exchange gradients once, after the last micro-batch
                self.model.require_backward_grad_sync = done + 1 == len(parts)
            share = len(tokens) / self.config.sequences_per_step
            with autocast(self.machine.choice):
                loss = self.model(tokens.to(device, non_blocking=pinned), targets.to(device, non_blocking=pinned))
            # DDP averages over the processes, and each holds only its own part of the mean: hence × world.
            self.scaler.scale(loss * (share * world)).backward()
            mean_loss += loss.detach() * share
            if seconds is not None:
                synchronize(self.device)
                seconds.append(time.perf_counter() - began)
        return mean_loss

    def update(self, lr: float) -> Tensor:
        """Clip the gradients, unless grad_clip is 0, and update the weights. Returns the norm before, on the device."""
        self.scaler.unscale_(self.optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("lr_scale", 1.0)
        try:
            norm = clip_gradients(self.plain_model.parameters(), self.config.grad_clip)
            self.scaler.step(self.optimizer)
        except (RuntimeError, MemoryError) as error:  # no second try: some weights may have changed already
            raise JobError(OPTIMIZER_TOO_LARGE) if is_out_of_memory(error) else error from None
        self.scaler.update()
        self.zero_grad()
        return norm

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def restore(self, checkpoint: LoadedCheckpoint) -> None:
        """Take weights, optimizer and scaler from a checkpoint."""
        load_model_weights(self.plain_model, checkpoint.model)
        load_optimizer(self.optimizer, self.plain_model, checkpoint.optimizer)
        if checkpoint.scaler:  # it has none if it was not trained in float16
            self.scaler.load_state_dict(checkpoint.scaler)

    def warm_up(self, step: int = 0) -> WarmUp:
        """Before iteration `step`: compile, measure a pass through the model, connect the processes.

        What is slow only once belongs to start-up, not to the first iteration. Weights, optimizer and random state stay
        as they are.
        """
        model, saved = self.plain_model, SavedBytes(self.plain_model)
        try:
            with saved_tensors_hooks(saved.count, lambda tensor: tensor):
                first = self._pass(1)
        except (RuntimeError, MemoryError) as error:
            raise JobError(SEQUENCE_TOO_LARGE) if is_out_of_memory(error) else error from None
        dense = [p.grad for p in model.parameters() if p.grad is not None and not p.grad.is_sparse]
        fixed = checkpoint_bytes(self.optimizer) + sum(gradient.nbytes for gradient in dense) + saved.weight_copies
        fixed += PROCESS_BYTES if self.device.type == "cpu" else 0
        logits = 4 * self.config.block_size * model.config.vocab_size  # their gradients exist beside what was saved
        problem = self._compile(step) if self.machine.choice.compile else None
        self.compiled = self.model is not model
        seconds = self._measure(first, step)
        self.zero_grad()
        if self.processes.world > 1:
            gpu = [self.device.index] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(self.model, device_ids=gpu)
        return WarmUp(seconds, Memory(fixed, saved.bytes + 2 * logits), sum(map(Tensor.numel, dense)), problem)

    def halve_micro_batch(self, step: int) -> None:
        """Continue with micro-batches of half the size and twice as many: the tokens per iteration stay the same."""
        self.zero_grad()
        before = self.micro_batch
        if before == 1:
            raise JobError(SEQUENCE_TOO_LARGE)
        if self.processes.world > 1:  # the others would wait for this one's gradients
            raise JobError(
                "out of memory at iteration {step}\nUse a --batch_size smaller than {before}.", step=step, before=before
            )
        self.micro_batch = before // 2
        release(self.device)

    def _compile(self, step: int) -> str | None:
        """Compile for whole micro-batches, which are halved until they fit. Or return why that does not work."""
        self.model = torch.compile(self.plain_model, dynamic=False)
        try:
            self._fitting_pass(self.micro_batch, step)
            return None
        except Exception as error:  # whatever stops the compiler doesn't stop eager mode
            self.model = self.plain_model
            return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)

    def _measure(self, first: float, step: int) -> float:
        """The fastest of a few more passes, if they are short: the first one also set things up."""
        if self.compiled:
            sequences = self.micro_batch
        elif first > LONG_SECONDS:
            return first
        else:
            sequences = max(1, int(MEASURED_SECONDS / self._pass(1)))
        return min(self._fitting_pass(sequences, step) for _ in range(2))

    def _fitting_pass(self, sequences: int, step: int) -> float:
        """A pass of so many sequences, or of a whole micro-batch, which is halved until it fits."""
        return until_it_fits(lambda: self._pass(min(sequences, self.micro_batch)), lambda: self.halve_micro_batch(step))

    def _pass(self, sequences: int) -> float:
        """Measure a forward and backward pass: its seconds for each sequence."""
        size, vocabulary = (sequences, self.config.block_size), self.plain_model.config.vocab_size
        tokens = torch.randint(vocabulary, size, generator=torch.Generator().manual_seed(0))
        seconds: list[float] = []
        synchronize(self.device)
        self.passes([(tokens, tokens)], 0, seconds=seconds)
        return seconds[0] / sequences

    def _seed_dropout(self, step: int) -> None:
        """Dropout depends on seed, iteration and process alone: a resumed run needs no random state to repeat it."""
        if self.config.dropout > 0 or self.config.ngram_dropout > 0:
            mixed = (self.config.seed * 1_000_003 + step) * 1_000_003 + self.processes.rank
            torch.manual_seed(mixed % 2**63)


def until_it_fits(attempt: Callable[[], Result], halve: Callable[[], None]) -> Result:
    """Call `attempt` until its batch fits in memory: each time it doesn't, `halve` makes the batch smaller."""
    while True:
        try:
            return attempt()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        halve()  # here, not above: the exception holds on to tensors


def split(batches: list[Batch], most: int) -> list[Batch]:
    """The same sequences in micro-batches of at most `most`."""
    return [part for batch in batches for part in zip(*(torch.split(half, most) for half in batch), strict=True)]
