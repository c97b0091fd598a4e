"""The model that a run begins with: a new one, GPT-2's weights, or the shape of a checkpoint."""

from dataclasses import replace

from nanoscope.config import TrainConfig
from nanoscope.data.dataset import Dataset
from nanoscope.errors import JobError, UsageError
from nanoscope.hardware.memory import check_fits
from nanoscope.interop.models import open_model
from nanoscope.model import LanguageModel, ModelConfig, Modern, build_model
from nanoscope.model.checkpoint import LoadedCheckpoint
from nanoscope.model.weights import load_model_weights, with_block_size
from nanoscope.training.machine import Machine

SHAPE_OF_THE_MODEL = ("block_size", "n_layer", "n_head", "n_embd", "bias")


def initial_model(
    config: TrainConfig, dataset: Dataset, checkpoint: LoadedCheckpoint | None, machine: Machine
) -> tuple[LanguageModel, TrainConfig]:
    """Build the model. Returns it with the configuration, which now has the model's shape.

    The weights of a checkpoint come later, together with its optimizer (`Learner.restore`).
    """
    weights = None
    if checkpoint is not None:  # its shape is fixed, its dropout is not
        shape = replace(checkpoint.model_config, dropout=config.dropout, ngram_dropout=config.ngram_dropout)
        check_vocabulary(dataset, shape.vocab_size, "the run")
    elif config.init_from == "scratch":
        shape = new_shape(config, dataset.vocab_size)
    else:
        opened = open_model(config.init_from)
        if config.block_size > (longest := opened.config.block_size):
            raise UsageError(f"block_size={config.block_size} exceeds the context length of {opened.name}, {longest}")
        shape, weights = with_block_size(opened.config, opened.weights, config.block_size)
        shape = replace(shape, dropout=config.dropout)
        check_vocabulary(dataset, shape.vocab_size, config.init_from)
    logits = shape.block_size * shape.vocab_size
    check_fits(
        machine.device,
        parameters=shape.estimated_parameters,
        batch_size=config.batch_size,
        logits_per_sequence=logits,
    )
    try:
        model = build_model(shape)
        if weights is not None:
            load_model_weights(model, weights)
        model = model.to(machine.device)
    except (RuntimeError, MemoryError) as error:
        raise JobError(f"can't create a model of this size here: {str(error).splitlines()[0]}") from None
    if isinstance(model, Modern) and model.ngrams is not None:
        # Processes exchange dense gradients only, and a compiled graph has no sparse ones.
        alone_on_cpu = machine.choice.type == "cpu" and machine.processes.world == 1
        model.ngrams.sparse = alone_on_cpu and not machine.choice.compile
    return model, replace(config, **{key: getattr(shape, key) for key in SHAPE_OF_THE_MODEL})


def new_shape(config: TrainConfig, vocab_size: int) -> ModelConfig:
    return ModelConfig(
        vocab_size=padded_vocabulary(vocab_size), block_size=config.block_size, n_layer=config.n_layer,
        n_head=config.n_head, n_embd=config.n_embd, dropout=config.dropout, bias=config.bias, recipe=config.recipe,
        ngrams=config.ngrams if config.recipe == "modern" else 1, ngram_dropout=config.ngram_dropout,
        token_shift=config.token_shift,
    )  # fmt: skip


def padded_vocabulary(size: int) -> int:
    """Round large vocabularies up to a multiple of 64, as nanoGPT does (GPT-2: 50257 → 50304): matmuls are faster."""
    return size if size <= 512 else -(-size // 64) * 64


def check_vocabulary(dataset: Dataset, available: int, model: str) -> None:
    needed = dataset.tokenizer.vocab_size if dataset.tokenizer else dataset.vocab_size
    if needed > available:
        raise UsageError(
            f"{model} has a vocabulary of {available} tokens, {dataset.folder} one of {needed}\n"
            "Prepare the data with the tokenizer that the model was trained with."
        )
