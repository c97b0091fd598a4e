from pathlib import Path

import numpy as np
import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.dataset import TokenSplit, mapped
from nanoscope.data.loader import BatchLoader, window_starts
from nanoscope.errors import JobError


def make_split(path: Path, tokens: np.ndarray, vocab_size: int = 1000) -> TokenSplit:
    tokens.astype("<u2").tofile(path / "train-00000.bin")
    return mapped([path / "train-00000.bin"], vocab_size)


def settings(**changes: object) -> TrainConfig:
    small = {"block_size": 8, "batch_size": 2, "gradient_accumulation_steps": 3, "seed": 1}
    return TrainConfig(**{**small, **changes})  # type: ignore[arg-type]


def batches(
    split: TokenSplit, steps: int, first_step: int = 0, *, rank: int = 0, world: int = 1, **changes: object
) -> list[torch.Tensor]:
    """The tokens of each iteration, all micro-batches together."""
    loader = BatchLoader(
        split, settings(**changes), first_step=first_step, first_sequence=6 * first_step, rank=rank, world=world
    )
    try:
        return [torch.cat([tokens for tokens, _ in loader.next()]) for _ in range(steps)]
    finally:
        loader.close()


@pytest.fixture
def split(tmp_path: Path) -> TokenSplit:
    return make_split(tmp_path, np.arange(500))


def test_targets_are_the_tokens_that_follow(split: TokenSplit) -> None:
    loader = BatchLoader(split, settings(gradient_accumulation_steps=1))
    ((tokens, targets),) = loader.next()
    loader.close()
    assert torch.equal(targets, tokens + 1)
    assert tokens.shape == (2, 8)
    assert tokens.dtype == torch.int64


@pytest.mark.parametrize("order", ["random", "epochs"])
def test_the_batches_depend_only_on_seed_and_position(split: TokenSplit, order: str) -> None:
    all_steps = batches(split, 30, order=order)
    later = batches(split, 10, first_step=20, order=order)
    assert all(torch.equal(one, other) for one, other in zip(all_steps[20:], later, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(all_steps, batches(split, 30, order=order, seed=2), strict=True))


@pytest.mark.parametrize("order", ["random", "epochs"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_processes_share_the_windows_of_one(split: TokenSplit, order: str, world: int) -> None:
    alone = batches(split, 5, order=order)
    shares = [batches(split, 5, order=order, rank=rank, world=world) for rank in range(world)]
    for step in range(5):
        together = torch.cat([share[step] for share in shares])
        assert sorted(together[:, 0].tolist()) == sorted(alone[step][:, 0].tolist())


def test_an_epoch_reads_every_window_once_in_another_order_each_time(split: TokenSplit) -> None:
    windows = (500 - 1) // 8
    config = settings(seed=3, order="epochs", batch_size=windows, gradient_accumulation_steps=1)
    first = window_starts(500, config, 0, 0)
    second = window_starts(500, config, 1, windows)
    assert sorted(first) == sorted(second) == [8 * number for number in range(windows)]
    assert first.tolist() != second.tolist()


def test_random_crops_reach_both_ends() -> None:
    starts = window_starts(20, settings(seed=3, batch_size=2000), 0, 0)
    assert (starts.min(), starts.max()) == (0, 11)  # the last window's last target is token 19


def test_ids_beyond_the_vocabulary_are_reported_before_they_reach_the_embedding(tmp_path: Path) -> None:
    split = make_split(tmp_path, np.full(100, 70), vocab_size=65)
    with pytest.raises(JobError, match=r"id 70\b.*64"):
        batches(split, 1)


def test_closing_ends_the_thread_even_with_unread_batches(split: TokenSplit) -> None:
    loader = BatchLoader(split, settings(gradient_accumulation_steps=1))
    loader.close()
    assert not any(thread.is_alive() for thread in loader._thread._threads)
