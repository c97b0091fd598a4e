"""How well models predict a text: the work of `nanoscope eval`. Nothing is written into a run."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import Dataset, Split, TokenSplit, open_dataset
from nanoscope.data.download import OnProgress
from nanoscope.data.find import find_dataset
from nanoscope.data.sources import Documents
from nanoscope.data.tokenizer import TokenArray, Tokenizer
from nanoscope.errors import JobError, UsageError
from nanoscope.hardware.device import DeviceConfig
from nanoscope.interop.models import OpenedModel
from nanoscope.messages import Message, joined
from nanoscope.runs.scores import Measured, MeasuredText
from nanoscope.training.distributed import Processes
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.initial_model import check_vocabulary
from nanoscope.training.machine import Machine


@dataclass
class ScoredText:
    """A split of a dataset, or a text file, which is encoded for each tokenizer."""

    name: str
    split: Split | None = None
    dataset: Dataset | None = None
    _encoded: dict[str, TokenSplit] = field(default_factory=dict)

    def tokens_for(self, model: OpenedModel) -> tuple[str, TokenSplit]:
        """A key that identifies the tokenizer, and the text in its tokens."""
        key = _key(model.tokenizer)
        if self.dataset is not None and self.split is not None:
            own = _key(self.dataset.tokenizer)
            if not key or not own:
                check_vocabulary(self.dataset, model.config.vocab_size, model.name)
            elif key != own:
                raise JobError(
                    "{model} and {data} have different tokenizers\nName a text file: --dataset=FILE",
                    model=model.name,
                    data=self.name,
                )
            return "dataset", self.dataset.splits[self.split]
        tokenizer = model.known_tokenizer()
        if key not in self._encoded:
            ids = np.concatenate([self._encode(document, tokenizer, model) for document in self._documents()])
            self._encoded[key] = TokenSplit({self.name: ids}, tokenizer.vocab_size)
        return key, self._encoded[key]

    def _documents(self) -> Iterator[str]:
        parts: list[str] = []
        for piece in Documents([self.name]).pieces():
            parts.append(piece.text)
            if piece.ends_document:
                yield "".join(parts)
                parts = []

    def _encode(self, document: str, tokenizer: Tokenizer, model: OpenedModel) -> TokenArray:
        if unknown := tokenizer.unknown(document):
            raise JobError(
                "{model} can't be evaluated on {text}: its vocabulary lacks {characters}\n"
                "Choose another text with --dataset",
                model=model.name,
                text=self.name,
                characters=" ".join(map(repr, unknown[:8])),
            )
        ids = tokenizer.encode(document)
        return ids if tokenizer.end_of_text is None else np.append(ids, ids.dtype.type(tokenizer.end_of_text))


def _key(tokenizer: Tokenizer | None) -> str:
    """Equal for equal tokenizers; "" if the tokenizer is unknown."""
    return json.dumps(tokenizer.to_json()) if tokenizer is not None else ""


def open_text(models: Sequence[OpenedModel], name: str, split: Split, on_progress: OnProgress) -> ScoredText:
    """The text that `name` means: a dataset or a file. "": the data that the models were trained on."""
    if name and Path(name).is_file():
        return ScoredText(name)
    trained: dict[Path, Message] = {}
    with redirect_stdout(sys.stderr):  # standard output is for the result
        for model in models[:1] if name else models:
            if not (wanted := name or model.dataset):
                raise UsageError(
                    "{model} does not say what it was trained on: choose a text with --dataset", model=model.name
                )
            kind = model.tokenizer.kind if model.tokenizer is not None and wanted in CORPORA else "auto"
            folder = find_dataset(wanted, kind, on_progress, run=None if name else model.run)
            trained[folder.resolve()] = Message("{model} on {data}", model=model.name, data=model.dataset)
    if len(trained) > 1:
        raise UsageError(
            "the models were trained on different data: {trained}\nChoose a text with --dataset",
            trained=joined(", ", trained.values()),
        )
    return ScoredText(str(folder), split, open_dataset(folder))


@torch.no_grad()
def score(
    models: Sequence[OpenedModel], text: ScoredText, choice: DeviceConfig, windows: int | None, on_progress: OnProgress
) -> tuple[MeasuredText, list[Measured]]:
    """Measure each model on the text, in windows as long as the shortest context of them. `windows` None: in all.

    A KeyboardInterrupt ends it: the model at work is the last one, with the windows that were done.
    """
    contexts = tuple(model.config.block_size for model in models)
    name, block_size = text.split or "only", min(contexts)
    tokens = [text.tokens_for(model) for model in models]
    evaluators = [
        Evaluator(
            {name: split},
            block_size=block_size,
            windows=windows,
            vocab_size=model.config.vocab_size,
            machine=Machine(choice, Processes()),
        )
        for model, (_, split) in zip(models, tokens, strict=True)
    ]  # all, before the first model is measured: it may not be possible
    found: list[Measured] = []
    for model, (key, split), evaluator in zip(models, tokens, evaluators, strict=True):
        starts, losses = evaluator.starts[name], list[float]()
        with suppress(KeyboardInterrupt):  # what was done is worth something
            for batch in evaluator.window_losses(model.build(choice.device).eval(), name):
                losses += batch.tolist()
                on_progress(model.name, len(losses) / len(starts))
        tokenizer = model.tokenizer or (text.dataset.tokenizer if text.dataset else None)
        lengths = _lengths(split, starts[: len(losses)], block_size, tokenizer) if tokenizer else [[], []]
        measured = Measured(
            name=model.name,
            path=str(model.folder),
            step=model.step,
            tokens=key,
            available=(len(split) - 1) // block_size,
            wanted=len(starts),
            losses=losses,
            bytes=lengths[0],
            characters=lengths[1],
        )
        found.append(measured)
        if len(losses) < len(starts):
            break
    return MeasuredText(text.name, text.split or "", block_size, contexts), found


def _lengths(split: TokenSplit, starts: np.ndarray, block_size: int, tokenizer: Tokenizer) -> list[list[int]]:
    """How many bytes, and how many characters, the predicted tokens of each window stand for."""
    each = [b"" if i == tokenizer.end_of_text else tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
    each.append(b"")  # ids beyond the tokenizer's are padding, which stands for nothing
    sizes = np.array([(len(token), sum(byte & 0xC0 != 0x80 for byte in token)) for token in each])
    windows = (np.minimum(split.read(int(start) + 1, block_size), tokenizer.vocab_size) for start in starts)
    return np.array([sizes[window].sum(0) for window in windows]).reshape(-1, 2).T.tolist()
