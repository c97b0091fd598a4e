"""N-gram models by interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999), all orders in one pass.

The probability of a token after a context is the discounted share of its count there, plus the mass that the discounts
freed times the probability after the context without its first token, down to the uniform distribution. The longest
n-grams of a model are counted as they occur, shorter ones by how many different tokens precede them: those counts are
the same for every model, so the model of order n + 1 needs one level more than that of order n.

N-grams are numbered level by level: number of the context × size of the vocabulary + token, sorted. Nothing is random,
and it is one process: the result is always the same.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from nanoscope.data.tokenizer import TokenArray

Ids = np.ndarray  # int64; -1 where there is no n-gram
NO_ESTIMATE = (0.5, 1.0, 1.5)  # discounts where too few n-grams are rare, as for single characters of a long text


def probabilities(
    train: Sequence[TokenArray], val: Sequence[TokenArray], vocab_size: int, orders: int
) -> Iterator[np.ndarray]:
    """Yield p of every token of `val` under the models of order 1, 2, …, trained on `train`.

    Both are stretches of text: no n-gram reaches over the beginning of one, where contexts are shorter.
    """
    text, begins = _joined(train)
    val_text, val_begins = _joined(val)
    contexts, val_contexts = np.zeros(len(text), np.int64), np.zeros(len(val_text), np.int64)
    lower = np.full(len(val_text), 1 / vocab_size)
    model = lower
    shorter: tuple[np.ndarray, Ids, Ids] | None = None  # the keys one level below, their ids in the text, contexts
    for order in range(1, orders + 1):
        inside = np.flatnonzero(contexts >= 0)
        keys, of_key, counts = np.unique(
            contexts[inside] * vocab_size + text[inside], return_inverse=True, return_counts=True
        )
        if shorter is not None:
            shorter_keys, shorter_ids, shorter_contexts = shorter
            suffixes = np.empty(len(keys), np.int64)
            suffixes[of_key] = shorter_ids[inside]
            preceded = np.bincount(suffixes, minlength=len(shorter_keys))
            lower = _Level(shorter_keys, preceded, vocab_size).probability(shorter_contexts, val_text, lower)
        level = _Level(keys, counts, vocab_size)
        longest = level.probability(val_contexts, val_text, lower)
        model = np.where(_at_least(order - 1, val_begins, len(val_text)), longest, model)
        yield model
        ids = np.full(len(text), -1)
        ids[inside] = of_key
        shorter = keys, ids, val_contexts
        contexts, val_contexts = _before(ids, begins), _before(level.find(val_contexts, val_text), val_begins)


class _Level:
    """The n-grams of one length, by sorted key, with counts."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray, vocab_size: int) -> None:
        self._keys, self._vocab_size = (
            np.append(keys, np.iinfo(np.int64).max),
            vocab_size,
        )  # a place for all that is larger
        taken = np.array([0.0, *discounts(counts)])[np.minimum(counts, 3)]
        self._left = counts - taken
        context = keys // vocab_size
        self._totals = np.bincount(context, counts)
        self._freed = np.bincount(context, taken)

    def find(self, contexts: Ids, tokens: Ids) -> Ids:
        """The ids of these n-grams, -1 for those that are not here."""
        keys = contexts * self._vocab_size + tokens
        places = np.searchsorted(self._keys, keys)
        return np.where((contexts >= 0) & (self._keys[places] == keys), places, -1)

    def probability(self, contexts: Ids, tokens: Ids, lower: np.ndarray) -> np.ndarray:
        """p of the tokens after their contexts; `lower` where a context was never seen."""
        known = np.flatnonzero((contexts >= 0) & (contexts < len(self._totals)))
        known = known[self._totals[contexts[known]] > 0]
        context, places = contexts[known], self.find(contexts[known], tokens[known])
        own = np.where(places >= 0, self._left[places], 0.0)
        p = lower.copy()
        p[known] = (own + self._freed[context] * lower[known]) / self._totals[context]
        return p


def discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """What is taken from counts of 1, 2, and 3 or more, estimated from how many n-grams have counts of 1 to 4."""
    n1, n2, n3, n4 = (int(n) for n in np.bincount(np.minimum(counts, 5), minlength=6)[1:5])
    if not (n1 and n2 and n3):
        return NO_ESTIMATE
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return found if min(found) > 0 else NO_ESTIMATE


def _joined(stretches: Sequence[TokenArray]) -> tuple[Ids, np.ndarray]:
    """The stretches as one array, and where each begins."""
    ends = np.cumsum([len(stretch) for stretch in stretches])
    return np.concatenate(stretches).astype(np.int64), np.concatenate(([0], ends[:-1]))


def _before(ids: Ids, begins: np.ndarray) -> Ids:
    """The id that stands before each position, -1 at the beginnings."""
    before = np.roll(ids, 1)
    before[begins] = -1
    return before


def _at_least(distance: int, begins: np.ndarray, length: int) -> np.ndarray:
    """Whether a position is at least so far from the beginning of its stretch."""
    far = np.ones(length, bool)
    lengths = np.diff(np.append(begins, length))
    for step in range(distance):
        far[begins[lengths > step] + step] = False
    return far
