"""The verdicts: how the run is doing, in words that need no training in training."""

from nanoscope.analysis.findings import (
    Diverged,
    Improving,
    Memorising,
    NonFinite,
    NoTraining,
    Overfitting,
    Plateau,
    SlowingDown,
    TooShort,
    VerdictFinding,
)
from nanoscope.words.language import Language


def verdict_title(finding: VerdictFinding, language: Language) -> str:
    """The verdict in two or three words, for headings and tables."""
    say = language.say
    match finding:
        case Improving():
            return say("Still improving")
        case Plateau():
            return say("No longer improving")
        case Overfitting(severity="severe"):
            return say("Severe overfitting")
        case Overfitting(severity="slight"):
            return say("Slight overfitting")
        case Overfitting():
            return say("Overfitting")
        case Memorising():
            return say("Memorising")
        case Diverged():
            return say("Diverged")
        case NonFinite(recovered=True):
            return say("Not a number, but recovered")
        case NonFinite():
            return say("Loss is not a number")
        case SlowingDown():
            return say("Slowing down")
        case TooShort():
            return say("Too short to judge")
        case NoTraining():
            return say("No training in this log")


def improving(finding: Improving, language: Language) -> str:
    steps = language.plural("{n} step", "{n} steps", finding.over_steps)
    gain = language.loss(finding.gain)
    if finding.measure == "val":
        return language.say(
            "The model is learning: validation loss fell by {gain} over the last {steps}.",
            gain=gain,
            steps=steps,
        )
    return language.say(
        "The model is learning: training loss fell by {gain} over the last {steps}.", gain=gain, steps=steps
    )


def plateau(finding: Plateau, language: Language) -> str:
    level, step = language.loss(finding.level), str(finding.since_step)
    if finding.measure == "val":
        return language.say(
            "Validation loss has stayed near {level} since step {step}: going on as before brings nothing more.",
            level=level,
            step=step,
        )
    return language.say(
        "Training loss has stayed near {level} since step {step}: going on as before brings nothing more.",
        level=level,
        step=step,
    )


def overfitting(finding: Overfitting, language: Language) -> str:
    say, loss = language.say, language.loss
    if finding.onset_step is None or finding.best_val is None:
        sentences = [_gap(finding, language)]
    else:
        sentences = [
            say(
                "Validation loss was best at step {step} ({best}) and has since risen to {last}: "
                "the model is learning its training text by heart.",
                step=str(finding.onset_step),
                best=loss(finding.best_val),
                last=loss(finding.last_val),
            )
        ]
        if finding.last_train is not None:
            sentences.append(say("Training loss went on falling, to {train}.", train=loss(finding.last_train)))
    if finding.wasted_steps and finding.wasted_share is not None:
        sentences.append(
            language.plural(
                "The {n} step after that ({share} of the run) did not help on new text.",
                "The {n} steps after that ({share} of the run) did not help on new text.",
                finding.wasted_steps,
                share=language.percent(finding.wasted_share),
            )
        )
    return " ".join(sentences)


def _gap(finding: Overfitting, language: Language) -> str:
    if finding.last_train is None:
        return language.say(
            "Validation loss {last} is past its best: the model is learning its training text by heart.",
            last=language.loss(finding.last_val),
        )
    return language.say(
        "Validation loss {last} lies far above training loss {train}: the model knows its training text by heart. "
        "Its best validation loss came earlier, but this log does not show where.",
        last=language.loss(finding.last_val),
        train=language.loss(finding.last_train),
    )


def memorising(finding: Memorising, language: Language) -> str:
    text = language.say(
        "A training loss of {loss} is lower than any unseen text allows: the model repeats what it has read, "
        "and no validation loss is there to show it.",
        loss=language.loss(finding.loss),
    )
    if finding.passes_over_data is not None:
        passes = language.significant(finding.passes_over_data, 2)
        text += " " + language.say("It has read its data {passes} times over.", passes=passes)
    return text


def diverged(finding: Diverged, language: Language) -> str:
    text = language.say(
        "At step {step} the loss rose from {best} and stayed up (now {last}): training has come apart.",
        step=str(finding.step),
        best=language.loss(finding.best),
        last=language.loss(finding.last),
    )
    return text + _last_good(finding.last_good_checkpoint, language)


def non_finite(finding: NonFinite, language: Language) -> str:
    say, step = language.say, str(finding.step)
    if finding.recovered:
        return say("The loss was not a number at step {step}, but the run recovered.", step=step)
    if finding.from_start:
        return say(
            "The loss has not been a number since the beginning (step {step}): a fault of the set-up "
            "(data, precision, a kernel), not of the learning.",
            step=step,
        )
    text = say("Since step {step} the loss is not a number: nothing is learnt from there on.", step=step)
    if finding.last_finite_loss is not None:
        text += " " + say("The last valid loss was {loss}.", loss=language.loss(finding.last_finite_loss))
    return text + _last_good(finding.last_good_checkpoint, language)


def _last_good(step: int | None, language: Language) -> str:
    if step is None:
        return ""
    return " " + language.say("The last good checkpoint is that of step {step}.", step=str(step))


def slowing_down(finding: SlowingDown, language: Language) -> str:
    return language.say(
        "Steps take {last} by now, {share} longer than at the beginning ({first}).",
        first=language.duration(finding.first_third_s),
        last=language.duration(finding.last_third_s),
        share=language.percent(finding.share),
    )


def too_short(finding: TooShort, language: Language) -> str:
    return language.plural(
        "The log covers {n} step, in too few lines to say how the model learns.",
        "The log covers {n} steps, in too few lines to say how the model learns.",
        finding.steps,
    )


def no_training(finding: NoTraining, language: Language) -> str:
    if not finding.lines:
        return language.say("It is empty.")
    return language.plural(
        "No training step was found in {n} line.", "No training step was found in {n} lines.", finding.lines
    )
