"""Any model is opened in the same way: a run, a checkpoint, nanoGPT's ckpt.pt."""

import pickle
import shutil
from pathlib import Path

import pytest
import torch

import nanogpt_files
from nanoscope.errors import JobError, UsageError
from nanoscope.interop.models import OpenedModel, open_model, open_models
from nanoscope.model.weights import read_tensors


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of a run of two iterations with one checkpoint."""
    return Path(shutil.copytree(small_run, tmp_path / "runs/song"))


@pytest.fixture
def checkpoint(run: Path) -> Path:
    return run / "checkpoints/step-000002"


def same(one: OpenedModel, two: OpenedModel) -> bool:
    equal = all(torch.equal(one.weights[name], two.weights[name]) for name in two.weights)
    return equal and one.config == two.config and one.weights.keys() == two.weights.keys()


def test_a_run_its_checkpoint_and_its_weights_are_the_same_model(run: Path, checkpoint: Path) -> None:
    found = open_model(run)
    assert (found.name, found.step, found.dataset, found.problems) == ("song", 2, "data/song", [])
    assert found.tokenizer is not None
    assert found.tokenizer.kind == "char"
    assert found.run == run
    for source in (checkpoint, checkpoint / "model.safetensors", str(run)):
        assert same(open_model(source), found)


def test_a_model_can_be_built_and_used(run: Path) -> None:
    found = open_model(run)
    logits = found.build()(torch.zeros(1, 3, dtype=torch.int64))
    assert logits.shape == (1, 3, found.config.vocab_size)


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"damaged")])
def test_the_optimizer_is_not_needed(damage, run: Path, checkpoint: Path) -> None:
    whole = open_model(run)
    damage(checkpoint / "optimizer.safetensors")
    assert same(open_model(run), whole)
    assert open_model(run).problems == []


def test_damaged_weights_are_refused(run: Path, checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(JobError, match="its checksum differs"):
        open_model(run)


def test_damaged_weights_are_replaced_by_an_older_checkpoint(run: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, checkpoint.with_name("step-000001"))
    (checkpoint / "model.safetensors").write_bytes(b"damaged")
    found = open_model(run)
    assert found.folder.name == "step-000001"
    assert "step-000002" in str(found.problems[0])


def test_weights_without_their_state_are_refused(run: Path, checkpoint: Path) -> None:
    (checkpoint / "state.json").unlink()
    for source in (checkpoint, checkpoint / "model.safetensors"):
        with pytest.raises(JobError, match=r"state\.json is missing"):
            open_model(source)


def test_a_run_without_checkpoints_says_when_one_is_saved(run: Path) -> None:
    shutil.rmtree(run / "checkpoints/step-000002")
    with pytest.raises(JobError, match="has no checkpoint"):
        open_model(run)


def test_what_is_no_model_gets_the_list_of_what_is(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source, hint in {"song": "runs/song", "gpt-2": "gpt2", "runs/sogn": "runs/song"}.items():
        with pytest.raises(UsageError, match=rf"is not a model\. Did you mean {hint}\?\nExpected a run, .*ckpt\.pt"):
            open_model(source)
    with pytest.raises(UsageError, match="is not a model"):
        open_model(tmp_path)


def test_a_folder_of_runs_stands_for_all_of_them(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "runs/another")
    (tmp_path / "runs/empty").mkdir()
    assert [model.name for model in open_models([str(tmp_path / "runs")])] == ["another", "song"]


def test_models_of_the_same_name_are_told_apart_by_their_paths(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "more/song")
    assert [model.name for model in open_models([str(run), str(other)])] == [str(run), str(other)]


# --- nanoGPT ---


def test_a_checkpoint_of_nanogpt_brings_its_progress_and_dataset(tmp_path: Path) -> None:
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    model = nanogpt_files.write_checkpoint(tmp_path / "out-hamlet")
    for source in (tmp_path / "out-hamlet", tmp_path / "out-hamlet/ckpt.pt"):
        found = open_model(source)
        assert (found.name, found.step, found.val_loss) == ("out-hamlet", 20, 2.5)
        assert found.dataset == str(tmp_path / "data/hamlet")  # beside its folder
        assert found.tokenizer is not None
        assert found.tokenizer.decode(found.tokenizer.encode("to be")) == "to be"
        assert torch.equal(found.build().lm_head.weight, model.lm_head.weight)


def test_the_tokenizer_of_nanogpt_is_looked_for_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nanogpt_files.write_checkpoint(tmp_path / "far/away/out")
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    monkeypatch.chdir(tmp_path)
    found = open_model("far/away/out")
    assert found.tokenizer is not None
    assert found.dataset == "hamlet"


def test_a_tokenizer_that_is_not_found_says_where_it_was_looked_for(tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path / "out")
    found = open_model(tmp_path / "out")
    assert found.tokenizer is None
    with pytest.raises(JobError, match=r"tokenizer of .*ckpt\.pt is unknown: the meta\.pkl of its \d+ tokens"):
        found.known_tokenizer()


def test_the_tokenizer_of_another_vocabulary_is_not_taken(tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path / "out")
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    (tmp_path / "out/meta.pkl").write_bytes(pickle.dumps({"itos": {0: "a"}, "vocab_size": 1}))
    assert open_model(tmp_path / "out").tokenizer is not None  # of data/hamlet


def test_a_run_in_nanogpts_folder_is_preferred_to_what_it_began_with(run: Path) -> None:
    nanogpt_files.write_checkpoint(run)
    assert open_model(run).config.recipe == "modern"
    assert open_model(run / "ckpt.pt").config.recipe == "classic"


def test_weights_are_copies_that_a_new_checkpoint_does_not_change(tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path)
    found = open_model(tmp_path)
    before = {name: tensor.clone() for name, tensor in found.weights.items()}
    nanogpt_files.write_checkpoint(tmp_path, steps=30)
    assert all(torch.equal(found.weights[name], before[name]) for name in before)


def test_the_weights_in_a_checkpoint_are_those_on_disk(run: Path, checkpoint: Path) -> None:
    on_disk = read_tensors(checkpoint / "model.safetensors")
    assert all(torch.equal(tensor, on_disk[name]) for name, tensor in open_model(run).weights.items())
