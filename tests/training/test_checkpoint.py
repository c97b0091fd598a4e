import itertools
import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from nanoscope.config import TrainConfig
from nanoscope.data.tokenizer import ByteTokenizer
from nanoscope.errors import JobError, UsageError
from nanoscope.model import GPT, ModelConfig
from nanoscope.optim.groups import build_optimizer
from nanoscope.training import checkpoint
from nanoscope.training.checkpoint import CheckpointWriter, Progress, Snapshot, state_checksum, take_snapshot
from nanoscope.training.restore import find_checkpoint, load_checkpoint, load_model_weights, load_optimizer
from nanoscope.training.run_folder import checkpoint_folders, read_pointer
from nanoscope.training.tensor_file import TYPE_NAMES, TensorFile

SHAPE = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16)


def trained_model(steps: int = 3) -> tuple[GPT, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = GPT(SHAPE)
    optimizer = build_optimizer(model, TrainConfig(learning_rate=1e-2), "cpu")
    train(model, optimizer, steps)
    return model, optimizer


def train(model: GPT, optimizer: torch.optim.Optimizer, steps: int, writer: CheckpointWriter | None = None) -> None:
    tokens = torch.arange(16).view(2, 8) % 11
    for _ in range(steps):
        model(tokens, tokens.roll(1)).backward()
        if writer is not None:
            writer.copied()
        optimizer.step()
        optimizer.zero_grad()


def snapshot(step: int, model: GPT, optimizer: torch.optim.Optimizer) -> Snapshot:
    progress = Progress(step=step, sequences=step * 4, best_val_loss=1.5, best_step=step)
    return take_snapshot(model, optimizer, progress, scaler={}, tokenizer=ByteTokenizer(), run={"seed": 1})


def save(folder: Path, *steps: int, keep: int = 0, best: int | None = None) -> None:
    model, optimizer = trained_model()
    writer = CheckpointWriter(folder / "checkpoints", keep)
    for step in steps:
        writer.save(snapshot(step, model, optimizer), best=step == best)
    writer.wait()
    assert writer.news() == []


def test_what_is_saved_comes_back_bit_for_bit_and_training_goes_on_the_same(tmp_path: Path) -> None:
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


def test_training_that_goes_on_at_once_does_not_change_what_is_being_saved(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    writer = CheckpointWriter(tmp_path / "checkpoints", 0)
    for step in (3, 5, 7):
        taken = snapshot(step, model, optimizer)
        weights, moments = ({n: t.clone() for n, t in tensors.items()} for tensors in (taken.model, taken.optimizer))
        target = writer.save(taken, best=False)
        train(model, optimizer, 2, writer)
        writer.wait()
        found = load_checkpoint(target)
        assert len(found.optimizer) == 3 * len(found.model)
        assert all(torch.equal(weights[name], saved) for name, saved in found.model.items())
        assert all(torch.equal(moments[name], saved) for name, saved in found.optimizer.items())


def test_saving_returns_before_the_checkpoint_is_there_and_waiting_ends_the_rests(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    writer = CheckpointWriter(tmp_path / "checkpoints", 0)
    writer.REST = 10**9  # type: ignore[misc]  # left to itself it would never end
    writer._last_save -= 10**9
    target = writer.save(snapshot(3, model, optimizer), best=True)
    writer.copied()
    train(model, optimizer, 2)
    assert not target.exists()
    writer.wait()
    assert load_checkpoint(target).progress.step == 3


def test_memory_of_the_first_save_serves_the_next_ones_until_the_tensors_are_others(tmp_path: Path) -> None:
    file = TensorFile()
    weights = {"a": torch.ones(3)}
    file.copy(weights)
    weights["a"] += 1
    file.copy(weights)
    assert load(b"".join(file.chunks(5)))["a"].tolist() == [2, 2, 2]
    file.copy({"a": torch.full((3,), 7.0)})
    assert load(b"".join(file.chunks(5)))["a"].tolist() == [7, 7, 7]


def test_every_type_and_shape_of_tensor_is_read_back_by_safetensors() -> None:
    tensors = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in TYPE_NAMES}
    tensors |= {
        "number": torch.tensor(3.5),
        "nothing": torch.empty(0, 4),
        "turned": torch.rand(3, 5).t(),
        "ñ": tensors["torch.int8"],
    }
    tensors["turned bfloat16"] = torch.rand(3, 5).bfloat16().t()
    file = TensorFile()
    file.copy(tensors)
    content = b"".join(file.chunks(7))
    assert len(content) == file.nbytes
    found = load(content)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


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


def test_a_run_that_went_back_prunes_what_lies_behind_it_and_leaves_later_steps_alone(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30, 40)
    save(tmp_path, 25, keep=2)
    names = [path.name for path in checkpoint_folders(tmp_path / "checkpoints")]
    assert names == ["step-000040", "step-000030", "step-000025", "step-000020"]
    assert find_checkpoint(tmp_path)[0].progress.step == 25


def test_a_checkpoint_that_reads_back_differently_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 10)
    really_sync = checkpoint._sync

    def bad_disk(path: Path) -> None:
        really_sync(path)
        if path.name.endswith(".tmp") and path.is_dir():
            content = bytearray((path / "optimizer.safetensors").read_bytes())
            content[-1] ^= 1
            (path / "optimizer.safetensors").write_bytes(bytes(content))

    monkeypatch.setattr(checkpoint, "_sync", bad_disk)
    model, optimizer = trained_model()
    writer = CheckpointWriter(tmp_path / "checkpoints", 1)
    writer.save(snapshot(20, model, optimizer), best=True)
    writer.wait()
    (failure,) = [news.message for news in writer.news()]
    assert "step-000020 could not be saved: what was written is not what is read back" in failure
    assert "optimizer.safetensors" in failure
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["last", "step-000010"]
    assert read_pointer(tmp_path / "checkpoints", "last") == "step-000010"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("again", [False, True], ids=["a newer step", "the same step again"])
def test_wherever_a_save_is_cut_off_a_whole_checkpoint_is_found_and_the_next_save_clears_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    model, optimizer = trained_model()
    step = 10 if again else 20
    for number in itertools.count(1):
        run = tmp_path / str(number)
        save(run, 10, keep=1)
        writer = CheckpointWriter(run / "checkpoints", 1)
        with monkeypatch.context() as patch:
            changes = end_the_writer_before_change(patch, number)
            writer.save(snapshot(step, model, optimizer), best=False)
            writer.wait()
        found, problems = find_checkpoint(run)
        assert found.progress.step in (10, step)
        assert problems == []
        save(run, 30, keep=1)
        assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["last", "step-000030"]
        if next(changes) <= number:  # it came to its end
            break
    assert number > 15


def end_the_writer_before_change(patch: pytest.MonkeyPatch, number: int) -> "itertools.count[int]":
    """From its number-th change on disk on, the writer does nothing more: what is there is what kill -9 leaves."""
    changes = itertools.count(1)
    for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):

        def change(*args: object, real: object = getattr(os, name), **kwargs: object) -> object:
            if threading.current_thread().name == "checkpoint" and next(changes) >= number:
                raise SystemExit  # passes every `except Exception`
            return real(*args, **kwargs)  # type: ignore[operator]

        patch.setattr(os, name, change)
    return changes


