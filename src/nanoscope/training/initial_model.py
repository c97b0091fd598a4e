"""The model that a run begins with: a new one, one with weights of another model, or the shape of a checkpoint."""

from dataclasses import fields, replace

from nanoscope.config import KEYS, SHAPE_KEYS, TrainConfig, build, refuse_changes
from nanoscope.config_sources import Resolved, merged
from nanoscope.data.dataset import Dataset
from nanoscope.errors import JobError, UsageError
from nanoscope.interop.models import OpenedModel
from nanoscope.messages import Count, Text
from nanoscope.model import LanguageModel, ModelConfig, Modern, build_model
from nanoscope.model.checkpoint import LoadedCheckpoint
from nanoscope.model.weights import load_model_weights, with_block_size
from nanoscope.training.machine import Machine
from nanoscope.training.memory import check_fits
from nanoscope.training.vocabulary import check_vocabulary, fit_weights, shared_tokens

RATES = {"learning_rate", "matrix_lr", "table_lr", "output_lr", "lr_scale"}  # × 0.3 ended 0.03 lower (LOG.md)
SHAPE_OF_THE_MODEL = ("block_size", "n_layer", "n_head", "n_embd", "bias")


def initial_model(
    config: TrainConfig,
    dataset: Dataset,
    machine: Machine,
    *,
    checkpoint: LoadedCheckpoint | None = None,
    weights: OpenedModel | None = None,
) -> tuple[LanguageModel, TrainConfig, list[str]]:
    """Build the model. Returns it with the configuration, which now has the model's shape, and notes.

    The weights of a checkpoint come later, together with its optimizer (`Engine.restore`).
    """
    ids, notes = shared_tokens(weights, dataset) if weights else (None, [])
    if checkpoint is not None:
        shape = checkpoint.model_config
        check_vocabulary(dataset, shape.vocab_size, "the run")
    elif weights is not None:
        vocab_size = weights.config.vocab_size if ids is None else padded_vocabulary(dataset.vocab_size)
        shape = replace(weights.config, vocab_size=vocab_size, block_size=config.block_size)
    else:
        shape = new_shape(config, dataset.vocab_size)
    shape = replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)
    check_fits(shape, machine.device)
    try:
        model = build_model(shape)
        if weights is not None:
            fitted = weights.weights if ids is None else fit_weights(model, weights, ids, dataset.split("train"))
            load_model_weights(model, with_block_size(shape, fitted, config.block_size)[1])
        model = model.to(machine.device)
    except (RuntimeError, MemoryError) as error:
        raise JobError("can't create a model of this size here: {reason}", reason=str(error).splitlines()[0]) from None
    if isinstance(model, Modern) and model.ngrams is not None:
        # Processes exchange dense gradients only, and a compiled graph has no sparse ones.
        alone_on_cpu = machine.choice.type == "cpu" and machine.processes.world == 1
        model.ngrams.sparse = alone_on_cpu and not machine.choice.compile
    return model, replace(config, **{key: getattr(shape, key) for key in SHAPE_OF_THE_MODEL}), notes


def config_for_weights(resolved: Resolved, weights: OpenedModel) -> tuple[TrainConfig, list[str]]:
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
    notes: list[str] = [_beginning(weights, wanted)]
    values = merged({key: value for key, value in given.items() if key not in typed}, {**typed, **own}, notes)
    if shape.recipe == "modern" and not RATES & typed.keys():
        notes.append(
            Text(
                "these learning rates are for training from scratch; lower ones may end lower: try {flag}",
                flag="--lr_scale=0.3",
            )
        )
    return build(values), notes


def _beginning(weights: OpenedModel, block_size: int) -> Text:
    shape = Count(
        "{recipe}, {n} layer, {heads:d} heads, width {width:d}, context {context:d}",
        "{recipe}, {n} layers, {heads:d} heads, width {width:d}, context {context:d}",
        weights.config.n_layer,
        recipe=weights.config.recipe,
        heads=weights.config.n_head,
        width=weights.config.n_embd,
        context=block_size,
    )
    return Text("starting from {model}: {shape}", model=weights.describe(), shape=shape)


def new_shape(config: TrainConfig, vocab_size: int) -> ModelConfig:
    same = {item.name: getattr(config, item.name) for item in fields(ModelConfig) if item.name in KEYS}
    shape = ModelConfig(**same | {"vocab_size": padded_vocabulary(vocab_size)})
    return shape if config.recipe == "modern" else replace(shape, ngrams=1)


def padded_vocabulary(size: int) -> int:
    """Round large vocabularies up to a multiple of 64, as nanoGPT does (GPT-2: 50257 → 50304): matmuls are faster."""
    return size if size <= 512 else -(-size // 64) * 64
