import contextlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nanoscope.checkpoint_files import checkpoint_folders, read_pointer, state_checksum
from nanoscope.config import TrainConfig
from nanoscope.data.tokenizer import ByteTokenizer
from nanoscope.errors import JobError, UsageError
from nanoscope.model import GPT, ModelConfig
from nanoscope.model.checkpoint import TrainingState, find_checkpoint, load_checkpoint
from nanoscope.model.weights import load_model_weights
from nanoscope.optim.groups import build_optimizer
from nanoscope.training import checkpoint
from nanoscope.training.checkpoint import CheckpointWriter, load_optimizer
from nanoscope.training.run_folder import RunFolder

SHAPE = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16)


def trained_model(steps: int = 3) -> tuple[GPT, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = GPT(SHAPE)
    optimizer = build_optimizer(model, TrainConfig(learning_rate=1e-2), "cpu")
    train(model, optimizer, steps)
    return model, optimizer


def train(model: GPT, optimizer: torch.optim.Optimizer, steps: int) -> None:
    tokens = torch.arange(16).view(2, 8) % 11
    for _ in range(steps):
        model(tokens, tokens.roll(1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def snapshot(step: int, model: GPT, optimizer: torch.optim.Optimizer, *, best: bool = False) -> tuple[Any, ...]:
    progress = TrainingState(step=step, sequences=step * 4, best_val_loss=1.5, best_step=step if best else None)
    facts = {"scaler": {}, "run": {"seed": 1}, "settings": {}}
    return model, optimizer, progress, facts, ByteTokenizer()


def save(folder: Path, *steps: int, keep: int = 0, best: int | None = None) -> None:
    model, optimizer = trained_model()
    writer = CheckpointWriter(RunFolder(folder), keep)
    for step in steps:
        writer.save(*snapshot(step, model, optimizer, best=step == best))


@pytest.mark.slow
def test_what_is_saved_comes_back_bit_for_bit_and_training_continues_the_same(tmp_path: Path) -> None:
    save(tmp_path, 3)
    found = load_checkpoint(tmp_path / "checkpoints/step-000003")
    model, optimizer = trained_model()
    again = GPT(found.model_config)
    load_model_weights(again, found.model)
    optimizer_again = build_optimizer(again, TrainConfig(learning_rate=1e-2), "cpu")
    load_optimizer(optimizer_again, again, found.optimizer)
    train(model, optimizer, 2)
    train(again, optimizer_again, 2)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    assert found.progress.sequences == 12
    assert found.tokenizer == {"kind": "byte"}


def test_every_dtype_and_layout_of_tensor_is_saved(tmp_path: Path) -> None:
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
    tensors = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in [*dtypes, torch.bool]}
    tensors |= {"number": torch.tensor(3.5), "nothing": torch.empty(0, 4), "nan": torch.full((2,), torch.nan)}
    whole = torch.rand(4, 5)
    tensors |= {"turned": whole.t(), "one half": whole[:2], "other half": whole[2:], "ñ": torch.ones(1)}
    model, optimizer = trained_model()
    optimizer.state = {model.lm_head.weight: tensors}  # type: ignore[assignment]
    CheckpointWriter(RunFolder(tmp_path), 0).save(*snapshot(1, model, optimizer))
    found = load_checkpoint(tmp_path / "checkpoints/step-000001").optimizer
    assert len(found) == len(tensors)
    for name, tensor in tensors.items():
        saved = found[f"transformer.wte.weight.{name}"]
        assert saved.dtype == tensor.dtype
        assert torch.equal(saved, tensor) or name == "nan"


def test_what_a_killed_run_left_half_written_is_removed_by_the_next_save(tmp_path: Path) -> None:
    left = tmp_path / "checkpoints/.step-000005.123.tmp"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    save(tmp_path, 10)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["last", "step-000010"]


def test_no_pickle_is_written(tmp_path: Path) -> None:
    save(tmp_path, 3)
    files = {path.name for path in (tmp_path / "checkpoints/step-000003").iterdir()}
    assert files == {"model.safetensors", "optimizer.safetensors", "state.json", "tokenizer.json"}


def test_the_newest_and_the_best_are_kept_and_others_pruned(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30, 40, 50, keep=2, best=20)
    names = [path.name for path in checkpoint_folders(tmp_path / "checkpoints")]
    assert names == ["step-000050", "step-000040", "step-000020"]
    assert read_pointer(tmp_path / "checkpoints", "best") == "step-000020"
    assert read_pointer(tmp_path / "checkpoints", "last") == "step-000050"


def test_a_run_that_went_back_prunes_earlier_steps_and_leaves_later_ones_alone(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30, 40)
    save(tmp_path, 25, keep=2)
    names = [path.name for path in checkpoint_folders(tmp_path / "checkpoints")]
    assert names == ["step-000040", "step-000030", "step-000025", "step-000020"]
    assert find_checkpoint(tmp_path)[0].progress.step == 25


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["a newer step", "the same step again"])
def test_wherever_a_save_is_cut_off_a_whole_checkpoint_is_found_and_the_next_save_clears_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    model, optimizer = trained_model()
    step = 10 if again else 20
    for number in itertools.count(1):
        run = tmp_path / str(number)
        save(run, 10, keep=1)
        writer = CheckpointWriter(RunFolder(run), 1)
        with monkeypatch.context() as patch:
            changes = die_before_change(patch, number)
            with contextlib.suppress(KilledError):
                writer.save(*snapshot(step, model, optimizer))
        found, problems = find_checkpoint(run)
        assert found.progress.step in (10, step)
        assert problems == []
        save(run, 30, keep=1)
        assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["last", "step-000030"]
        if next(changes) <= number:  # the save was complete
            break
    assert number > 15


class KilledError(BaseException):
    """Passes every `except Exception`."""


def die_before_change(patch: pytest.MonkeyPatch, number: int) -> "itertools.count[int]":
    """From the number-th change on disk on, nothing is changed any more: this is what kill -9 leaves."""
    changes = itertools.count(1)
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):

        def change(*args: object, real: object = getattr(os, name), **kwargs: object) -> object:
            if next(changes) >= number:
                raise KilledError
            return real(*args, **kwargs)  # type: ignore[operator]

        patch.setattr(os, name, change)
    return changes