def test_what_was_about_to_be_replaced_is_found_where_it_was_put_aside(tmp_path: Path) -> None:
    save(tmp_path, 10)
    (tmp_path / "checkpoints/step-000010").rename(tmp_path / "checkpoints/.step-000010.old")
    found, problems = find_checkpoint(tmp_path)
    assert (found.progress.step, problems) == (10, [])
    save(tmp_path, 20)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["last", "step-000010", "step-000020"]


def test_a_step_that_is_saved_again_replaces_the_old_one_whole(tmp_path: Path) -> None:
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
    assert "step-000020" in problems[0]


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


def test_a_name_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    save(tmp_path, 10)
    with pytest.raises(UsageError, match="no checkpoint 'step-000099'; it has step-000010"):
        find_checkpoint(tmp_path, "step-000099")


def failing_save(folder: Path, retry_seconds: float = 10**6) -> tuple[CheckpointWriter, Snapshot]:
    """A save of step 10 that has failed once, since the folder for checkpoints is a file."""
    (folder / "checkpoints").write_text("a file where the folder should be", encoding="utf-8")
    model, optimizer = trained_model()
    writer = CheckpointWriter(folder / "checkpoints", 0)
    writer.RETRY_SECONDS = retry_seconds  # type: ignore[misc]
    writer.save(snapshot(10, model, optimizer), best=False)
    writer.copied()
    return writer, snapshot(20, model, optimizer)


