"""Batches: which windows of the data an iteration reads, loaded ahead in a thread.

The windows depend only on the seed and the position in the run, not on what was read before or on the number of
processes: resuming needs no random state, and two processes together read what one would have read.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import count

import numpy as np
import torch
from torch import Tensor

from nanoscope.config import TrainConfig
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


def window_starts(tokens: int, config: TrainConfig, step: int, first_sequence: int) -> np.ndarray:
    """Where the windows of iteration `step` start in so many tokens, after `first_sequence` earlier sequences.

    At random positions, or each window once per epoch, shuffled.
    """
    if config.order == "random":
        return _random(config.seed, step).integers(0, tokens - config.block_size, size=config.sequences_per_step)
    windows = (tokens - 1) // config.block_size
    places = (divmod(first_sequence + number, windows) for number in range(config.sequences_per_step))
    return np.array([_shuffled(config.seed, epoch, windows)[place] for epoch, place in places]) * config.block_size


@lru_cache(maxsize=1)
def _shuffled(seed: int, epoch: int, windows: int) -> np.ndarray:
    return _random(seed, epoch).permutation(windows)


def _random(seed: int, counter: int) -> np.random.Generator:
    """Return the generator of a (seed, counter) pair, at the same cost for every counter."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, counter], np.uint64)))


class BatchLoader:
    """The micro-batches of each iteration, loaded ahead in a thread."""

    AHEAD = 3  # iterations: enough to hide a slow read, few enough to stay small

    def __init__(
        self,
        split: TokenSplit,
        config: TrainConfig,
        *,
        first_step: int = 0,
        first_sequence: int = 0,
        rank: int = 0,
        world: int = 1,
        pin_memory: bool = False,
    ) -> None:
        self.split, self.config = split, config
        self.rank, self.world, self.pin_memory = rank, world, pin_memory
        self.sequences_read = first_sequence
        self._iterations = zip(count(first_step), count(first_sequence, config.sequences_per_step), strict=True)
        self._thread = ThreadPoolExecutor(1)
        self._ahead = deque(self._begin() for _ in range(self.AHEAD))

    def next(self) -> list[Batch]:
        """Return this process's micro-batches of the next iteration."""
        batches = self._ahead.popleft().result()
        self._ahead.append(self._begin())
        self.sequences_read += self.config.sequences_per_step
        return batches

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _begin(self) -> Future[list[Batch]]:
        return self._thread.submit(self._load, *next(self._iterations))

    def _load(self, step: int, first_sequence: int) -> list[Batch]:
        own = window_starts(len(self.split), self.config, step, first_sequence)[self.rank :: self.world]
        size, batches = self.config.batch_size, []
        for first in range(0, len(own), size):
            tokens, targets = windows_at(self.split, own[first : first + size], self.config.block_size)
            batches.append((tokens.pin_memory(), targets.pin_memory()) if self.pin_memory else (tokens, targets))
        return batches