def test_a_checkpoint_that_was_about_to_be_replaced_is_found_and_put_back(tmp_path: Path) -> None:
    save(tmp_path, 10)
    (tmp_path / "checkpoints/step-000010").rename(tmp_path / "checkpoints/.step-000010.old")
    found, problems = find_checkpoint(tmp_path)
    assert (found.progress.step, problems) == (10, [])
    save(tmp_path, 20)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["last", "step-000010", "step-000020"]


def test_a_step_that_is_saved_again_replaces_the_old_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 10)
    save(tmp_path, 10)
    assert load_checkpoint(tmp_path / "checkpoints/step-000010").progress.step == 10
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["last", "step-000010"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "tokenizer.json", "state.json"])
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_used(tmp_path: Path, name: str) -> None:
    save(tmp_path, 10, 20)
    file = tmp_path / "checkpoints/step-000020" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    file.write_bytes(bytes(content))
    found, problems = find_checkpoint(tmp_path)
    assert found.progress.step == 10
    assert len(problems) == 1
    assert "step-000020" in str(problems[0])


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_missing_file_makes_a_checkpoint_unusable(tmp_path: Path, name: str) -> None:
    save(tmp_path, 10)
    (tmp_path / "checkpoints/step-000010" / name).unlink()
    with pytest.raises(JobError, match="no checkpoint can be used"):
        find_checkpoint(tmp_path)


def test_a_half_written_checkpoint_is_not_seen(tmp_path: Path) -> None:
    save(tmp_path, 10)
    shutil.copytree(tmp_path / "checkpoints/step-000010", tmp_path / "checkpoints/.step-000020.123.tmp")
    assert find_checkpoint(tmp_path)[0].progress.step == 10


def test_a_pointer_that_points_nowhere_falls_back_to_the_newest(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    (tmp_path / "checkpoints/last").write_text("../../etc\n", encoding="utf-8")
    assert find_checkpoint(tmp_path)[0].progress.step == 20


def test_checksums_cannot_lead_out_of_the_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 10)
    state = tmp_path / "checkpoints/step-000010/state.json"
    data = json.loads(state.read_text("utf-8"))
    data["sha256"]["../../secret"] = "0" * 64
    data["checksum"] = state_checksum(data)
    state.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(JobError, match="secret"):
        load_checkpoint(state.parent)


def test_a_checkpoint_that_does_not_exist_is_refused_with_a_list_of_those_that_do(tmp_path: Path) -> None:
    save(tmp_path, 10)
    with pytest.raises(UsageError, match="no checkpoint 'step-000099'; it has step-000010"):
        find_checkpoint(tmp_path, "step-000099")


def test_a_failed_save_gives_the_reason_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be", encoding="utf-8")
    model, optimizer = trained_model()
    writer = CheckpointWriter(RunFolder(tmp_path), 0)
    assert "checkpoints" in str(writer.save(*snapshot(10, model, optimizer)))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    (tmp_path / "checkpoints").unlink()
    writer.save(*snapshot(10, model, optimizer))
    assert find_checkpoint(tmp_path)[0].progress.step == 10


@pytest.mark.skipif(os.name == "nt", reason="open files can't be deleted there")
def test_a_folder_that_vanishes_during_a_save_can_be_saved_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_everything(path: Path) -> None:
        shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)  # both files are written at once

    model, optimizer = trained_model()
    writer = CheckpointWriter(RunFolder(tmp_path), 0)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "sync_to_disk", delete_everything)
        assert "No such file" in str(writer.save(*snapshot(3, model, optimizer)))
    writer.save(*snapshot(3, model, optimizer))
    assert find_checkpoint(tmp_path)[0].progress.step == 3


def test_tensors_that_cannot_be_saved_are_a_save_error(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    optimizer.state = {model.lm_head.weight: {"sparse": torch.eye(3).to_sparse()}}  # type: ignore[assignment]
    assert CheckpointWriter(RunFolder(tmp_path), 0).save(*snapshot(10, model, optimizer))
    assert list((tmp_path / "checkpoints").iterdir()) == []
