"""nanoGPT's checkpoints: a pickled ckpt.pt, read as tensors and plain values. Nothing in it is ever run."""

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanoscope.errors import JobError
from nanoscope.model import GPT, ModelConfig
from nanoscope.model.weights import check_weights
from nanoscope.untrusted import printable

SIZES = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd")
PICKLE_LIMIT_BYTES = 16 << 20  # it holds the names and offsets of the tensors, not their values
COMPILED = "_orig_mod."  # the prefix that torch.compile adds to every name


def load_nanogpt(path: Path | str) -> GPT:
    """Load a nanoGPT checkpoint (the file, or the folder of ckpt.pt) as a classic model."""
    file = Path(path) / "ckpt.pt" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise JobError(f"there is no nanoGPT checkpoint at {file}")
    try:
        _check_archive(file)
        # Mapped, not read: two thirds of the file belong to the optimizer.
        saved = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a hostile or damaged file may raise anything
        raise JobError(
            f"{file} is not a nanoGPT checkpoint: torch cannot read it as tensors and plain values, "
            f"and nothing in it was run\n({type(error).__name__}: {_briefly(error)})"
        ) from None
    try:
        if not isinstance(saved, dict):
            raise TypeError(f"it holds a {type(saved).__name__}")
        weights = _weights(saved["model"], file.stat().st_size)
        config = _model_config(saved["model_args"])
        check_weights(config, weights)
        model = GPT(config)
        model.load_state_dict(weights, strict=False)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else _briefly(error)
        raise JobError(f"{file} is not a complete nanoGPT checkpoint: {reason}") from None
    return model


def _briefly(error: Exception) -> str:
    return printable(" ".join(str(error).split())[:160])


def _check_archive(file: Path) -> None:
    """Refuse an archive that expands to more than its size; those of torch are not compressed."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > file.stat().st_size:
        raise ValueError("its contents are larger than the file")
    if any(entry.filename.endswith("data.pkl") and entry.file_size > PICKLE_LIMIT_BYTES for entry in entries):
        raise ValueError("its pickle is too large")


def _weights(saved: Any, file_bytes: int) -> dict[str, Tensor]:
    """Return the weights under our names, without the causal masks that nanoGPT saves with old versions of torch."""
    weights: dict[str, Tensor] = {}
    for name, tensor in saved.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
            raise ValueError(f"{name if isinstance(name, str) else type(name)!s:.60} is not a tensor of weights")
        if not name.endswith(".attn.bias"):
            weights[name.removeprefix(COMPILED)] = tensor
    # A tensor that repeats a few stored values may have any size.
    if sum(tensor.nbytes for name, tensor in weights.items() if name != "lm_head.weight") > file_bytes:
        raise ValueError("its weights are larger than the file")
    head, table = weights.pop("lm_head.weight", None), weights["transformer.wte.weight"]
    if head is not None and (head.shape != table.shape or not torch.equal(head, table)):
        raise ValueError("its output layer differs from its token table; nanoGPT ties them")
    return weights


def _model_config(arguments: Any) -> ModelConfig:
    sizes: dict[str, int] = {name: arguments[name] for name in SIZES}
    dropout, bias = arguments.get("dropout", 0.0), arguments.get("bias", True)  # nanoGPT's defaults
    return ModelConfig(**sizes, dropout=dropout, bias=bias, recipe="classic")
