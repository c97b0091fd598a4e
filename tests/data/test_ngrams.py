"""The n-gram models are proper distributions, and agree with the textbook's definition written with dictionaries."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoscope.data import ngrams
from nanoscope.data.ngrams import NO_ESTIMATE, discounts, probabilities

VOCABULARY = 5
# Token 4 never occurs in training.
stretches = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=60), min_size=1, max_size=3)
texts = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def arrays(texts: list[list[int]]) -> list[np.ndarray]:
    return [np.array(text, np.uint16) for text in texts]


class Reference:
    """Interpolated modified Kneser–Ney as Chen and Goodman define it, one probability at a time."""

    def __init__(self, train: list[list[int]], order: int, vocab_size: int) -> None:
        self.order, self.vocab_size = order, vocab_size
        self.counts: dict[int, Counter[tuple[int, ...]]] = {}
        for n in range(1, order + 1):
            grams = [tuple(text[i : i + n]) for text in train for i in range(len(text) - n + 1)]
            self.counts[n] = Counter(grams)
        longest = self.counts[order]
        for n in range(1, order):
            before: dict[tuple[int, ...], set[int]] = defaultdict(set)
            for gram in self.grams(train, n + 1):
                before[gram[1:]].add(gram[0])
            self.counts[n] = Counter({gram: len(tokens) for gram, tokens in before.items()})
        self.counts[order] = longest
        self.discounts = {n: self.estimate(counts) for n, counts in self.counts.items()}

    @staticmethod
    def grams(train: list[list[int]], n: int) -> set[tuple[int, ...]]:
        return {tuple(text[i : i + n]) for text in train for i in range(len(text) - n + 1)}

    @staticmethod
    def estimate(counts: Counter[tuple[int, ...]]) -> tuple[float, ...]:
        n1, n2, n3, n4 = (sum(count == wanted for count in counts.values()) for wanted in (1, 2, 3, 4))
        if 0 in (n1, n2, n3):
            return NO_ESTIMATE
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        return found if min(found) > 0 else NO_ESTIMATE

    def p(self, token: int, context: tuple[int, ...]) -> float:
        if len(context) >= self.order:
            context = context[len(context) - self.order + 1 :]
        n = len(context) + 1
        lower = 1 / self.vocab_size if n == 1 else self.p(token, context[1:])
        after = {gram: count for gram, count in self.counts[n].items() if gram[:-1] == context}
        if not after:
            return lower
        taken = {gram: self.discounts[n][min(count, 3) - 1] for gram, count in after.items()}
        own = after.get((*context, token), 0) - taken.get((*context, token), 0.0)
        return (own + sum(taken.values()) * lower) / sum(after.values())


@given(stretches, texts, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_every_probability_is_that_of_the_textbook(train: list[list[int]], val: list[int], order: int) -> None:
    for n, found in enumerate(probabilities(arrays(train), arrays([val]), VOCABULARY, order), start=1):
        models = {k: Reference(train, k, VOCABULARY) for k in range(1, n + 1)}
        # The first tokens have shorter contexts: the model of that length is asked.
        wanted = [models[min(i + 1, n)].p(token, tuple(val[:i])) for i, token in enumerate(val)]
        assert found == pytest.approx(wanted, abs=1e-9)


@given(stretches, texts, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_the_probabilities_of_all_tokens_add_up_to_one(train: list[list[int]], context: list[int], orders: int) -> None:
    nexts = arrays([[*context, token] for token in range(VOCABULARY)])
    last = np.cumsum([len(text) for text in nexts]) - 1
    for found in probabilities(arrays(train), nexts, VOCABULARY, orders):
        assert found[last].min() > 0
        assert found[last].sum() == pytest.approx(1, abs=1e-12)


def test_no_context_reaches_over_the_beginning_of_a_stretch() -> None:
    train = arrays([[0, 1, 2, 0, 1, 2, 3, 3]])
    together = list(probabilities(train, arrays([[0, 1], [2, 0, 1]]), VOCABULARY, 4))
    apart = [list(probabilities(train, arrays([text]), VOCABULARY, 4)) for text in ([0, 1], [2, 0, 1])]
    for order, found in enumerate(together):
        assert found.tolist() == [*apart[0][order], *apart[1][order]]


def test_discounts_follow_the_counts_of_counts() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [40, 20, 12, 8, 5])
    y = 40 / 80
    assert discounts(counts) == pytest.approx((1 - 2 * y * 20 / 40, 2 - 3 * y * 12 / 20, 3 - 4 * y * 8 / 12))


@pytest.mark.parametrize("counts", [[100, 200, 300], [1, 1, 2], [1, 2, 3, 3, 3, 3, 4, 4, 4, 4]])
def test_where_rare_ngrams_are_too_few_the_discounts_are_fixed(counts: list[int]) -> None:
    assert discounts(np.array(counts)) == NO_ESTIMATE


def test_with_one_discount_nltk_finds_the_same_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK's has one discount for all counts, and none for single tokens, which changes nothing if all occur."""
    lm = pytest.importorskip("nltk.lm")
    discount, order = 0.4, 3
    monkeypatch.setattr(ngrams, "discounts", lambda counts: (discount,) * 3)
    chooser = np.random.default_rng(3)
    train, val = chooser.integers(0, 6, 4000), chooser.integers(0, 6, 300)
    grams = [tuple(map(str, train[i : i + n])) for n in range(1, order + 1) for i in range(len(train) - n + 1)]
    model = lm.KneserNeyInterpolated(order, discount)
    model.fit([grams], vocabulary_text=list("012345"))
    *_, found = probabilities([train], [val], 6, order)
    wanted = [model.score(str(val[i]), [str(val[i - 2]), str(val[i - 1])]) for i in range(2, len(val))]
    assert found[2:] == pytest.approx(np.array(wanted), abs=1e-12)
