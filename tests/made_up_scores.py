"""Models made up to be compared on a text: each example is ranked as `eval` does."""

import random

from nanoscope.findings.scores import Scores, rank
from nanoscope.runs.scores import Measured, MeasuredText

BLOCK = 64


def measured(
    name: str = "a", level: float = 1.5, *, count: int = 200, noise: float = 0.0, tokens: str = "dataset",
    bytes_per_window: int = BLOCK, wanted: int | None = None, available: int | None = None, seed: int = 1,
) -> Measured:  # fmt: skip
    """A model whose loss follows the difficulty of the text, which is the same for all, plus noise of its own."""
    text, own = random.Random(0), random.Random(seed)
    losses = [level + text.gauss(0, 0.2) + own.gauss(0, noise) for _ in range(count)]
    sizes = [bytes_per_window] * count if bytes_per_window else []
    return Measured(
        name, f"runs/{name}", 10, tokens, available or wanted or count, wanted or count, losses, sizes, sizes
    )


def text(split: str = "val", contexts: tuple[int, ...] = (BLOCK,)) -> MeasuredText:
    return MeasuredText("data/song", split, BLOCK, contexts)


EXAMPLES: dict[str, Scores] = {
    "one": rank(text(), [measured()]),
    "one window": rank(text("train"), [measured(count=1)]),
    "two windows of a file": rank(text(""), [measured(count=2, available=9)]),
    "a window of many": rank(text(), [measured(count=1, available=9)]),
    "another differs": rank(text(contexts=(64, 128)), [measured(), measured("b", 1.6, noise=0.05)]),
    "close": rank(text(), [measured(), measured("b", 1.511, noise=0.045, seed=5)]),
    "noise": rank(text(), [measured(), measured("b", 1.5001, noise=0.2, seed=3)]),
    "other tokens": rank(text(), [measured(), measured("b", 3.0, tokens="bpe", bytes_per_window=150)]),
    "unknown tokens": rank(text(), [measured(), measured("b", 3.0, tokens="bpe", bytes_per_window=0)]),
    "interrupted": rank(text(), [measured(), measured("b", count=20, wanted=200)]),
    "interrupted at once": rank(text(), [measured(), measured("b", count=1, wanted=200)]),
}
