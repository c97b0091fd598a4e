"""The verdicts: how the run is doing, in words that need no training in training."""

from nanoscope.analysis import findings as f
from nanoscope.words.language import Language
from nanoscope.words.templates import By, First, Plural, Say, Sentences, Words, has, known

# fmt: off
TITLES: dict[type[f.Finding], Words] = {
    f.Improving: Say("Still improving"),
    f.Plateau: Say("No longer improving"),
    f.Overfitting: By(
        "severity",
        slight=Say("Slight overfitting"),
        clear=Say("Overfitting"),
        severe=Say("Severe overfitting"),
    ),
    f.Memorising: Say("Memorising"),
    f.Diverged: Say("Diverged"),
    f.NonFinite: First(Say("Not a number, but recovered", has("recovered")), Say("Loss is not a number")),
    f.SlowingDown: Say("Slowing down"),
    f.TooShort: Say("Too short to judge"),
    f.NoTraining: Say("No training in this log"),
    f.WaitingForData: Say("Waiting for data"),
    f.MemoryGrowth: Say("Memory keeps growing"),
}

_STEPS = Plural("{n} step", "{n} steps", "over_steps")
_LAST_GOOD = Say("The last good checkpoint is that of step {last_good_checkpoint:plain}.",
                 known("last_good_checkpoint"))

MESSAGES: dict[type[f.Finding], Words] = {
    f.Improving: By(
        "measure",
        val=Say("The model is learning: validation loss fell by {gain:loss} over the last {steps}.", steps=_STEPS),
        train=Say("The model is learning: training loss fell by {gain:loss} over the last {steps}.", steps=_STEPS),
    ),
    f.Plateau: By(
        "measure",
        val=Say("Validation loss has stayed near {level:loss} since step {since_step:plain}: "
                "going on as before brings nothing more."),
        train=Say("Training loss has stayed near {level:loss} since step {since_step:plain}: "
                  "going on as before brings nothing more."),
    ),
    f.Overfitting: First(
        Say("Validation loss {last_val:loss} lies far above training loss {last_train:loss}: the model knows its "
            "training text by heart. Its best validation loss came earlier, but this log does not show where.",
            lambda verdict: verdict.onset_step is None),
        Sentences(
            Say("Validation loss was best at step {onset_step:plain} ({best_val:loss}) and has since risen to "
                "{last_val:loss}: the model is learning its training text by heart."),
            Say("Training loss went on falling, to {last_train:loss}.", known("last_train")),
            Plural("The {n} step after that ({wasted_share:percent} of the run) did not help on new text.",
                   "The {n} steps after that ({wasted_share:percent} of the run) did not help on new text.",
                   "wasted_steps"),
        ),
    ),
    f.Memorising: Sentences(
        Say("A training loss of {loss:loss} is lower than any unseen text allows: the model repeats what it has read, "
            "and no validation loss is there to show it."),
        Say("It has read its data {passes_over_data:significant2} times over.", known("passes_over_data")),
    ),
    f.Diverged: Sentences(
        Say("At step {step:plain} the loss rose from {best:loss} and stayed up (now {last:loss}): "
            "training has come apart."),
        _LAST_GOOD,
    ),
    f.NonFinite: First(
        Say("The loss was not a number at step {step:plain}, but the run recovered.", has("recovered")),
        Say("The loss has not been a number since the beginning (step {step:plain}): a fault of the set-up "
            "(data, precision, a kernel), not of the learning.", has("from_start")),
        Sentences(
            Say("Since step {step:plain} the loss is not a number: nothing is learnt from there on."),
            Say("The last valid loss was {last_finite_loss:loss}."),
            _LAST_GOOD,
        ),
    ),
    f.TooShort: Plural("The log covers {n} step, in too few lines to say how the model learns.",
                       "The log covers {n} steps, in too few lines to say how the model learns.", "steps"),
    f.NoTraining: First(
        Plural("No training step was found in {n} line.", "No training step was found in {n} lines.",
               "lines", has("lines")),
        Say("It is empty."),
    ),
}
# fmt: on


def verdict_title(verdict: f.Verdict, language: Language) -> str:
    """The verdict in two or three words, for headings and tables."""
    return TITLES[type(verdict)].write(verdict, language)
