"""Weights for another vocabulary: the rows of tokens that both have are copied, the others begin untrained."""

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import Dataset, TokenSplit, is_dataset, open_dataset
from nanoscope.errors import UsageError
from nanoscope.files import DATA
from nanoscope.interop.models import OpenedModel
from nanoscope.messages import Text
from nanoscope.model import LanguageModel, Modern

TOKEN_TABLES = ("transformer.wte.weight", "embedding.weight", "head.weight")
NGRAMS = "ngrams.table"
TOKENS_READ = 2**21  # of the training split, to find which n-grams there are
TOKENS_AT_ONCE = 2**16
SINGLE = ("char", "byte")  # tokens of one character or byte; the others are pieces of words


def shared_tokens(model: OpenedModel, dataset: Dataset) -> tuple[Tensor | None, list[str]]:
    """For each token of the dataset the model's id of the same bytes, or -1; with notes. None: the ids are equal."""
    if model.tokenizer is None or dataset.tokenizer is None:
        check_vocabulary(dataset, model.config.vocab_size, model.name)
        nameless = model.name if model.tokenizer is None else dataset.folder
        unknown = Text("the tokenizer of {name} is unknown", name=nameless)
        return None, [
            Text("{unknown}: its token ids are taken to mean the same as those of the model", unknown=unknown)
        ]
    if model.tokenizer.to_json() == dataset.tokenizer.to_json():
        return None, []
    _check_kinds(model.name, model.tokenizer.kind, dataset.folder, dataset.tokenizer.kind)
    known = {model.tokenizer.token_bytes(i): i for i in range(model.tokenizer.vocab_size)}
    size = dataset.tokenizer.vocab_size
    ids = torch.tensor([known.get(dataset.tokenizer.token_bytes(i), -1) for i in range(size)])
    shared = int((ids >= 0).sum())
    note = Text(
        "{known:d} of the {size:d} tokens of {folder} are known to {model}",
        known=shared,
        size=size,
        folder=dataset.folder,
        model=model.name,
    )
    if shared < size:
        note = Text("{known}; the other {new:d} begin untrained", known=note, new=size - shared)
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


def check_gpt2_data(init_from: str, dataset: str) -> None:
    """Refuse data in other tokens for OpenAI's weights, before these are downloaded."""
    folder = next((folder for folder in (Path(dataset), DATA / dataset) if is_dataset(folder)), None)
    tokenizer = open_dataset(folder).tokenizer if folder else None
    kind = tokenizer.kind if tokenizer else "char" if dataset == "shakespeare_char" else "gpt2"
    _check_kinds(init_from, "gpt2", folder or Path(dataset), kind)


def _check_kinds(model: str, needed: str, folder: Path, found: str) -> None:
    """Refuse characters for a model of word pieces and the reverse: hardly anything it has learned would apply."""
    if (needed in SINGLE) != (found in SINGLE):
        corpus = re.split("[-_]", folder.name)[0]
        way = f"--dataset={corpus}" if corpus in CORPORA else "nanoscope prepare FILE"
        raise UsageError(
            "init_from={model} needs data in {needed} tokens, but {folder} has {found} tokens\n"
            "Use {way} --tokenizer={needed}",
            model=model,
            needed=needed,
            folder=folder,
            found=found,
            way=way,
        )


@torch.no_grad()
def fit_weights(model: LanguageModel, old: OpenedModel, ids: Tensor, split: TokenSplit) -> dict[str, Tensor]:
    """The old weights for a model with the dataset's vocabulary. The rows of new tokens stay as `model` has them."""
    fresh, weights = model.state_dict(), dict(old.weights)
    for name in TOKEN_TABLES:
        if name in weights:
            weights[name] = torch.where(ids[:, None] >= 0, weights[name][ids], fresh[name][: len(ids)])
            weights[name] = torch.cat((weights[name], fresh[name][len(ids) :]))  # the padding of the vocabulary
    if NGRAMS in weights:
        weights[NGRAMS] = _fit_ngrams(model, weights[NGRAMS], ids, split)
    return weights


def _fit_ngrams(model: LanguageModel, table: Tensor, ids: Tensor, split: TokenSplit) -> Tensor:
    """Move the rows of the text's n-grams, which are found by hashing ids, to where the new ids lead.

    N-grams that share a row are averaged as often as each occurs.
    """
    assert isinstance(model, Modern)
    assert model.ngrams is not None
    total, count = torch.zeros_like(table), torch.zeros(len(table))
    for start in range(0, min(len(split), TOKENS_READ), TOKENS_AT_ONCE):
        tokens = torch.from_numpy(split.read(start, min(TOKENS_AT_ONCE, len(split) - start)).astype(np.int64))[None]
        new, known = model.ngrams.rows(tokens).flatten(), model.ngrams.rows(ids[tokens]).flatten()
        total.index_add_(0, new, table[known])
        count.index_add_(0, new, torch.ones(len(new)))
    return total / count.clamp(min=1)[:, None]
