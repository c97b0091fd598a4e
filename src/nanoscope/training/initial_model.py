"""The model that a run begins with: a new one, one with weights of another model, or the shape of a checkpoint."""

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanoscope.config import KEYS, OPTIONS, SHAPE_KEYS, TrainConfig, build, convert, refuse_changes
from nanoscope.config_sources import Resolved, merged
from nanoscope.data.dataset import Dataset
from nanoscope.errors import JobError, UsageError
from nanoscope.interop.models import OpenedModel, nanogpt_dataset, nanogpt_tokenizer
from nanoscope.interop.nanogpt import read_nanogpt
from nanoscope.messages import Message, Shown
from nanoscope.model import LanguageModel, ModelConfig, Modern, build_model
from nanoscope.model.checkpoint import LoadedCheckpoint
from nanoscope.model.weights import load_model_weights
from nanoscope.training.machine import Machine
from nanoscope.training.memory import check_fits

SHAPE_OF_THE_MODEL = ("block_size", "n_layer", "n_head", "n_embd", "bias")
TOKEN_TABLES = ("transformer.wte.weight", "embedding.weight", "head.weight")
NGRAMS = "ngrams.table"
SINGLE = ("char", "byte")  # tokens of one character or byte; the others are pieces of words


def initial_model(
    config: TrainConfig,
    dataset: Dataset,
    machine: Machine,
    *,
    checkpoint: LoadedCheckpoint | None = None,
    weights: OpenedModel | None = None,
) -> tuple[LanguageModel, TrainConfig, list[Shown]]:
    """Build the model. Returns it with the configuration, which now has the model's shape, and notes.

    The weights of a checkpoint come later, together with its optimizer (`Engine.restore`).
    """
    ids, notes = shared_tokens(weights, dataset) if weights else (None, [])
    if checkpoint is not None:
        shape = checkpoint.model_config
        check_vocabulary(dataset, shape.vocab_size, "the run")
    elif weights is not None:
        vocab_size = weights.config.vocab_size if ids is None else len(ids)
        shape = replace(weights.config, vocab_size=vocab_size, block_size=config.block_size)
    else:
        shape = new_shape(config, dataset.vocab_size)
    shape = replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)
    check_fits(shape, machine.device)
    try:
        model = build_model(shape)
        if weights is not None:
            load_model_weights(model, weights.weights if ids is None else fit_weights(model, weights, ids))
        model = model.to(machine.device)
    except (RuntimeError, MemoryError) as error:
        raise JobError("can't create a model of this size here: {reason}", reason=str(error).splitlines()[0]) from None
    if isinstance(model, Modern) and model.ngrams is not None:
        # Processes exchange dense gradients only, and a compiled graph has no sparse ones.
        alone_on_cpu = machine.choice.type == "cpu" and machine.processes.world == 1
        model.ngrams.sparse = alone_on_cpu and not machine.choice.compile
    return model, replace(config, **{key: getattr(shape, key) for key in SHAPE_OF_THE_MODEL}), notes


def config_for_weights(resolved: Resolved, weights: OpenedModel) -> tuple[TrainConfig, list[Shown]]:
    """The settings of a run that begins with these weights: they determine the recipe and the shape.

    Only block_size may differ: typed, or from the file that also sets init_from. UsageError if typed flags contradict.
    """
    shape, typed, given = weights.config, resolved.typed, resolved.given
    own = {key: getattr(shape, key) for key in SHAPE_KEYS if KEYS[key].metadata["recipe"] in ("", shape.recipe)}
    wanted = (typed if "init_from" in typed else given).get("block_size", typed.get("block_size", shape.block_size))
    if shape.recipe == "classic" and wanted > shape.block_size:
        raise UsageError(
            "block_size={wanted} exceeds the context length of {model}, {block_size}",
            wanted=wanted,
            model=weights.name,
            block_size=shape.block_size,
        )
    own["block_size"] = wanted
    refuse_changes(typed, own, weights.name)
    described = ", ".join(f"{key}={value}" for key, value in own.items())
    notes: list[Shown] = [Message("starting from {model}: {shape}", model=weights.describe(), shape=described)]
    values = merged({key: value for key, value in given.items() if key not in typed}, {**typed, **own}, notes)
    return build(values), notes


def new_shape(config: TrainConfig, vocab_size: int) -> ModelConfig:
    same = {item.name: getattr(config, item.name) for item in fields(ModelConfig) if item.name in KEYS}
    shape = ModelConfig(**same | {"vocab_size": padded_vocabulary(vocab_size)})
    return shape if config.recipe == "modern" else replace(shape, ngrams=1)


