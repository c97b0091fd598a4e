"""nanoGPT's checkpoints: a pickled ckpt.pt, read as tensors and plain values; nothing in it is ever run."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanoscope.errors import JobError
from nanoscope.model import GPT, ModelConfig

SIZES = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd")
COMPILED = "_orig_mod."  # what torch.compile puts before every name


def load_nanogpt(path: Path | str) -> GPT:
    """The model of a nanoGPT checkpoint (the file, or the folder that holds ckpt.pt), as a classic model of ours."""
    file = Path(path) / "ckpt.pt" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise JobError(f"there is no nanoGPT checkpoint at {file}")
    try:
        # Mapped, not read: the optimizer's two thirds of the file are never touched.
        saved = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a hostile or damaged file may raise anything
        raise JobError(
            f"{file} is not a nanoGPT checkpoint: torch cannot read it as tensors and plain values, "
            f"and nothing in it was run\n({type(error).__name__}: {' '.join(str(error).split())[:120]})"
        ) from None
    try:
        if not isinstance(saved, dict):
            raise TypeError(f"it holds a {type(saved).__name__}")
        weights = _weights(saved["model"], file.stat().st_size)
        model = _empty_model(_model_config(saved["model_args"], weights), weights)
        model.load_state_dict(weights, strict=False)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise JobError(f"{file} is not a whole nanoGPT checkpoint: {reason}") from None
    return model


def _weights(saved: Any, file_bytes: int) -> dict[str, Tensor]:
    """The weights by our names; causal masks, which older torch versions made nanoGPT keep, are left out."""
    weights = {str(name).removeprefix(COMPILED): tensor for name, tensor in saved.items()}
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith(".attn.bias")}
    for name, tensor in weights.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise ValueError(f"{name[:60]} is no tensor of weights")
    head, table = weights.pop("lm_head.weight", None), weights["transformer.wte.weight"]
    if head is not None and (head.shape != table.shape or not torch.equal(head, table)):
        raise ValueError("its output layer is not its token table, as it is in every nanoGPT model")
    # A tensor that repeats a few stored numbers may claim any size.
    if sum(tensor.numel() * tensor.element_size() for tensor in weights.values()) > file_bytes:
        raise ValueError("its weights are larger than the file")
    return weights


def _model_config(arguments: Any, weights: dict[str, Tensor]) -> ModelConfig:
    sizes: dict[str, int] = {name: arguments[name] for name in SIZES}
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"its {name} is {size!r:.40}")
    if sizes["n_embd"] % sizes["n_head"]:
        raise ValueError(f"its n_embd {sizes['n_embd']} is not divisible by its n_head {sizes['n_head']}")
    if sizes["n_layer"] > len(weights):
        raise ValueError(f"its n_layer {sizes['n_layer']} is more than it has weights for")
    dropout, bias = arguments.get("dropout", 0.0), arguments.get("bias", True)  # as nanoGPT's own defaults
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise ValueError(f"its dropout is {dropout!r:.40}")
    if type(bias) is not bool:
        raise ValueError(f"its bias is {bias!r:.40}")
    return ModelConfig(**sizes, dropout=float(dropout), bias=bias, recipe="classic")


def _empty_model(config: ModelConfig, weights: dict[str, Tensor]) -> GPT:
    """A model of that shape, made only once it is known that the weights fill it exactly."""
    with torch.device("meta"):  # takes no memory, whatever the sizes
        expected = {name: parameter.shape for name, parameter in GPT(config).named_parameters()}
    for name in [*expected, *weights]:
        if name not in weights or name not in expected:
            raise ValueError(f"{name[:60]} is {'missing' if name in expected else 'not part of such a model'}")
        if weights[name].shape != expected[name]:
            raise ValueError(f"{name} is {tuple(weights[name].shape)}, its sizes say {tuple(expected[name])}")
    return GPT(config)
