"""The verdicts: how the run is doing, what that rests on, and how sure it is."""

from nanoscope.analysis import findings as f
from nanoscope.words.language import Language
from nanoscope.words.progress import ERRORS
from nanoscope.words.templates import By, First, Plural, Say, Sentences, Verbatim, Words, has, known


def _gain(verdict: f.Improving) -> tuple[float, float]:
    return verdict.gain, verdict.error


def _change(verdict: f.Plateau | f.Unclear | f.Stalled) -> tuple[float, float]:
    return verdict.change, verdict.error


# fmt: off
TITLES: dict[type[f.Finding], Words] = {
    f.Improving: Say("Still improving"),
    f.Plateau: Say("No longer improving"),
    f.ScheduleEnded: Say("Flat, because the learning rate has come down"),
    f.Unclear: Say("No clear trend"),
    f.Stalled: Say("Only training loss still falls"),
    f.Worsening: Say("Getting worse"),
    f.Overfitting: By(
        "severity",
        slight=Say("Slight overfitting"),
        clear=Say("Overfitting"),
        severe=Say("Severe overfitting"),
    ),
    f.Memorising: Say("Memorising"),
    f.Leak: Say("Validation looks too easy"),
    f.Diverged: Say("Diverged"),
    f.DamagedStart: Say("The first steps made the loss worse"),
    f.NotLearning: Say("Not learning"),
    f.RepeatedBatches: Say("The same batches again and again"),
    f.NonFinite: First(Say("Recovered from NaN", has("recovered")), Say("Training broke down: NaN")),
    f.GradientNotFinite: Say("Gradients are not finite"),
    f.GradientExplosion: Say("Exploding gradients"),
    f.GradientVanishing: Say("Vanishing gradients"),
    f.ScaleCollapse: Say("Loss scale collapsed"),
    f.SlowingDown: Say("Slowing down"),
    f.TooShort: Say("Too early to judge"),
    f.SlowStepsNormal: First(
        Say("The slow step is normal", lambda verdict: len(verdict.steps) + (verdict.first_step is not None) == 1),
        Say("The slow steps are normal"),
    ),
    f.Error: First(Say("An error after the end of training", has("finished")), Say("Ended by an error")),
    f.NoTraining: Say("No training in this log"),
    f.WaitingForData: Say("Waiting for data"),
    f.MemoryGrowth: Say("Memory keeps growing"),
}
_CONFIDENCE = By(
    "confidence",
    likely=Say("{title} (likely)"),
    hint=Say("{title} (only a hint)"),
)

_LAST_GOOD = Say("The last checkpoint before that is from {last_good_checkpoint:at}.",
                 known("last_good_checkpoint"))
_ABOVE_GUESSING = Say("That is above {uniform}, the loss of pure guessing.", known("uniform_loss"),
                      uniform=Verbatim("{uniform_loss:number2}"))

