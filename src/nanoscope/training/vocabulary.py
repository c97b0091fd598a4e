"""Weights for another vocabulary: tokens that both have are matched by their bytes, the others begin untrained."""

import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SharedTokens:
    """Which tokens of a dataset a model knows under another id."""

    old: Tensor
    """For each id of the dataset: the model's id of the same token, or -1."""

    @property
    def count(self) -> int:
        return int((self.old >= 0).sum())


def shared_tokens(model: OpenedModel, dataset: Dataset) -> tuple[SharedTokens | None, list[str]]:
    """Match the tokens of the dataset with the model's, and note what begins anew. None: the ids mean the same."""
    if model.tokenizer is None or dataset.tokenizer is None:
        return None, _assumed_equal(model, dataset)
    if model.tokenizer.to_json() == dataset.tokenizer.to_json():
        return None, []
    _check_kinds(model.name, model.tokenizer.kind, dataset.folder, dataset.tokenizer.kind)
    known = {model.tokenizer.token_bytes(i): i for i in range(model.tokenizer.vocab_size)}
    size = dataset.tokenizer.vocab_size
    shared = SharedTokens(torch.tensor([known.get(dataset.tokenizer.token_bytes(i), -1) for i in range(size)]))
    new = size - shared.count
    known_tokens = Text(
        "{known:d} of the {size:d} tokens of {folder} are known to {model}",
        known=shared.count,
        size=size,
        folder=dataset.folder,
        model=model.name,
    )
    return shared, [
        Text("{known}; the other {new:d} begin untrained", known=known_tokens, new=new) if new else known_tokens
    ]


def _assumed_equal(model: OpenedModel, dataset: Dataset) -> list[str]:
    nameless = model.name if model.tokenizer is None else dataset.folder
    unknown = Text("the tokenizer of {name} is unknown", name=nameless)
    if dataset.vocab_size > model.config.vocab_size:
        raise UsageError(
            "{model} has a vocabulary of {available} tokens, {folder} one of {needed}, and {unknown}\n"
            "Prepare the data with the tokenizer that the model was trained with.",
            model=model.name,
            available=model.config.vocab_size,
            folder=dataset.folder,
            needed=dataset.vocab_size,
            unknown=unknown,
        )
    return [Text("{unknown}: its token ids are taken to mean the same as those of the model", unknown=unknown)]


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
def fit_weights(model: LanguageModel, old: OpenedModel, shared: SharedTokens, split: TokenSplit) -> dict[str, Tensor]:
    """The old weights for a model with the dataset's vocabulary. The rows of new tokens stay as `model` has them."""
    fresh = dict(model.state_dict())
    weights = dict(old.weights)
    new_ids = (shared.old >= 0).nonzero().flatten()
    for name in TOKEN_TABLES:
        if name in weights:
            weights[name] = fresh[name].clone().index_copy_(0, new_ids, weights[name][shared.old[new_ids]])
    if NGRAMS in weights:
        weights[NGRAMS] = _fit_ngrams(model, weights[NGRAMS], shared, split)
    return weights


def _fit_ngrams(model: LanguageModel, table: Tensor, shared: SharedTokens, split: TokenSplit) -> Tensor:
    """Move the rows of n-grams, which are found by hashing the ids of their tokens, to where the new ids lead.

    Several n-grams share a row; their old rows are averaged as often as each occurs in the training split.
    """
    assert isinstance(model, Modern)
    assert model.ngrams is not None
    rows, skip = model.ngrams.rows, model.ngrams.longest - 1
    total, count = torch.zeros_like(table), torch.zeros(len(table))
    for start in range(0, min(len(split), TOKENS_READ), TOKENS_AT_ONCE):
        tokens = torch.from_numpy(split.read(start, min(TOKENS_AT_ONCE, len(split) - start)).astype(np.int64))[None]
        if tokens.shape[1] <= skip:
            break
        old = shared.old[tokens]
        is_known = old[0] >= 0
        so_far, ngrams = is_known[skip:], []
        for back in range(1, skip + 1):  # an n-gram is known if all of its tokens are
            so_far = so_far & is_known[skip - back : -back]
            ngrams.append(so_far)
        known = torch.stack(ngrams, dim=1)  # (T - skip, n - 1)
        new_rows, old_rows = rows(tokens)[0][known], rows(old.clamp(min=0))[0][known]
        total.index_add_(0, new_rows, table[old_rows])
        count.index_add_(0, new_rows, torch.ones(len(new_rows)))
    return total / count.clamp(min=1)[:, None]
