"""nanoGPT's ckpt.pt becomes a classic model; any other file is refused without being run."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nanogpt_files
from nanoscope.errors import JobError
from nanoscope.interop.models import open_model
from nanoscope.interop.nanogpt import read_nanogpt
from nanoscope.model import GPT, ModelConfig, build_model

ARGUMENTS = {"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 8, "bias": False, "vocab_size": 11, "dropout": 0.1}


def a_model(**changes: Any) -> GPT:
    torch.manual_seed(5)
    return build_model(ModelConfig(**{**ARGUMENTS, **changes}, recipe="classic"))


def save(path: Path, model: GPT, prefix: str = "", arguments: dict[str, Any] | None = None, **extra: Tensor) -> Path:
    """What nanoGPT's train.py writes."""
    torch.save(
        {
            "model": {prefix + name: tensor for name, tensor in model.state_dict().items()} | extra,
            "optimizer": torch.optim.AdamW(model.parameters()).state_dict(),
            "model_args": ARGUMENTS if arguments is None else arguments,
            "iter_num": 7,
            "best_val_loss": torch.tensor(1.5),
            "config": {"out_dir": "out", "device": "cpu"},
        },
        path,
    )
    return path


def load_nanogpt(path: Path) -> GPT:
    return open_model(path).build()


def same_logits(one: GPT, other: GPT) -> bool:
    tokens = torch.arange(8)[None]
    return torch.equal(one.eval()(tokens), other.eval()(tokens))


def test_a_checkpoint_becomes_the_same_model(tmp_path: Path) -> None:
    model = a_model()
    loaded = load_nanogpt(save(tmp_path / "ckpt.pt", model))
    assert same_logits(loaded, model)
    assert loaded.config == ModelConfig(**ARGUMENTS, recipe="classic")


def test_biases_are_kept(tmp_path: Path) -> None:
    model = a_model(bias=True)
    torch.nn.init.normal_(model.transformer.h[0].mlp.c_fc.bias)
    loaded = load_nanogpt(save(tmp_path / "ckpt.pt", model, arguments={**ARGUMENTS, "bias": True}))
    assert same_logits(loaded, model)


def test_the_folder_of_a_checkpoint_can_be_given(tmp_path: Path) -> None:
    save(tmp_path / "ckpt.pt", a_model())
    assert same_logits(load_nanogpt(tmp_path), a_model())


def test_the_names_of_a_compiled_model_are_understood(tmp_path: Path) -> None:
    assert same_logits(load_nanogpt(save(tmp_path / "ckpt.pt", a_model(), prefix="_orig_mod.")), a_model())


def test_causal_masks_of_older_versions_are_ignored(tmp_path: Path) -> None:
    mask = {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8).tril()}
    assert same_logits(load_nanogpt(save(tmp_path / "ckpt.pt", a_model(), **mask)), a_model())


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_a_file_that_would_run_something_is_refused_and_runs_nothing(write: Any, tmp_path: Path) -> None:
    write({"model": Malice(tmp_path / "made"), "model_args": ARGUMENTS}, tmp_path / "ckpt.pt")
    with pytest.raises(JobError, match="nothing in it was run"):
        load_nanogpt(tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"hello" * 100])
def test_a_damaged_file_is_refused(damage: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "ckpt.pt", a_model())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(JobError, match="is not a nanoGPT checkpoint") as caught:
        load_nanogpt(path)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layer": 10**12}, "more than it has weights for"),
        ({"n_embd": 10**6}, r"the model needs \(11, 1000000\)"),
        ({"n_head": 3}, "not divisible"),
        ({"n_layer": "2"}, r"got `str` - at `\$\.n_layer`"),
        ({"n_head": 0}, r">= 1 - at `\$\.n_head`"),
        ({"vocab_size": True}, r"got `bool` - at `\$\.vocab_size`"),
        ({"block_size": None}, r"got `null` - at `\$\.block_size`"),
        ({"dropout": 1.5}, r"< 1\.0 - at `\$\.dropout`"),
        ({"bias": "no"}, r"got `str` - at `\$\.bias`"),
        ({"bias": True}, "is missing"),
        ({"n_layer": 1}, "not part of such a model"),
        ({"block_size": 9}, r"the model needs \(9, 16\)"),
    ],
)
def test_sizes_that_do_not_fit_the_weights_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=message):
        load_nanogpt(save(tmp_path / "ckpt.pt", a_model(), arguments={**ARGUMENTS, **change}))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    torch.save({"model": a_model().state_dict()}, tmp_path / "ckpt.pt")
    with pytest.raises(JobError, match="KeyError: 'model_args'"):
        load_nanogpt(tmp_path)


