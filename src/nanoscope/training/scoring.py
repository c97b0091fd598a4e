"""How well models predict a text: the work of `nanoscope eval`. Nothing is written into a run."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import Dataset, Split, TokenSplit, open_dataset
from nanoscope.data.download import OnProgress
from nanoscope.data.find import find_dataset
from nanoscope.data.loader import check_length
from nanoscope.data.readers import Documents
from nanoscope.data.tokenizer import TokenArray, Tokenizer
from nanoscope.errors import JobError, UsageError
from nanoscope.hardware.device import Choice, autocast
from nanoscope.interop.models import OpenedModel
from nanoscope.messages import Joined, Text
from nanoscope.runs.scores import Measured, MeasuredText
from nanoscope.training.distributed import Processes
from nanoscope.training.evaluate import Evaluator

MOST_TOKENS_ENCODED = 2**26  # of a text that a model needs in other tokens: it is held in memory
DATASET_TOKENS = "dataset"


def silent(stage: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass
class ScoredText:
    """A split of a dataset, or a file, in the tokens that a model needs."""

    name: str
    split: Split | None = None
    dataset: Dataset | None = None
    _encoded: dict[str, TokenSplit] = field(default_factory=dict)

    def tokens_for(self, model: OpenedModel) -> tuple[str, TokenSplit]:
        """The tokens, with what tells them from those of other tokenizers."""
        if self.dataset is not None and self.split is not None:
            unknown = model.tokenizer is None or self.dataset.tokenizer is None
            if unknown and self.dataset.vocab_size > model.config.vocab_size:
                raise JobError(
                    "{model} can't be evaluated on {text}: it has a vocabulary of {tokens} tokens, the data one of "
                    "{needed}, and a tokenizer is unknown",
                    model=model.name,
                    text=self.name,
                    tokens=model.config.vocab_size,
                    needed=self.dataset.vocab_size,
                )
            if unknown or _same(model.tokenizer, self.dataset.tokenizer):
                return DATASET_TOKENS, self.dataset.split(self.split)
        tokenizer = model.known_tokenizer()
        key = json.dumps(tokenizer.to_json())
        if key not in self._encoded:
            ids = np.concatenate([self._encode(document, tokenizer, model) for document in self.documents()])
            self._encoded[key] = TokenSplit.in_memory(ids, tokenizer.vocab_size, self.name)
        return key, self._encoded[key]

    def documents(self) -> Iterator[str]:
        if self.dataset is None or self.split is None:
            parts: list[str] = []
            for piece in Documents([self.name]).pieces():
                parts.append(piece.text)
                if piece.ends_document:
                    yield "".join(parts)
                    parts = []
            return
        tokens, tokenizer = self.dataset.split(self.split), self.dataset.tokenizer
        if tokenizer is None or len(tokens) > MOST_TOKENS_ENCODED:
            raise JobError(
                "{name} has {n:,} tokens, too many to encode them anew for every tokenizer\n"
                "Evaluate models with the tokenizer of the dataset, or prepare a smaller text.",
                name=self.name,
                n=len(tokens),
            )
        ids = tokens.read(0, len(tokens))
        ends: list[int] = np.flatnonzero(ids == tokenizer.end_of_text).tolist()  # none if there is no such token
        for part in np.split(ids, ends):
            kept = part[1:] if len(part) and part[0] == tokenizer.end_of_text else part
            if len(kept):
                yield tokenizer.decode(kept)

    def _encode(self, document: str, tokenizer: Tokenizer, model: OpenedModel) -> TokenArray:
        if unknown := tokenizer.unknown(document):
            shown = " ".join(map(repr, unknown[:8]))
            words = ["nanoscope", "train", f"--init_from={model.run or model.folder}", f"--dataset={self.name}"]
            lacking: dict[str, object] = {"model": model.name, "text": self.name, "command": shlex.join(words)}
            lacking["characters"] = shown + (" …" if len(unknown) > 8 else "")
            if self.dataset is None:
                raise JobError(
                    "{model} can't be evaluated on {text}: its vocabulary lacks {characters}\n"
                    "Choose another text with --dataset",
                    **lacking,
                )
            raise JobError(
                "{model} can't be evaluated on {text}: its vocabulary lacks {characters}\n"
                "Choose another text with --dataset, or fine-tune the model on this one: {command}",
                **lacking,
            )
        ids = tokenizer.encode(document)
        return ids if tokenizer.end_of_text is None else np.append(ids, ids.dtype.type(tokenizer.end_of_text))


def _same(one: Tokenizer | None, two: Tokenizer | None) -> bool:
    return one is not None and two is not None and one.to_json() == two.to_json()


def open_text(models: Sequence[OpenedModel], name: str, split: Split, on_progress: OnProgress = silent) -> ScoredText:
    """The text that `name` means: a dataset or a file. "": the data that the models were trained on."""
    if name and Path(name).is_file():
        return ScoredText(name)
    with redirect_stdout(sys.stderr):  # standard output is for the result
        if name:
            folder = _folder(models[0], name, None, on_progress)
        else:
            if unknown := [model.name for model in models if not model.dataset]:
                raise UsageError(
                    "{model} does not say what it was trained on: choose a text with --dataset", model=unknown[0]
                )
            alike = models if len({model.dataset for model in models}) > 1 else models[:1]
            folders = {_folder(each, each.dataset, each.run, on_progress).resolve(): each for each in alike}
            if len(folders) > 1:
                each = (Text("{model} on {data}", model=model.name, data=model.dataset) for model in folders.values())
                raise UsageError(
                    "the models were trained on different data: {trained}\nChoose a text with --dataset",
                    trained=Joined(", ", each),
                )
            folder = _folder(models[0], models[0].dataset, models[0].run, on_progress)
    return ScoredText(str(folder), split, open_dataset(folder))


def _folder(model: OpenedModel, name: str, run: Path | None, on_progress: OnProgress) -> Path:
    kind = model.tokenizer.kind if model.tokenizer is not None and name in CORPORA else "auto"
    return find_dataset(name, kind, on_progress, run=run)


def score(
    models: Sequence[OpenedModel],
    text: ScoredText,
    choice: Choice,
    *,
    windows: int | None = None,
    on_progress: OnProgress = silent,
) -> tuple[MeasuredText, list[Measured]]:
    """Measure each model on the text, in windows as long as the shortest context of them. `windows` None: in all.

    A KeyboardInterrupt ends it: the model at work is the last one, with the windows that were done.
    """
    shortest = min(model.config.block_size for model in models)
    tokens = [text.tokens_for(model) for model in models]  # before the first is measured: it may not be possible
    for _, split in tokens:
        check_length(split, text.split or "only", shortest)
    found: list[Measured] = []
    for model, (key, split) in zip(models, tokens, strict=True):
        found.append(_measure(model, key, split, text, shortest, choice, windows, on_progress))
        if len(found[-1].losses) < found[-1].wanted:
            break
    contexts = tuple(model.config.block_size for model in models)
    return MeasuredText(text.name, text.split or "", shortest, contexts), found


@torch.no_grad()
def _measure(
    model: OpenedModel,
    key: str,
    split: TokenSplit,
    text: ScoredText,
    block_size: int,
    choice: Choice,
    windows: int | None,
    on_progress: OnProgress,
) -> Measured:
    evaluator = Evaluator(
        {"text": split},
        block_size=block_size,
        windows=windows,
        vocab_size=model.config.vocab_size,
        device=torch.device(choice.device),
        autocast=lambda: autocast(choice),
        processes=Processes(),
    )
    starts = evaluator.starts["text"]
    losses: list[float] = []
    try:
        for batch in evaluator.window_losses(model.build(choice.device).eval(), "text"):
            losses += batch.tolist()
            on_progress(model.name, len(losses) / len(starts))
    except KeyboardInterrupt:
        pass  # what was done is worth something
    tokenizer = model.tokenizer or (text.dataset.tokenizer if text.dataset else None)
    measured_bytes, characters = _lengths(split, starts[: len(losses)], block_size, tokenizer)
    return Measured(
        name=model.name,
        path=str(model.folder),
        step=model.step,
        tokens=key,
        available=(len(split) - 1) // block_size,
        wanted=len(starts),
        losses=losses,
        bytes=measured_bytes,
        characters=characters,
    )


def _lengths(
    split: TokenSplit, starts: np.ndarray, block_size: int, tokenizer: Tokenizer | None
) -> tuple[list[int], list[int]]:
    """How many bytes and characters the predicted tokens of each window stand for."""
    if tokenizer is None:
        return [], []
    each = [b"" if i == tokenizer.end_of_text else tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
    # Ids beyond the tokenizer's are padding, which stands for nothing.
    sizes = np.zeros((2, tokenizer.vocab_size + 1), np.int64)
    sizes[0, :-1] = [len(token) for token in each]
    sizes[1, :-1] = [sum(byte & 0xC0 != 0x80 for byte in token) for token in each]  # first bytes of characters
    ids = (np.minimum(split.read(int(start) + 1, block_size), tokenizer.vocab_size) for start in starts)
    totals = [sizes[:, window].sum(axis=1) for window in ids]
    return [int(total[0]) for total in totals], [int(total[1]) for total in totals]
