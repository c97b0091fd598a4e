"""What a run reads: batches to train on, and fixed windows of each split to evaluate on.

The windows are the same every time, so that evaluations can be compared.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanoscope.config import Auto, TrainConfig
from nanoscope.data.dataset import Dataset, TokenSplit
from nanoscope.data.loader import BatchLoader, check_length, windows_at
from nanoscope.errors import JobError
from nanoscope.hardware.device import autocast
from nanoscope.hardware.memory import SEQUENCE_TOO_LARGE, release
from nanoscope.model.checkpoint import TrainingState
from nanoscope.training.engine import Abandoned, never, until_it_fits
from nanoscope.training.machine import Machine


@dataclass(frozen=True)
class Estimate:
    """Mean cross-entropy per token over some windows, and the standard error of that mean."""

    loss: float
    stderr: float | None
    """None for a single window, or if the loss is not finite."""
    losses: list[float]
    """The loss of each window, in the order of the split."""


def evaluation_starts(tokens: int, block_size: int, windows: int | None) -> np.ndarray:
    """Where `windows` windows start, spread evenly over a split without overlap. None or too many: all that fit."""
    available = (tokens - 1) // block_size
    count = min(windows or available, available)
    return (np.arange(count) * available // count) * block_size


class Evaluator:
    """Evaluates a model on the windows of each split, which the processes of the run share."""

    LOGITS_AT_ONCE = 2**24  # 64 MB in fp32: larger batches are no faster
    TOKENS_AT_ONCE = 2**14
    TOKENS_AT_ONCE_ON_CPU = 2**12  # a few percent faster than 2^14, and 2^10 slower again (benchmarks/LOG.md)

    def __init__(
        self,
        splits: dict[str, TokenSplit],
        *,
        block_size: int,
        windows: int | None,
        vocab_size: int,
        machine: Machine,
        batch: int | Auto = "auto",
    ) -> None:
        self.splits, self.block_size, self.machine = splits, block_size, machine
        self.device, self.processes = machine.device, machine.processes
        for name, split in splits.items():
            check_length(split, name, block_size)
        self.starts = {name: evaluation_starts(len(split), block_size, windows) for name, split in splits.items()}
        self.share = slice(machine.processes.rank, None, machine.processes.world)
        """Which of the windows this process evaluates."""
        tokens_at_once = self.TOKENS_AT_ONCE_ON_CPU if self.device.type == "cpu" else self.TOKENS_AT_ONCE
        fitting = max(1, min(tokens_at_once, self.LOGITS_AT_ONCE // vocab_size) // block_size)
        self.batch = fitting if batch == "auto" else batch

    @property
    def windows(self) -> int:
        """How many this process evaluates, of all splits."""
        return sum(len(starts[self.share]) for starts in self.starts.values())

    @property
    def batches(self) -> int:
        """How many batches that makes."""
        return sum(math.ceil(len(starts[self.share]) / self.batch) for starts in self.starts.values())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, abandoned: Abandoned = never) -> dict[str, Estimate] | None:
        """Estimate the loss of each split; None if `abandoned`."""
        losses = {name: list[Tensor]() for name in self.splits}
        batches = ((name, batch) for name in self.splits for batch in self.window_losses(model, name))
        done, stopped = 0, False
        was_training = model.training
        model.eval()  # without dropout
        while not (stopped := abandoned(done, self.batches)) and (found := next(batches, None)):
            losses[found[0]].append(found[1])
            done += 1
        model.train(was_training)
        if self.processes.any(stopped)[0]:
            return None
        return {name: _estimate(self._of_all_processes(name, own)) for name, own in losses.items()}

    def _of_all_processes(self, name: str, own: list[Tensor]) -> list[float]:
        """The mean loss of each window, from those that each process has evaluated."""
        losses = torch.zeros(len(self.starts[name]), dtype=torch.float64)
        if own:
            losses[self.share] = torch.cat(own).cpu()  # MPS has no float64
        return self.processes.sum(losses.tolist())

    def window_losses(self, model: nn.Module, name: str) -> Iterator[Tensor]:
        """The mean loss of each window of this process's share, in batches: smaller ones if memory runs out."""
        own = self.starts[name][self.share]
        while len(own):
            losses = until_it_fits(partial(self._next_losses, model, name, own), self._halve)
            own = own[len(losses) :]
            yield losses

    def _halve(self) -> None:
        if self.batch == 1:
            raise JobError(SEQUENCE_TOO_LARGE)
        self.batch //= 2
        release(self.device)

    def _next_losses(self, model: nn.Module, name: str, starts: np.ndarray) -> Tensor:
        """The losses of the first of these windows, as many as are evaluated at once."""
        tokens, targets = windows_at(self.splits[name], starts[: self.batch], self.block_size)
        with autocast(self.machine.choice):
            logits = model(tokens.to(self.device))  # (B, T, V)
            each = F.cross_entropy(logits.flatten(0, 1), targets.to(self.device).flatten(), reduction="none")
        return each.float().view(targets.shape).mean(1)  # (B, T) → (B)


def _estimate(losses: list[float]) -> Estimate:
    count = len(losses)
    mean = math.fsum(losses) / count
    if count == 1 or not math.isfinite(mean):
        return Estimate(mean, None, losses)
    variance = math.fsum((loss - mean) ** 2 for loss in losses) / (count - 1)
    return Estimate(mean, math.sqrt(variance / count), losses)


class Data:
    """A dataset, read from where a run is; `vocab_size` is that of the model."""

    def __init__(
        self, config: TrainConfig, dataset: Dataset, machine: Machine, vocab_size: int, state: TrainingState
    ) -> None:
        self.config, self.dataset, self.machine = config, dataset, machine
        self.evaluator = Evaluator(
            dict(dataset.splits.items()),
            block_size=config.block_size,
            windows=config.eval_windows,
            vocab_size=vocab_size,
            machine=machine,
            batch=config.eval_batch_size,
        )
        self.evaluation = f"{len(self.evaluator.starts['val'])} windows of data {dataset.fingerprint[:12]}"
        """What validation losses are measured on."""
        self.loader = self._loader_from(state)

    def seek(self, state: TrainingState) -> None:
        """Continue where a run of this state is."""
        self.close()
        self.loader = self._loader_from(state)

    def close(self) -> None:
        self.loader.close()

    def _loader_from(self, state: TrainingState) -> BatchLoader:
        return BatchLoader(
            self.dataset.splits["train"],
            self.config,
            first_step=state.step,
            first_sequence=state.sequences,
            rank=self.machine.processes.rank,
            world=self.machine.processes.world,
            pin_memory=self.machine.choice.type == "cuda",
        )
