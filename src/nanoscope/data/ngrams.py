"""The ladder of a dataset: what n-gram models reach on it, measured once and kept beside the tokens.

The models use interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999), all orders in one pass.

The probability of a token after a context is the discounted share of its count there, plus the mass that the discounts
freed times the probability after the context without its first token, down to the uniform distribution. The longest
n-grams of a model are counted as they occur, shorter ones by how many different tokens precede them: those counts are
the same for every model, so the model of order n + 1 needs one level more than that of order n.

The n-grams of a length are numbered in their order: by number of the context, then by token. Nothing is random, and it
is one process: the result is always the same.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np

from nanoscope.data.dataset import Dataset, TokenSplit
from nanoscope.data.download import OnProgress
from nanoscope.data.tokenizer import TokenArray
from nanoscope.errors import JobError
from nanoscope.files import read_small, write_atomically
from nanoscope.ladder import Ladder, Unit
from nanoscope.messages import Message

FILE = "ladder.json"
VERSION = 1
MOST_KNOWN = 8  # tokens
# Of larger splits, stretches from all over are read, so that it takes a few seconds and half a GB, whatever the data.
TRAIN_TOKENS, VAL_TOKENS = 1 << 21, 1 << 18
STRETCHES = 64
UNITS: dict[str | None, Unit] = {"char": "character", "byte": "byte"}

Ids = np.ndarray  # int64; -1 where there is no n-gram
NO_ESTIMATE = (0.5, 1.0, 1.5)  # discounts where too few n-grams are rare, as for single characters of a long text


class StoredLadder(msgspec.Struct):
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
        write_atomically(dataset.folder / FILE, msgspec.json.encode(StoredLadder(VERSION, dataset.fingerprint, ladder)))
    return ladder


def measure(dataset: Dataset, on_progress: OnProgress | None = None) -> Ladder:
    """What guessing and the models that know the last 0 to 8 tokens reach on the validation split."""
    train, val = _sample(dataset.splits["train"], TRAIN_TOKENS), _sample(dataset.splits["val"], VAL_TOKENS)
    targets = _preceding(val) > 0  # the first token of a stretch has no context
    stretch_of = np.repeat(np.arange(len(val)), [len(stretch) - 1 for stretch in val])
    losses, stderr = [], 0.0
    for known, p in enumerate(probabilities(train, val, dataset.vocab_size, MOST_KNOWN + 1)):
        nats = -np.log(p[targets])
        losses.append(round(float(nats.mean()), 6))
        if len(val) > 1:
            means = np.bincount(stretch_of, nats) / np.bincount(stretch_of)
            stderr = max(stderr, float(means.std(ddof=1)) / math.sqrt(len(val)))
        if on_progress:
            on_progress(Message("measuring n-gram models"), (known + 1) / (MOST_KNOWN + 1))
    kind = dataset.tokenizer.kind if dataset.tokenizer else None
    return Ladder(
        unit=UNITS.get(kind, "token"),
        guessing=round(math.log(dataset.vocab_size), 6),
        losses=losses,
        train_tokens=sum(map(len, train)),
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
        stored = msgspec.json.decode(read_small(dataset.folder / FILE), type=StoredLadder)
        if (stored.version, stored.fingerprint) == (VERSION, dataset.fingerprint):
            return stored.ladder
    return None


def probabilities(
    train: Sequence[TokenArray], val: Sequence[TokenArray], vocab_size: int, orders: int
) -> Iterator[np.ndarray]:
    """Yield p of every token of `val` under the models of order 1, 2, …, trained on `train`.

    Both are stretches of text: no n-gram reaches over the beginning of one, where contexts are shorter.
    """
    text, preceding = _joined(val), _preceding(val)
    contexts, lower = np.zeros(len(text), np.int64), np.full(len(text), 1 / vocab_size)
    model, shorter_contexts, places = lower, contexts, contexts
    shorter: _Level | None = None
    for order, level in enumerate(_levels(train, vocab_size, orders), start=1):
        if shorter is not None:
            preceded = np.bincount(level.suffixes, minlength=len(shorter.counts))
            lower = shorter.probability(preceded, shorter_contexts, places, lower)
        places = level.find(contexts, text, vocab_size)
        longest = level.probability(level.counts, contexts, places, lower)
        model = np.where(preceding >= order - 1, longest, model)
        yield model
        shorter, shorter_contexts = level, contexts
        contexts = np.where(preceding > 0, np.roll(places, 1), -1)


@dataclass(frozen=True)
class _Level:
    """The n-grams of one length, in the order of their ids."""

    contexts: Ids
    """The id of each without its last token, one level below."""
    tokens: np.ndarray
    """The last token of each."""
    suffixes: Ids
    """The id of each without its first token, one level below."""
    counts: np.ndarray

    def find(self, contexts: Ids, tokens: np.ndarray, vocab_size: int) -> Ids:
        """The ids of these n-grams, -1 for those that are not here."""
        keys = contexts * vocab_size + tokens
        known = self.contexts * vocab_size + self.tokens
        known = np.append(known, np.iinfo(np.int64).max)  # so that larger keys have a place
        places = np.searchsorted(known, keys)
        return np.where((contexts >= 0) & (known[places] == keys), places, -1)

    def probability(self, counts: np.ndarray, contexts: Ids, places: Ids, lower: np.ndarray) -> np.ndarray:
        """p of tokens after their contexts, by these counts; `lower` where a context was never seen.

        `places`: the ids of contexts with tokens.
        """
        taken = np.array([0.0, *discounts(counts)])[np.minimum(counts, 3)]
        totals, freed, left = np.bincount(self.contexts, counts), np.bincount(self.contexts, taken), counts - taken
        known = np.flatnonzero((contexts >= 0) & (contexts < len(totals)))
        known = known[totals[contexts[known]] > 0]
        context, place = contexts[known], places[known]
        own = np.where(place >= 0, left[place], 0.0)
        p = lower.copy()
        p[known] = (own + freed[context] * lower[known]) / totals[context]
        return p


def _levels(stretches: Sequence[TokenArray], vocab_size: int, orders: int) -> Iterator[_Level]:
    """The n-grams of length 1, 2, … of a text.

    One sort serves all: where its positions are sorted by the tokens that follow, those that begin with the same
    n-gram stand together, and in the order of the n-grams.
    """
    text = _joined(stretches)
    # How many tokens there are from each position to the end of its stretch.
    left = np.concatenate([np.arange(len(stretch), 0, -1, dtype=np.int32) for stretch in stretches])

    def following(distance: int) -> np.ndarray:
        """The token at this distance after each position, plus one; 0 where the stretch has ended."""
        found = np.zeros(len(text), np.int64)
        found[: max(len(text) - distance, 0)] = text[distance:] + 1
        found[left <= distance] = 0
        return found

    positions = _sorted_by(map(following, range(orders)), vocab_size + 1)
    first = np.zeros(len(text), bool)  # of those that begin with the same n-gram
    first[:1] = True
    ids = np.zeros(len(text) + 1, np.int64)  # of the n-gram that begins at each position; there is one of length 0
    for length in range(1, orders + 1):
        last = following(length - 1)[positions]
        first[1:] |= last[1:] != last[:-1]
        whole = last > 0
        number = np.cumsum(first & whole) - 1
        begin = positions[first & whole]
        contexts, suffixes = ids[begin], ids[begin + 1]
        ids = np.full(len(text) + 1, -1)
        ids[positions[whole]] = number[whole]
        yield _Level(contexts, text[begin + length - 1], suffixes, np.bincount(number[whole], minlength=len(begin)))


def _sorted_by(columns: Iterable[np.ndarray], base: int) -> np.ndarray:
    """The positions sorted by the first column, then by the second, …; their numbers are below `base`."""
    packed: list[np.ndarray] = []  # as many columns in one number as it can hold
    room = 0
    for column in columns:
        if room < base:
            packed.append(column)
            room = 2**63 // base
        else:
            packed[-1] = packed[-1] * base + column
            room //= base
    return np.lexsort(packed[::-1])


def discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """What is taken from counts of 1, 2, and 3 or more, estimated from how many n-grams have counts of 1 to 4."""
    n1, n2, n3, n4 = (int(n) for n in np.bincount(np.minimum(counts, 5), minlength=6)[1:5])
    if not (n1 and n2 and n3):
        return NO_ESTIMATE
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return found if min(found) > 0 else NO_ESTIMATE


def _joined(stretches: Sequence[TokenArray]) -> Ids:
    return np.concatenate(stretches).astype(np.int64)


def _preceding(stretches: Sequence[TokenArray]) -> np.ndarray:
    """How many tokens of its own stretch precede each token."""
    return np.concatenate([np.arange(len(stretch), dtype=np.int32) for stretch in stretches])
