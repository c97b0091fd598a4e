"""nanoGPT's checkpoints: a pickled ckpt.pt, read as tensors and plain values. Nothing in it is ever run."""

import math
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from nanoscope.data.plain_pickle import load_plain
from nanoscope.errors import JobError
from nanoscope.model import ModelConfig
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
from nanoscope.model.weights import check_weights, what_is_wrong

PICKLE_LIMIT_BYTES = 4 << 20  # it holds the names and offsets of the tensors, not their values
COMPILED = "_orig_mod."  # the prefix that torch.compile adds to every name
MOMENTS = {"step", "exp_avg", "exp_avg_sq"}


def read_nanogpt(file: Path, *, optimizer: bool = False) -> tuple[LoadedCheckpoint, dict[str, Any]]:
    """Read a checkpoint of nanoGPT, saved on any device, without a tokenizer.

    Also returns its settings: numbers and texts, not checked any further. What nanoGPT calls best_val_loss is the loss
    when it was saved.
    """
    try:
        _check_archive(file)
        # Mapped, not read: two thirds of the file belong to the optimizer.
        saved = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        weights = _weights(saved["model"], file.stat().st_size)
        config = msgspec.convert({"bias": True, **saved["model_args"], "recipe": "classic"}, ModelConfig)
        check_weights(config, weights)
        moments = _moments(saved["optimizer"], weights) if optimizer else {}
    except Exception as error:  # a hostile or damaged file may raise anything
        raise JobError(
            "{file} is not a nanoGPT checkpoint, and nothing in it was run\n({reason})",
            file=file,
            reason=what_is_wrong(error),
        ) from None
    # Copies: nanoGPT may be training on, and would overwrite the mapped file.
    weights, moments = ({name: tensor.clone() for name, tensor in part.items()} for part in (weights, moments))
    settings = saved.get("config")
    plain = {k: v for k, v in settings.items() if isinstance(k, str)} if isinstance(settings, dict) else {}
    step, val_loss = saved.get("iter_num"), _number(saved.get("best_val_loss"))
    step = step if type(step) is int and 0 <= step < 2**40 else 0
    progress = TrainingState(step, best_val_loss=val_loss, best_step=None if val_loss is None else step)
    return LoadedCheckpoint(file, weights, moments, progress, config, None, {}, {"evaluation": "random windows"}), plain


def _number(value: Any) -> float | None:
    """A loss, which nanoGPT saves as a tensor; None for its initial 1e9 and for anything else."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point():
        value = value.item()
    return value if isinstance(value, float) and math.isfinite(value) and 0 <= value < 1e9 else None


def _check_archive(file: Path) -> None:
    """Refuse an archive that expands to more than its size (torch's are not compressed) or would take years."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise ValueError("its contents are larger than the file")
        for entry in entries:
            if entry.filename.lower().endswith("data.pkl"):  # torch finds it in capitals, too
                if entry.file_size > PICKLE_LIMIT_BYTES:
                    raise ValueError("its pickle is too large")
                load_plain(archive.read(entry))


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


def _moments(saved: Any, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """AdamW's state as our checkpoints have it: `PARAMETER.exp_avg`.

    nanoGPT numbers the parameters: those that decay, which have 2 dimensions, first.
    """
    ordered = sorted(weights, key=lambda name: weights[name].dim() < 2)  # stable: each part in the model's order
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    if numbers != list(range(len(ordered))):
        raise ValueError("its optimizer has other parameters than its model")
    moments: dict[str, Tensor] = {}
    for number, values in saved["state"].items():
        parameter = weights[ordered[number]]
        for key in MOMENTS:
            value = values[key] if isinstance(values[key], Tensor) else torch.tensor(float(values[key]))
            if value.shape != (() if key == "step" else parameter.shape) or not value.is_floating_point():
                raise ValueError(f"its optimizer state does not fit {ordered[number]}")
            moments[f"{ordered[number]}.{key}"] = value
    return moments
