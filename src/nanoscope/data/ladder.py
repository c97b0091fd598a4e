"""Measures the ladder of a dataset once, and keeps it beside the tokens."""

import math
import os
from contextlib import suppress

import msgspec
import numpy as np

from nanoscope.data.dataset import Dataset, TokenSplit
from nanoscope.data.download import OnProgress
from nanoscope.data.ngrams import probabilities
from nanoscope.data.tokenizer import TokenArray
from nanoscope.errors import JobError
from nanoscope.files import read_small, write_atomically
from nanoscope.ladder import Ladder, Unit
from nanoscope.messages import Text

FILE = "ladder.json"
VERSION = 1
MOST_KNOWN = 8  # tokens
# Of larger splits, stretches from all over are read, so that it takes a few seconds and half a GB, whatever the data.
TRAIN_TOKENS, VAL_TOKENS = 1 << 21, 1 << 18
STRETCHES = 64
UNITS: dict[str | None, Unit] = {"char": "character", "byte": "byte"}


class Stored(msgspec.Struct):
    """The content of ladder.json."""

    version: int
    fingerprint: str
    ladder: Ladder


def ladder_of(dataset: Dataset, on_progress: OnProgress | None = None) -> Ladder | None:
    """The ladder of a dataset: stored, or else measured and stored now. None if its folder can't be written to."""
    if (known := stored_ladder(dataset)) is not None:
        return known
    if not os.access(dataset.folder, os.W_OK):
        return None  # it would have to be measured again and again
    ladder = measure(dataset, on_progress)
    with suppress(OSError):  # on a full disk there is none: the next run measures again
        write_atomically(dataset.folder / FILE, msgspec.json.encode(Stored(VERSION, dataset.fingerprint, ladder)))
    return ladder


def measure(dataset: Dataset, on_progress: OnProgress | None = None) -> Ladder:
    """What guessing and the models that know the last 0 to 8 tokens reach on the validation split."""
    train, val = _sample(dataset.split("train"), TRAIN_TOKENS), _sample(dataset.split("val"), VAL_TOKENS)
    train_tokens = sum(map(len, train))
    # A split begins with a token that nothing precedes: no model is asked for it.
    targets = np.ones(sum(map(len, val)), bool)
    targets[np.cumsum([0, *map(len, val[:-1])])] = False
    stretch_of = np.repeat(np.arange(len(val)), [len(stretch) - 1 for stretch in val])
    losses, stderr = [], 0.0
    for known, p in enumerate(probabilities(train, val, dataset.vocab_size, MOST_KNOWN + 1)):
        nats = -np.log(p[targets])
        losses.append(round(float(nats.mean()), 6))
        if len(val) > 1:
            means = np.bincount(stretch_of, nats) / np.bincount(stretch_of)
            stderr = max(stderr, float(means.std(ddof=1)) / math.sqrt(len(val)))
        if on_progress:
            on_progress(Text("measuring n-gram models"), (known + 1) / (MOST_KNOWN + 1))
    kind = dataset.tokenizer.kind if dataset.tokenizer else None
    return Ladder(
        unit=UNITS.get(kind, "token"),
        guessing=round(math.log(dataset.vocab_size), 6),
        losses=losses,
        train_tokens=train_tokens,
        val_tokens=len(targets),
        sampled=len(train) > 1,
        stderr=round(stderr, 6),
    )


def _sample(split: TokenSplit, most: int) -> list[TokenArray]:
    """The whole split, or stretches of equal length from all over it."""
    if len(split) <= most:
        return [split.read(0, len(split))]
    length = most // STRETCHES
    last = len(split) - length
    return [split.read(last * i // (STRETCHES - 1), length) for i in range(STRETCHES)]


def stored_ladder(dataset: Dataset) -> Ladder | None:
    """The stored ladder, unless it is damaged, of another version, or of other data."""
    with suppress(OSError, JobError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        stored = msgspec.json.decode(read_small(dataset.folder / FILE), type=Stored)
        if (stored.version, stored.fingerprint) == (VERSION, dataset.fingerprint):
            return stored.ladder
    return None
