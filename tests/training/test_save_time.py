"""What a save is expected to take, by its size and by the latest saves to the same disk."""

from pathlib import Path

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.model import ModelConfig, build_model
from nanoscope.model.checkpoint import TrainingState
from nanoscope.optim.groups import build_optimizer
from nanoscope.training.checkpoint import take_snapshot
from nanoscope.training.save_time import checkpoint_bytes, remember_save, save_seconds


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("recipe", ["modern", "classic"])
def test_the_size_is_known_before_the_first_step(recipe: str) -> None:
    shape = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16, recipe=recipe)  # type: ignore[arg-type]
    model = build_model(shape)
    optimizer = build_optimizer(model, TrainConfig(recipe=recipe), "cpu")  # type: ignore[arg-type]
    expected = checkpoint_bytes(optimizer)
    tokens = torch.zeros(1, 8, dtype=torch.long)
    model(tokens, tokens).backward()
    optimizer.step()
    snapshot = take_snapshot(model, optimizer, TrainingState(), scaler={}, tokenizer=None, run={}, settings={})
    tensors = [*snapshot.model.values(), *snapshot.optimizer.values()]
    assert sum(tensor.nbytes for tensor in tensors) == pytest.approx(expected, rel=0.02)  # and a count per parameter


def test_a_larger_checkpoint_takes_longer_on_a_disk_that_was_never_seen(tmp_path: Path) -> None:
    assert 0 < save_seconds(10**6, tmp_path) < save_seconds(10**9, tmp_path)


def test_a_slow_disk_is_remembered_for_checkpoints_of_any_size(tmp_path: Path) -> None:
    small, large = save_seconds(10**6, tmp_path), save_seconds(10**9, tmp_path)
    remember_save(10**6, 4 * small, tmp_path)
    assert save_seconds(10**9, tmp_path) == pytest.approx(4 * large)
    remember_save(10**6, small, tmp_path)  # as fast as usual: halfway back
    assert save_seconds(10**9, tmp_path) == pytest.approx(2 * large)


@pytest.mark.parametrize("content", ["", "[]", '{"": "slow"}', '{"": -1}', "null"])
def test_a_damaged_memory_is_ignored(tmp_path: Path, content: str) -> None:
    usual = save_seconds(10**6, tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/saves-seen.json").write_text(content, "utf-8")
    assert save_seconds(10**6, tmp_path) == usual
    remember_save(10**6, 3 * usual, tmp_path)
    assert save_seconds(10**6, tmp_path) == pytest.approx(3 * usual)