def padded_vocabulary(size: int) -> int:
    """Round large vocabularies up to a multiple of 64, as nanoGPT does (GPT-2: 50257 → 50304): matmuls are faster."""
    return size if size <= 512 else -(-size // 64) * 64


# --- weights for another vocabulary: the rows of tokens that both have are copied, the others begin untrained ---


def shared_tokens(model: OpenedModel, dataset: Dataset) -> tuple[Tensor | None, list[Shown]]:
    """The model's id of each token of the new vocabulary, or -1; with notes. None: the ids are equal."""
    if model.tokenizer is None or dataset.tokenizer is None:
        check_vocabulary(dataset, model.config.vocab_size, model.name)
        nameless = model.name if model.tokenizer is None else dataset.folder
        note = Message(
            "the tokenizer of {name} is unknown: its token ids are taken to mean the same as those of the model",
            name=nameless,
        )
        return None, [note]
    if model.tokenizer.to_json() == dataset.tokenizer.to_json():
        return None, []
    _check_kinds(model.name, model.tokenizer.kind, dataset.folder, dataset.tokenizer.kind)
    known = {model.tokenizer.token_bytes(i): i for i in range(model.tokenizer.vocab_size)}
    size = dataset.tokenizer.vocab_size
    ids = torch.full((padded_vocabulary(dataset.vocab_size),), -1)
    ids[:size] = torch.tensor([known.get(dataset.tokenizer.token_bytes(i), -1) for i in range(size)])
    note = Message(
        "{known:d} of the {size:d} tokens of {folder} are known to {model}; new ones begin untrained",
        known=int((ids >= 0).sum()),
        size=size,
        folder=dataset.folder,
        model=model.name,
    )
    return ids, [note]


def check_vocabulary(dataset: Dataset, available: int, model: str) -> None:
    needed = dataset.tokenizer.vocab_size if dataset.tokenizer else dataset.vocab_size
    if needed > available:
        raise UsageError(
            "{model} has a vocabulary of {available} tokens, {folder} one of {needed}\n"
            "Prepare the data with the tokenizer that the model was trained with.",
            model=model,
            available=available,
            folder=dataset.folder,
            needed=needed,
        )


def _check_kinds(model: str, needed: str, folder: Path, found: str) -> None:
    """Refuse characters for a model of word pieces and the reverse: hardly anything it has learned would apply."""
    if (needed in SINGLE) != (found in SINGLE):
        raise UsageError(
            "init_from={model} needs data in {needed} tokens, but {folder} has {found} tokens\n"
            "Use {way} --tokenizer={needed}",
            model=model,
            needed=needed,
            folder=folder,
            found=found,
            way="nanoscope prepare FILE",
        )


@torch.no_grad()
def fit_weights(model: LanguageModel, old: OpenedModel, ids: Tensor) -> dict[str, Tensor]:
    """The old weights for a model with the dataset's vocabulary. The rows of new tokens stay as `model` has them."""
    fresh, weights = model.state_dict(), dict(old.weights)
    for name in TOKEN_TABLES:
        if name in weights:
            weights[name] = torch.where(ids[:, None] >= 0, weights[name][ids], fresh[name])
    if NGRAMS in weights:  # its rows are found by hashing ids: all of them begin untrained
        weights[NGRAMS] = fresh[NGRAMS]
    return weights


NOT_TAKEN = ("out_dir", "init_from", *OPTIONS)  # about the command, not the run


def nanogpt_run(file: Path) -> tuple[LoadedCheckpoint, dict[str, Any]]:
    """A ckpt.pt as a checkpoint with the optimizer's state, and the settings of its run.

    Its machine's settings are left out: the file may come from a GPU that this machine does not have.
    """
    checkpoint, saved = read_nanogpt(file, optimizer=True)
    settings: dict[str, Any] = {}
    for key, value in saved.items():
        if key in KEYS and key not in NOT_TAKEN and KEYS[key].metadata["group"] != "machine":
            with suppress(ValueError):  # what can't be read has its default
                settings[key] = convert(key, value)
    shape, progress = checkpoint.model_config, checkpoint.progress
    settings |= {key: getattr(shape, key) for key in SHAPE_KEYS if KEYS[key].metadata["recipe"] != "modern"}
    if dataset := nanogpt_dataset(file, saved):
        settings["dataset"] = dataset
    tokenizer, _ = nanogpt_tokenizer(file, dataset, shape.vocab_size)
    progress.sequences = (
        progress.step * settings.get("batch_size", 12) * settings.get("gradient_accumulation_steps", 40)
    )
    return replace(checkpoint, tokenizer=tokenizer.to_json() if tokenizer else None), settings
