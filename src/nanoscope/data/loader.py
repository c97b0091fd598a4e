"""Batches: which windows of the data an iteration reads, loaded ahead in a thread.

The windows depend only on the seed and the position in the run, not on what was read before or on the number of
processes: resuming needs no random state, and two processes together read what one would have read.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import numpy as np
import torch
from torch import Tensor

from nanoscope.data.dataset import TokenSplit
from nanoscope.errors import JobError

Batch = tuple[Tensor, Tensor]  # tokens and targets, (B, T) each, int64


def windows_at(split: TokenSplit, starts: np.ndarray, block_size: int) -> Batch:
    """Return the windows of block_size tokens at these positions, and the token that follows each token."""
    rows = np.stack([split.read(int(start), block_size + 1) for start in starts]).astype(np.int64)  # (B, T + 1)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


def check_length(split: TokenSplit, name: str, block_size: int) -> None:
    """Raise JobError unless the split has at least one window and its last target."""
    if len(split) <= block_size:
        raise JobError(
            "block_size={block_size} is longer than the {split} split, which has {n:,} tokens\n"
            "Use --block_size={most} or less, or prepare more text.",
            block_size=block_size,
            split=name,
            n=len(split),
            most=max(len(split) - 1, 1),
        )


class WindowOrder:
    """Where the windows of each iteration start: at random positions, or each window once per epoch, shuffled."""

    def __init__(self, tokens: int, block_size: int, seed: int, order: str) -> None:
        self.tokens, self.block_size, self.seed, self.order = tokens, block_size, seed, order
        self.windows = (tokens - 1) // block_size
        self._epoch = -1
        self._shuffled = np.empty(0, np.int64)

    def starts(self, step: int, first_sequence: int, count: int) -> np.ndarray:
        """Return the starts of the `count` windows of iteration `step`, after `first_sequence` earlier sequences."""
        if self.order == "random":
            return _random(self.seed, step).integers(0, self.tokens - self.block_size, size=count)
        numbers = range(first_sequence, first_sequence + count)
        return np.array([self._in_epoch(*divmod(number, self.windows)) for number in numbers])

    def _in_epoch(self, epoch: int, position: int) -> int:
        if epoch != self._epoch:
            self._epoch, self._shuffled = epoch, _random(self.seed, epoch).permutation(self.windows)
        return int(self._shuffled[position]) * self.block_size


def _random(seed: int, counter: int) -> np.random.Generator:
    """Return the generator of a (seed, counter) pair, at the same cost for every counter."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, counter], np.uint64)))


class BatchLoader:
    """The micro-batches of each iteration, loaded ahead in a thread."""

    AHEAD = 3  # iterations: enough to hide a slow read, few enough to stay small

    def __init__(
        self,
        split: TokenSplit,
        *,
        block_size: int,
        sequences_per_step: int,
        micro_batch: int,
        seed: int,
        order: str,
        first_step: int,
        first_sequence: int,
        rank: int = 0,
        world: int = 1,
        pin_memory: bool = False,
    ) -> None:
        self.split, self.block_size = split, block_size
        self.sequences_per_step, self.micro_batch = sequences_per_step, micro_batch
        self.rank, self.world, self.pin_memory = rank, world, pin_memory
        self.sequences_read = first_sequence
        self._order = WindowOrder(len(split), block_size, seed, order)
        self._iterations = zip(count(first_step), count(first_sequence, sequences_per_step), strict=True)
        self._thread = ThreadPoolExecutor(1)
        self._ahead = deque(self._begin() for _ in range(self.AHEAD))

    def next(self) -> list[Batch]:
        """Return this process's micro-batches of the next iteration."""
        batches = self._ahead.popleft().result()
        self._ahead.append(self._begin())
        self.sequences_read += self.sequences_per_step
        return batches

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _begin(self) -> Future[list[Batch]]:
        return self._thread.submit(self._load, *next(self._iterations))

    def _load(self, step: int, first_sequence: int) -> list[Batch]:
        own = self._order.starts(step, first_sequence, self.sequences_per_step)[self.rank :: self.world]
        batches = []
        for first in range(0, len(own), self.micro_batch):
            tokens, targets = windows_at(self.split, own[first : first + self.micro_batch], self.block_size)
            batches.append((tokens.pin_memory(), targets.pin_memory()) if self.pin_memory else (tokens, targets))
        return batches
