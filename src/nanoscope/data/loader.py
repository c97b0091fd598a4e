"""Batches: which windows of the data an iteration reads, fetched ahead in a thread.

What an iteration reads depends on the seed and its position alone, not on what was read before and not on how many
processes share the work: resuming needs no random state, and two processes see what one would have seen.
"""

import queue
import threading
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from nanoscope.data.dataset import TokenSplit
from nanoscope.errors import JobError

Batch = tuple[Tensor, Tensor]  # tokens and targets, (B, T) each, int64


def windows_at(split: TokenSplit, starts: np.ndarray, block_size: int) -> Batch:
    """The windows of block_size tokens at these places, and the tokens that follow each of them."""
    rows = np.stack([split.read(int(start), block_size + 1) for start in starts]).astype(np.int64)  # (B, T + 1)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


def check_length(split: TokenSplit, name: str, block_size: int) -> None:
    """A split must hold at least one window and its last target."""
    if len(split) <= block_size:
        raise JobError(
            f"block_size={block_size} is longer than the {name} split, which has {len(split):,} tokens\n"
            f"Use --block_size={max(len(split) - 1, 1)} or less, or prepare more text."
        )


class WindowOrder:
    """Where the windows of each iteration start: anywhere at random, or each window once an epoch, shuffled."""

    def __init__(self, tokens: int, block_size: int, seed: int, order: str) -> None:
        self.tokens, self.block_size, self.seed, self.order = tokens, block_size, seed, order
        self.windows = (tokens - 1) // block_size
        self._epoch = -1
        self._shuffled = np.empty(0, np.int64)

    def starts(self, step: int, first_sequence: int, count: int) -> np.ndarray:
        """The starts of `count` windows for an iteration that `first_sequence` sequences came before."""
        if self.order == "random":
            return _random(self.seed, step).integers(0, self.tokens - self.block_size, size=count)
        numbers = range(first_sequence, first_sequence + count)
        return np.array([self._in_epoch(*divmod(number, self.windows)) for number in numbers])

    def _in_epoch(self, epoch: int, position: int) -> int:
        if epoch != self._epoch:
            self._epoch, self._shuffled = epoch, _random(self.seed, epoch).permutation(self.windows)
        return int(self._shuffled[position]) * self.block_size


def _random(seed: int, counter: int) -> np.random.Generator:
    """A generator for one (seed, counter), at the same cost however far the counter has come."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, counter], np.uint64)))


class BatchLoader:
    """The micro-batches of each iteration, made ahead of time in a thread."""

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
        self.sequences_per_step, self.micro_batch, self.rank, self.world = (
            sequences_per_step,
            micro_batch,
            rank,
            world,
        )
        self.pin_memory = pin_memory
        self.sequences_read = first_sequence
        self._order = WindowOrder(len(split), block_size, seed, order)
        self._ready: queue.Queue[list[Batch] | BaseException] = queue.Queue(self.AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(first_step, first_sequence), daemon=True)
        self._thread.start()

    def next(self) -> list[Batch]:
        """The micro-batches of the next iteration that fall to this process."""
        item = self._ready.get()
        if isinstance(item, BaseException):
            raise item
        self.sequences_read += self.sequences_per_step
        return item

    def close(self) -> None:
        self._closed.set()
        while not self._ready.empty():
            self._ready.get_nowait()
        self._thread.join(timeout=5)

    def _work(self, step: int, sequence: int) -> None:
        while not self._closed.is_set():
            item: list[Batch] | BaseException
            try:
                item = list(self._micro_batches(self._order.starts(step, sequence, self.sequences_per_step)))
            except BaseException as error:  # it belongs to whoever waits for the batch
                item = error
            while not self._closed.is_set():
                try:
                    self._ready.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            step, sequence = step + 1, sequence + self.sequences_per_step

    def _micro_batches(self, starts: np.ndarray) -> Iterator[Batch]:
        own = starts[self.rank :: self.world]
        for first in range(0, len(own), self.micro_batch):
            batch = windows_at(self.split, own[first : first + self.micro_batch], self.block_size)
            yield (batch[0].pin_memory(), batch[1].pin_memory()) if self.pin_memory else batch
