"""GPT-2 weights in Hugging Face's layout give the same model."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from nanoscope.errors import JobError, UsageError
from nanoscope.interop.huggingface import load_gpt2
from nanoscope.interop.models import open_model
from nanoscope.model import GPT, ModelConfig
from nanoscope.model.weights import load_model_weights

SHAPE = {"n_layer": 2, "n_head": 2, "n_embd": 16}
STORED_IN_BY_OUT = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def original() -> GPT:
    torch.manual_seed(3)
    model = GPT(ModelConfig(vocab_size=40, block_size=24, bias=True, **SHAPE)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases too, or a lost one would not be seen
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def save_as_huggingface(model: GPT, folder: Path, prefix: str = "", **changes: object) -> Path:
    """The file that the hub has: (in, out) matrices, causal masks, the token table once or twice."""
    weights = {}
    for name, tensor in model.state_dict().items():
        inner = name.removeprefix("transformer.")
        if inner == "lm_head.weight":
            if prefix:
                weights[inner] = tensor.clone()
            continue
        weights[prefix + inner] = (tensor.t() if inner.endswith(STORED_IN_BY_OUT) else tensor).contiguous().clone()
    for layer in range(2):
        weights[f"{prefix}h.{layer}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
        weights[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(weights, folder / "model.safetensors")
    described = {**SHAPE, "vocab_size": 40, "n_positions": 24, "model_type": "gpt2", **changes}
    (folder / "config.json").write_text(json.dumps(described), "utf-8")
    return folder


def loaded(folder: Path, block_size: int) -> GPT:
    config, weights = load_gpt2(str(folder))
    model = GPT(replace(config, block_size=block_size))
    load_model_weights(model, weights)
    return model.eval()


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_the_same_weights_in_hugging_faces_layout_give_the_same_logits(prefix: str, tmp_path: Path) -> None:
    model = original()
    tokens = torch.randint(40, (2, 24))
    ours = loaded(save_as_huggingface(model, tmp_path, prefix), 24)
    torch.testing.assert_close(ours(tokens), model(tokens), rtol=0, atol=0)


def test_a_shorter_context_keeps_the_first_positions(tmp_path: Path) -> None:
    model = original()
    tokens = torch.randint(40, (2, 8))
    ours = loaded(save_as_huggingface(model, tmp_path), 8)
    assert ours.config.block_size == 8
    torch.testing.assert_close(ours(tokens), model(tokens), rtol=0, atol=0)


def test_the_shape_comes_from_the_file(tmp_path: Path) -> None:
    config, _ = load_gpt2(str(save_as_huggingface(original(), tmp_path)))
    assert config == ModelConfig(vocab_size=40, block_size=24, bias=True, **SHAPE)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"Did you mean gpt2-medium\?"):
        open_model("gpt2-medum")


def test_a_folder_without_weights_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=r"is not a model"):
        open_model(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"n_layer": "x"}', "{", "\x00"])
def test_a_damaged_description_is_a_failed_job(text: str, tmp_path: Path) -> None:
    save_as_huggingface(original(), tmp_path)
    (tmp_path / "config.json").write_text(text, "utf-8")
    with pytest.raises(JobError, match="does not contain GPT-2 weights"):
        load_gpt2(str(tmp_path))


def test_damaged_weights_are_a_failed_job(tmp_path: Path) -> None:
    save_as_huggingface(original(), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    for damaged in (b"", whole[:100], b"\x80\x04" + whole):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        with pytest.raises(JobError, match="does not contain GPT-2 weights"):
            load_gpt2(str(tmp_path))


def test_the_file_of_the_weights_may_be_named(tmp_path: Path) -> None:
    save_as_huggingface(original(), tmp_path)
    assert open_model(tmp_path / "model.safetensors").config == open_model(tmp_path).config


def test_weights_are_downloaded_at_a_fixed_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str, str]] = []

    def download(repository: str, file: str, *, revision: str) -> str:
        asked.append((repository, file, revision))
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(JobError, match="is missing"):
        load_gpt2("gpt2")
    assert {file for _, file, _ in asked} == {"model.safetensors", "config.json"}
    assert all(re.fullmatch("[0-9a-f]{40}", revision) for _, _, revision in asked)
