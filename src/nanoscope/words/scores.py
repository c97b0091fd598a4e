"""Models measured on the same text: what `nanoscope eval` says about them."""

from nanoscope.analysis import scores as s
from nanoscope.words.compare import WithError
from nanoscope.words.language import Language
from nanoscope.words.templates import By, First, Plural, Say, Sentences, Verbatim, has

SPLITS = By("split", train=Say("training split"), val=Say("validation split"))
PLACE = First(Say("{text}, {split}", has("split"), split=SPLITS), Verbatim("{text}"))
SCOPE = First(
    Plural(
        "{place}: its only window of {block_size} tokens.",
        "{place}: all {n} windows of {block_size} tokens.",
        "windows", lambda scores: scores.windows == scores.available, place=PLACE,
    ),
    Plural(
        "{place}: {n} window of {block_size} tokens out of {available}.",
        "{place}: {n} windows of {block_size} tokens out of {available}, spread evenly over the text.",
        "windows", place=PLACE,
    ),
)  # fmt: skip
NOTES = Sentences(
    Say("The models have different context lengths; all read windows of {block_size} tokens, the shortest of them.",
        lambda scores: not scores.own_contexts),
    Say("The tokenizers differ, so neither losses per token nor single windows can be compared, only bits per byte of "
        "the same text.", lambda scores: not scores.same_tokens and scores.ranked),
    Say("The tokenizers differ and one of them is unknown, so the models can't be ranked.",
        lambda scores: not scores.ranked),
    Say("± is one standard error, from how much the stretches of the text differ.",
        lambda scores: scores.scores[0].error is not None),
)  # fmt: skip
UNFINISHED = Plural(
    "Interrupted: {name} was measured in the first window only.",
    "Interrupted: {name} was measured in the first {n} windows only.",
    "windows",
)

SIZE = WithError("difference", "error")
AMOUNT = By(
    "unit",
    loss=Say("the loss of {model} is {size} higher than that of {better} in the same windows", size=SIZE),
    bits_per_byte=Say("{model} needs {size} more bits per byte than {better}", size=SIZE),
)
DIFFERENCE = By(
    "verdict",
    differs=Say("More than noise: {amount}.", amount=AMOUNT),
    unclear=Say("Perhaps noise: {amount}.", amount=AMOUNT),
    within_noise=Say("Within the noise: {amount}.", amount=AMOUNT),
)


def scope(scores: s.Scores, language: Language) -> str:
    """What the models were measured on."""
    return SCOPE.write(scores, language)


def notes(scores: s.Scores, language: Language) -> str:
    """How the figures are to be read."""
    return NOTES.write(scores, language)


def difference(found: s.ScoreDifference, language: Language) -> str:
    """How much worse a model is than the best one, and whether that is more than noise."""
    return DIFFERENCE.write(found, language)


def unfinished(score: s.Score, language: Language) -> str:
    """How far an interrupted measurement got."""
    return UNFINISHED.write(score, language)