MESSAGES: dict[type[f.Finding], Words] = {
    f.Improving: By(
        "measure",
        val=Say("Validation loss fell from {from_value:loss} ({from_step:at}) to {to_value:loss} "
                "({to_step:at}), by {gain:measured}.", gain=_gain),
        train=Say("Training loss fell from about {from_value:loss} ({from_step:at}) to about {to_value:loss} "
                  "({to_step:at}), by {gain:measured}.", gain=_gain),
    ),
    f.Plateau: By(
        "measure",
        val=Say("Since {since_step:at} validation loss has stayed near {level:loss}: over {evaluations} "
                "evaluations it changed by {change:signed}, which is within its noise.", change=_change),
        train=Say("Since {since_step:at} training loss has stayed near {level:loss}: it changed by "
                  "{change:signed}, which is within its noise.", change=_change),
    ),
    f.ScheduleEnded: Sentences(
        By(
            "measure",
            val=Say("Validation loss stays near {level:loss}."),
            train=Say("Training loss stays near {level:loss}."),
        ),
        Say("The learning rate has come down to {lr:rate}, so the curve is flat by schedule; "
            "that doesn't show that there is nothing left to learn. More steps need a new schedule."),
    ),
    f.Unclear: By(
        "measure",
        val=Say("Since {since_step:at} validation loss changed by {change:signed}: "
                "too little, or too noisy, to call a trend.", change=_change),
        train=Say("Since {since_step:at} training loss changed by {change:signed}: "
                  "too little, or too noisy, to call a trend.", change=_change),
    ),
    f.Stalled: Sentences(
        Say("Since {since_step:at} validation loss changed by {change:signed}, while training loss fell from "
            "{train_then:loss} to {train:loss}.", change=_change, train=lambda stalled: stalled.gap.train),
        Say("The gap between them was {then:significant2} at {first_step:at} and is {now:significant2} now: the model "
            "fits its training text ever better, and new text no better.", then=lambda stalled: stalled.gap.first_gap,
            first_step=lambda stalled: stalled.gap.first_step, now=lambda stalled: stalled.gap.val - stalled.gap.train),
    ),
    f.Worsening: Sentences(
        Say("Validation loss was best at {best_step:at} ({best:loss}) and has risen to {last:loss} since, by "
            "{rise:measured}.", rise=lambda verdict: (verdict.rise, verdict.error)),
        First(
            Say("Training loss doesn't fall either, so this isn't overfitting; a learning rate that is too high is the "
                "usual reason.", has("train_known")),
            Say("The log doesn't show whether training loss still falls, so it can't be told whether this is "
                "overfitting."),
        ),
    ),
    f.Overfitting: First(
        Say("Validation loss {last_val:loss} is far above training loss {last_train:loss}: the model knows much of its "
            "training text by heart. Validation loss was very likely lower before; the log doesn't show when it was "
            "best.",
            lambda verdict: verdict.onset_step is None),
        Sentences(
            Say("Validation loss was best at {onset_step:at} ({best_val:loss}) and has risen to "
                "{last_val:loss} since, while training loss fell to {last_train:loss}.", known("last_train")),
            Plural("The {n} step after that ({wasted_share:percent} of the run) did not help on new text.",
                   "The {n} steps after that ({wasted_share:percent} of the run) did not help on new text.",
                   "wasted_steps"),
        ),
    ),
    f.Memorising: Sentences(
        Say("A training loss of {loss:loss} is lower than new text usually allows, so the model seems to repeat what "
            "it has read. There is no validation loss to confirm it."),
        Say("It has read its data {passes_over_data:significant2} times.", known("passes_over_data")),
    ),
    f.Leak: First(
        Say("After {passes_over_data:significant2} passes over the data, validation loss ({val:loss}) is still no "
            "higher than training loss ({train:loss}), although the model has more parameters than the data has "
            "tokens. Check that the validation text isn't part of the training text.", known("passes_over_data")),
        Say("Validation loss ({val:loss}) is below training loss ({train:loss}), by {difference:significant2} over "
            "{evaluations} evaluations. Either the validation text is simpler, or it is part of the training text."),
    ),
    f.Diverged: Sentences(
        Say("At {step:at} the loss jumped from {best:loss} up to {highest:loss}, and it hasn't recovered: it is "
            "{last:loss} now."),
        _ABOVE_GUESSING,
        Say("That is above {began_at:loss}, the loss that it began with.", known("began_at")),
        Say("The learning rate was still rising there.", has("lr_rising")),
        Say("The gradient norm went from {grad_norm_before:significant2} to {grad_norm_after:significant2}.",
            known("grad_norm_before", "grad_norm_after")),
        _LAST_GOOD,
    ),
    f.DamagedStart: Sentences(
        By(
            "measure",
            val=Say("Validation loss was {first:loss} before training and {worst:loss} at {worst_step:at}."),
            train=Say("The loss was {first:loss} at first and {worst:loss} at {worst_step:at}."),
        ),
        _ABOVE_GUESSING,
        First(
            Say("It had recovered by {recovered_step:at}.", known("recovered_step")),
            Say("It hasn't recovered yet."),
        ),
        Say("Too high a learning rate, or no warm-up, is the usual reason."),
    ),
    f.NotLearning: By(
        "reason",
        uniform=Plural("After {n} step the loss is {level:loss}, still that of pure guessing.",
                       "After {n} steps the loss is {level:loss}, still that of pure guessing.", "steps"),
        frequencies=Plural("After {n} step the loss rests at {level:loss}, about what token frequencies alone would "
                           "give: the model has learnt nothing about their order.",
                           "After {n} steps the loss rests at {level:loss}, about what token frequencies alone would "
                           "give: the model has learnt nothing about their order.", "steps"),
        first_value=Sentences(
            Plural("After {n} step the loss is {level:loss}, where it began.",
                   "After {n} steps the loss is {level:loss}, where it began.", "steps"),
            Say("The learning rate in the log is zero.", has("lr_zero")),
        ),
        zero=Say("The loss is exactly zero in every line: the targets are empty or masked, or the loss isn't computed "
                 "at all."),
    ),
    f.RepeatedBatches: Say("At {step:at} the batches have a loss of {batch_loss:loss}, but the training text as a "
                           "whole has {train_loss:loss}."),
    f.NonFinite: First(
        Say("The loss was not a number at {step:at}; later losses are valid again.", has("recovered")),
        Say("The loss has not been a number since the first step in the log ({step:at}). That points to the "
            "set-up (data, precision, a kernel) rather than to learning.", has("from_start")),
        Sentences(
            Say("The loss has not been a number since {step:at}: the model learns nothing after that."),
            Say("The last valid loss was {last_finite_loss:loss}."),
            _LAST_GOOD,
        ),
    ),
    f.GradientNotFinite: Say("The gradient norm is NaN or infinite in {count} of {lines} lines, since "
                             "{step:at}. Such steps teach the model nothing, or destroy it."),
    f.GradientExplosion: Say("Since {step:at} the gradient norm is {after:significant2}, where "
                             "{before:significant2} was usual."),
    f.GradientVanishing: Say("The gradient norm has gone from {before:significant2} to {after:significant2}: the "
                             "weights hardly change any more."),
    f.ScaleCollapse: Say("Since {step:at} the loss scale has fallen from {first:large} to "
                         "{last:significant2}: gradients overflow again and again, and such steps are skipped."),
    f.TooShort: First(
        Plural("The log covers {n} step, all of them while the learning rate warms up.",
               "The log covers {n} steps, all of them while the learning rate warms up.",
               "steps", has("warming_up")),
        Plural("The log covers {n} step, in too few lines to say how the model learns.",
               "The log covers {n} steps, in too few lines to say how the model learns.", "steps"),
    ),
    f.Error: ERRORS,
    f.NoTraining: First(
        Plural("No training step was found in {n} line.", "No training step was found in {n} lines.",
               "lines", has("lines")),
        Say("It is empty."),
    ),
}
# fmt: on


def verdict_title(verdict: f.Verdict, language: Language) -> str:
    """The verdict in a few words, for headings and tables, with how sure it is."""
    title = TITLES[type(verdict)].write(verdict, language)
    if verdict.confidence == "sure":
        return title
    return _CONFIDENCE.write(Titled(title, verdict.confidence), language)


class Titled:
    """A title and how sure it is, as a table of messages wants it."""

    def __init__(self, title: str, confidence: str) -> None:
        self.title, self.confidence = title, confidence