def wait_for_news(writer: CheckpointWriter) -> list[tuple[int, bool, str]]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if news := writer.news():
            return [(item.step, item.saved, item.message) for item in news]
        time.sleep(0.005)
    raise AssertionError("nothing new in a minute")


def test_a_save_that_fails_is_told_once_and_tried_again_until_it_works(tmp_path: Path) -> None:
    writer, _ = failing_save(tmp_path, retry_seconds=0.05)
    ((step, saved, message),) = wait_for_news(writer)
    assert (step, saved) == (10, False)
    assert "step-000010 could not be saved: Not a directory" in message or os.name == "nt"
    assert str(tmp_path / "checkpoints") in message
    assert "trying again every 0.05 s" in message
    time.sleep(0.3)  # in which it fails some more times
    assert writer.news() == []
    (tmp_path / "checkpoints").unlink()
    assert wait_for_news(writer) == [(10, True, "step-000010 is saved now")]
    writer.wait()
    assert find_checkpoint(tmp_path)[0].progress.step == 10


def test_waiting_tries_once_more_at_once(tmp_path: Path) -> None:
    writer, _ = failing_save(tmp_path)
    wait_for_news(writer)
    assert not writer.busy
    (tmp_path / "checkpoints").unlink()
    writer.wait()
    assert [news.saved for news in writer.news()] == [True]
    assert find_checkpoint(tmp_path)[0].progress.step == 10


def test_waiting_for_what_cannot_be_saved_comes_to_an_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    writer, _ = failing_save(tmp_path)
    writer.wait()
    assert [news.saved for news in writer.news()] == [False]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_a_newer_checkpoint_takes_the_place_of_one_that_could_not_be_saved(tmp_path: Path) -> None:
    writer, newer = failing_save(tmp_path)
    wait_for_news(writer)
    (tmp_path / "checkpoints").unlink()
    writer.save(newer, best=False)
    writer.wait()
    assert writer.news() == []
    assert [path.name for path in checkpoint_folders(tmp_path / "checkpoints")] == ["step-000020"]


def test_a_folder_that_vanishes_during_a_save_is_made_anew(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    writer = CheckpointWriter(tmp_path / "checkpoints", 0)
    writer.REST = 10**9  # type: ignore[misc]
    writer._last_save -= 10**9
    writer.save(snapshot(3, model, optimizer), best=False)
    while not list(tmp_path.glob("checkpoints/.step-000003.*/model.safetensors")):
        time.sleep(0.005)
    shutil.rmtree(tmp_path / "checkpoints")
    writer.wait()
    assert [news.saved for news in writer.news()] == [False, True]
    assert find_checkpoint(tmp_path)[0].progress.step == 3


def test_a_copy_that_fails_is_told_and_holds_nobody_up(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    taken = snapshot(10, model, optimizer)
    taken.model["strange"] = torch.zeros(2, dtype=torch.complex64)
    writer = CheckpointWriter(tmp_path / "checkpoints", 0)
    writer.save(taken, best=False)
    writer.copied()
    writer.wait()
    assert "step-000010 could not be saved" in writer.news()[0].message
    writer.save(snapshot(20, model, optimizer), best=False)  # and the next one is tried again
    writer.wait()
    assert writer.news() == []
    assert find_checkpoint(tmp_path)[0].progress.step == 20
