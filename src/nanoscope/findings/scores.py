"""Models measured on the same text: their loss with its error, who is better, and whether that is more than noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nanoscope.findings.evidence import ROUNDING, Estimate, mean_difference
from nanoscope.findings.numbers import mean, standard_error
from nanoscope.findings.schema import plain
from nanoscope.messages import Message, Said, sentences, verbatim
from nanoscope.runs.scores import Measured, MeasuredText

SCHEMA = "nanoscope.eval/1"
SURE_SIGMAS, DOUBT_SIGMAS = 3.0, 2.0
Unit = Literal["loss", "bits_per_byte"]
Judgement = Literal["differs", "within_noise", "unclear"]
SPLITS = {"train": Message("training split"), "val": Message("validation split")}


@dataclass(frozen=True)
class Score:
    """How well a model predicts the text. The loss is in nats per token."""

    name: str
    path: str
    step: int | None
    windows: int
    tokens: int
    complete: bool
    loss: float | None  # None: not a number
    error: float | None
    perplexity: float | None
    bits_per_character: float | None  # None if the tokenizer is unknown
    bits_per_byte: float | None
    bits_per_byte_error: float | None

    def unfinished(self) -> Said:
        """How far an interrupted measurement got."""
        return Message(
            "Interrupted: {name} was measured in the first window only.",
            "Interrupted: {name} was measured in the first {n} windows only.",
            n=self.windows,
        )


@dataclass(frozen=True)
class ScoreDifference:
    """How much worse one model is than the other, of which one is the best: in loss per token or bits per byte."""

    model: str
    better: str
    unit: Unit
    paired: bool  # window by window, where both have the same
    difference: float
    error: float | None
    verdict: Judgement

    def text(self) -> Said:
        match self.verdict:
            case "differs":
                return Message("More than noise: {amount}.", amount=self._amount())
            case "unclear":
                return Message("Perhaps noise: {amount}.", amount=self._amount())
            case "within_noise":
                return Message("Within the noise: {amount}.", amount=self._amount())

    def _amount(self) -> Message:
        size = verbatim("{size:with_error}", size=(self.difference, self.error))
        if self.unit == "loss":
            return Message("the loss of {model} is {size} higher than that of {better} in the same windows", size=size)
        return Message("{model} needs {size} more bits per byte than {better}", size=size)


@dataclass(frozen=True)
class Scores:
    """Models on the same text, the best first if they can be ranked."""

    text: str
    split: str
    block_size: int
    windows: int
    available: int
    own_contexts: bool  # whether every model has all the context that it can use
    same_tokens: bool
    ranked: bool
    scores: tuple[Score, ...]
    differences: tuple[ScoreDifference, ...]

    @property
    def complete(self) -> bool:
        return all(score.complete for score in self.scores)

    def scope(self) -> Said:
        """What the models were measured on."""
        place = Message("{text}, {split}", split=SPLITS[self.split]) if self.split else verbatim("{text}")
        if self.windows == self.available:
            return Message(
                "{place}: its only window of {block_size:number} tokens.",
                "{place}: all {n} windows of {block_size:number} tokens.",
                n=self.windows,
                place=place,
            )
        return Message(
            "{place}: {n} window of {block_size:number} tokens out of {available:number}.",
            "{place}: {n} windows of {block_size:number} tokens out of {available:number}, spread evenly over the "
            "text.",
            n=self.windows,
            place=place,
        )

    def notes(self) -> Said:
        """How the figures are to be read."""
        return sentences(
            not self.own_contexts
            and Message(
                "The models have different context lengths; all read windows of {block_size:number} tokens, the "
                "shortest of them."
            ),
            self.ranked
            and not self.same_tokens
            and Message(
                "The tokenizers differ, so neither losses per token nor single windows can be compared, only bits per "
                "byte of the same text."
            ),
            not self.ranked
            and Message("The tokenizers differ and one of them is unknown, so the models can't be ranked."),
            self.scores[0].error is not None
            and Message("± is one standard error, from how much the stretches of the text differ."),
        )


def rank(text: MeasuredText, measured: Sequence[Measured]) -> Scores:
    """The scores of some models, and how far each is from the best of them."""
    same_tokens = all(_same_windows(measured[0], other) for other in measured[1:])
    scores = {each.name: _score(each, text.block_size) for each in measured}
    by: Unit = "loss" if same_tokens else "bits_per_byte"
    # A loss that is not a number comes last; without a tokenizer, nothing is known about bits per byte.
    ranked = all(getattr(score, by) is not None or score.loss is None for score in scores.values())
    value = {name: found for name, score in scores.items() if (found := getattr(score, by)) is not None}
    order = list(measured)
    if ranked:  # what was interrupted has seen another part of the text, so it comes last
        order.sort(key=lambda each: (not scores[each.name].complete, value.get(each.name, math.inf)))
    others = [each for each in order[1:] if each.name in value] if ranked else []
    differences = [_difference(order[0], other, scores, by) for other in others]
    return Scores(
        text=text.name, split=text.split, block_size=text.block_size, windows=measured[0].wanted,
        available=measured[0].available, own_contexts=len(set(text.contexts)) == 1, same_tokens=same_tokens,
        ranked=ranked, scores=tuple(scores[each.name] for each in order),
        differences=tuple(found for found in differences if found is not None),
    )  # fmt: skip


def _same_windows(one: Measured, two: Measured) -> bool:
    """Whether two models read the same text in each window: in the same tokens, or in tokens that end alike."""
    common = min(len(one.losses), len(two.losses))
    return one.tokens == two.tokens or (bool(one.bytes) and one.bytes[:common] == two.bytes[:common])


def _score(measured: Measured, block_size: int) -> Score:
    losses = measured.losses
    loss = mean(losses) if losses and all(map(math.isfinite, losses)) else None
    bits = bits_error = None
    size = mean(measured.bytes) if measured.bytes else 0.0
    if loss is not None and size:
        per_loss = block_size / math.log(2) / size
        bits = loss * per_loss
        # The error of a ratio of two sums is that of what each window has too much for its bytes.
        pairs = zip(losses, measured.bytes, strict=True)
        bits_error = standard_error([one * per_loss - bits * own / size for one, own in pairs])
    return Score(
        name=measured.name, path=measured.path, step=measured.step, windows=len(losses),
        tokens=len(losses) * block_size, complete=len(losses) == measured.wanted, loss=loss,
        error=None if loss is None else standard_error(losses),
        perplexity=None if loss is None or loss > 700 else math.exp(loss), bits_per_byte=bits,
        bits_per_character=bits * size / mean(measured.characters) if bits is not None else None,
        bits_per_byte_error=bits_error,
    )  # fmt: skip


def _difference(best: Measured, other: Measured, scores: dict[str, Score], unit: Unit) -> ScoreDifference | None:
    """In the windows that both were measured in; in different tokens, only whole texts can be compared."""
    one, two = scores[other.name], scores[best.name]
    found: tuple[float, float | None] | None
    if unit == "loss":
        common = min(len(other.losses), len(best.losses))
        found = mean_difference(other.losses[:common], best.losses[:common])
    elif one.complete and two.complete and one.bits_per_byte is not None and two.bits_per_byte is not None:
        errors = one.bits_per_byte_error, two.bits_per_byte_error
        error = None if None in errors else math.hypot(*(e for e in errors if e is not None))
        found = one.bits_per_byte - two.bits_per_byte, error
    else:
        found = None
    if found is None:
        return None
    difference, error = found
    verdict: Judgement = "unclear"
    if error is not None:
        sigmas = abs(Estimate(difference, max(error, ROUNDING)).sigmas)
        verdict = "within_noise" if sigmas < DOUBT_SIGMAS else "differs" if sigmas >= SURE_SIGMAS else "unclear"
    worse, better = (other, best) if difference >= 0 else (best, other)
    return ScoreDifference(worse.name, better.name, unit, unit == "loss", abs(difference), error, verdict)


def scores_json(scores: Scores) -> dict[str, Any]:
    """What `eval --json` prints."""
    return {"schema": SCHEMA, **plain(scores), "complete": scores.complete}
