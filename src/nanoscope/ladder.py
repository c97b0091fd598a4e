"""The ladder: what simple models reach on a validation text, and where a loss stands among them.

The rungs are guessing, knowing only how frequent each token is, and n-gram models that know the last 1 to 8 tokens
(`data/ngrams.py` measures them).
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nanoscope.messages import Message

Unit = Literal["character", "byte", "token"]
MOST_LOSSES = 32
LARGEST = 1e18  # no loss and no number of tokens is larger
ERRORS = 2  # standard errors within which a loss stands on a rung


@dataclass(frozen=True)
class Rung:
    loss: float
    known: int | None
    """How many of the last tokens the model knows; 0: only how frequent each token is, None: nothing."""


@dataclass(frozen=True)
class Ladder:
    """Losses in nats per token."""

    unit: Unit
    """What a token is."""
    guessing: float
    """The logarithm of the vocabulary's size."""
    losses: list[float]
    """The losses of models that know the last 0, 1, 2, … tokens."""
    train_tokens: int
    """Tokens that the models were counted on."""
    val_tokens: int
    """Tokens that they were measured on."""
    sampled: bool = False
    """Whether the training tokens are a sample of a larger split."""
    stderr: float = 0.0
    """The largest standard error of `losses`; 0 unless the validation tokens are a sample."""

    def __post_init__(self) -> None:
        numbers = (self.guessing, *self.losses, self.train_tokens, self.val_tokens, self.stderr)
        if len(self.losses) > MOST_LOSSES or not all(0 <= number < LARGEST for number in numbers):
            raise ValueError("no ladder")  # of an event that anyone may have written

    def rungs(self) -> list[Rung]:
        """From guessing down, without models that know more and are no better for it."""
        found = [Rung(self.guessing, None)]
        for known, loss in enumerate(self.losses):
            if loss < found[-1].loss:
                found.append(Rung(loss, known))
        return found


@dataclass(frozen=True)
class Place:
    """Where a loss stands: on a rung, between two, below all (`worse` is None) or above all (`better` is None)."""

    unit: Unit
    on: Rung | None = None
    better: Rung | None = None
    """The last rung that the loss has passed."""
    worse: Rung | None = None
    """The first that it has not."""


def place_of(loss: float, stderr: float | None, ladder: Ladder) -> Place:
    """Place a validation loss that was measured on the ladder's own text."""
    rungs = ladder.rungs()
    nearest = min(rungs, key=lambda rung: abs(rung.loss - loss))
    if abs(nearest.loss - loss) <= ERRORS * math.hypot(
        stderr or 0.0, ladder.stderr if nearest.known is not None else 0.0
    ):
        return Place(ladder.unit, on=nearest)
    if loss > rungs[0].loss:
        return Place(ladder.unit, worse=rungs[0])
    between = ((above, below) for above, below in pairwise(rungs) if above.loss > loss >= below.loss)
    better, worse = next(between, (rungs[-1], None))
    return Place(ladder.unit, better=better, worse=worse)


def knowledge(known: int, unit: Unit) -> Message:
    """What a model of a rung knows, in words."""
    if unit == "character":
        if not known:
            return Message("how frequent each character is")
        return Message("the last character", "the last {n} characters", n=known)
    if unit == "byte":
        return (
            Message("the last byte", "the last {n} bytes", n=known) if known else Message("how frequent each byte is")
        )
    return Message("the last token", "the last {n} tokens", n=known) if known else Message("how frequent each token is")


def in_words(place: Place) -> Message:
    """'better than knowing the last 2 characters (2.04), worse than knowing the last 3 characters (1.72)'."""

    def model(rung: Rung) -> Message:
        if rung.known is None:
            return Message("guessing ({loss:.2f})", loss=rung.loss)
        return Message("knowing {what} ({loss:.2f})", what=knowledge(rung.known, place.unit), loss=rung.loss)

    if place.on is not None:
        return Message("about as good as {model}", model=model(place.on))
    if place.better is not None and place.worse is not None:
        return Message("better than {better}, worse than {worse}", better=model(place.better), worse=model(place.worse))
    if place.worse is not None:
        return Message("worse than {model}", model=model(place.worse))
    best = place.better or Rung(math.nan, 0)
    what = knowledge(best.known or 0, place.unit)
    return Message("better than any n-gram model; the best knows {what} ({loss:.2f})", what=what, loss=best.loss)