@pytest.mark.parametrize("content", [[1, 2], {"model": [1], "model_args": ARGUMENTS}, torch.zeros(3), "text"])
def test_another_file_of_torch_is_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "ckpt.pt")
    with pytest.raises(JobError, match="is not a nanoGPT checkpoint"):
        load_nanogpt(tmp_path)


def test_a_tensor_larger_than_the_file_is_refused(tmp_path: Path) -> None:
    claimed = {**ARGUMENTS, "vocab_size": 10**9}
    weights = a_model().state_dict() | {"transformer.wte.weight": torch.zeros(1, 1).expand(10**9, 16)}
    del weights["lm_head.weight"]
    torch.save({"model": weights, "model_args": claimed}, tmp_path / "ckpt.pt")
    with pytest.raises(JobError, match="larger than the file"):
        load_nanogpt(tmp_path)


def test_an_untied_output_layer_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "ckpt.pt", a_model(), **{"lm_head.weight": torch.zeros(11, 16)})
    with pytest.raises(JobError, match="its output layer differs from its token table"):
        load_nanogpt(path)


def test_the_state_of_the_optimizer_is_that_of_each_parameter(tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path)
    model, optimizer = nanogpt_files.trained()  # the same again
    found, _ = read_nanogpt(tmp_path / "ckpt.pt", optimizer=True)
    assert found.optimizer.keys() == {
        f"{name}.{key}" for name, _ in model.named_parameters() for key in ("step", "exp_avg", "exp_avg_sq")
    }
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            assert torch.equal(found.optimizer[f"{name}.{key}"], value), f"{name}.{key}"


def test_without_the_optimizer_its_state_is_not_read(tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path, optimizer="damaged")
    assert read_nanogpt(tmp_path / "ckpt.pt")[0].optimizer == {}
    with pytest.raises(JobError, match="is not a nanoGPT checkpoint"):
        read_nanogpt(tmp_path / "ckpt.pt", optimizer=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: o["param_groups"][1]["params"].pop(), "other parameters than its model"),
        (lambda o: o["param_groups"].reverse(), "other parameters than its model"),
        (lambda o: o["state"][0].pop("exp_avg"), "KeyError: 'exp_avg'"),
        (lambda o: o["state"][0].update(exp_avg=torch.zeros(3)), r"does not fit transformer\.wte\.weight"),
        (lambda o: o["state"].update({99: o["state"][0]}), "list index out of range"),
    ],
)
def test_an_optimizer_of_another_model_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    state = nanogpt_files.trained()[1].state_dict()
    change(state)
    nanogpt_files.write_checkpoint(tmp_path, optimizer=state)
    with pytest.raises(JobError, match=message):
        read_nanogpt(tmp_path / "ckpt.pt", optimizer=True)


def test_a_checkpoint_saved_on_a_gpu_is_read_without_one(tmp_path: Path) -> None:
    model = nanogpt_files.write_checkpoint(tmp_path / "cpu")
    with zipfile.ZipFile(tmp_path / "cpu/ckpt.pt") as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert records["data.pkl"].count(b"X\x03\x00\x00\x00cpu") == 1  # the device of every tensor
    records["data.pkl"] = records["data.pkl"].replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    (tmp_path / "gpu").mkdir()
    writer = torch._C.PyTorchFileWriter(str(tmp_path / "gpu/ckpt.pt"))
    for name, content in records.items():
        if name not in ("version", ".data/serialization_id"):  # which the writer adds
            writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    found, _ = read_nanogpt(tmp_path / "gpu/ckpt.pt", optimizer=True)
    assert torch.equal(found.model["transformer.wte.weight"], model.transformer.wte.weight)


@pytest.mark.parametrize("best", [torch.tensor(1e9), torch.tensor(torch.nan), "low", None, torch.zeros(3), 10**400])
def test_a_best_loss_that_is_none_is_unknown(best: Any, tmp_path: Path) -> None:
    nanogpt_files.write_checkpoint(tmp_path, best_val_loss=best)
    assert read_nanogpt(tmp_path / "ckpt.pt")[0].progress.best_val_loss is None
