"""What the model has learnt."""

from typing import Literal

from nanoscope.findings.declared.base import Finding
from nanoscope.ladder import Place, in_words
from nanoscope.messages import Message, Part, Said, bracketed, clauses, sentences, verbatim

Measure = Literal["val", "train"]
Stage = Literal["warmup", "constant", "decay", "ended"]
LEAST_NOISE = 0.00005  # what four decimals can show
MOST_PERPLEXITY = 1e6


class TrainLoss(Finding):
    """The training loss; `noise` is its scatter around its own trend."""

    averaged: bool  # the trainer prints a smoothed value
    vocab_size: int | None
    uniform_loss: float | None  # ln(vocab_size): the loss of guessing
    first: float | None = None
    last: float | None = None
    min: float | None = None
    smoothed_last: float | None = None  # median of the last lines
    noise: float | None = None
    moved: bool = False  # from `first` to `smoothed_last` by more than the noise of single lines
    first_is_uniform: bool | None = None  # a healthy start; None if the log does not begin at the beginning
    perplexity: float | None = None  # exp(smoothed_last), if it is a language model's loss in nats
    bits_per_char: float | None = None  # only if a token is a character

    def text(self) -> Said:
        level = self.smoothed_last is not None and Message("Training loss: about {smoothed_last:loss}")
        return sentences(
            clauses(
                Message("Training loss: from {first:loss} to {smoothed_last:loss}") if self.moved else level,
                (self.noise or 0.0) >= LEAST_NOISE and Message(", single lines ±{noise:significant2}"),
                self.averaged and Message(", smoothed by the trainer"),
                bracketed(*_other_units(self)),
                Message("."),
            ),
            self._beginning(),
        )

    def _beginning(self) -> Said:
        uniform = verbatim("ln({vocab_size:plain}) = {uniform_loss:number2}")
        if self.first_is_uniform is None:
            return None
        if self.first_is_uniform:
            return Message("It began near {uniform}, as an untrained model should.", uniform=uniform)
        if (self.first or 0.0) > (self.uniform_loss or 0.0):
            return Message("It began at {first:loss}, above {uniform}, the loss of pure guessing.", uniform=uniform)
        return Message(
            "It began at {first:loss}, below {uniform}, the loss of pure guessing: the model was probably trained "
            "before.",
            uniform=uniform,
        )


class Evaluations(Finding):
    """The validation results, and what one evaluation costs."""

    metric: Literal["loss", "bpb"]
    count: int
    interval: int | None
    cost_s: float | None  # with the checkpoint that goes with it; None: not visible
    best_val: float | None
    best_step: int | None
    first_val: float | None
    last_val: float | None
    last_train: float | None
    last_step: int | None
    stderr: float | None  # of the last one, as printed
    noise: float | None  # their scatter, from enough of them
    perplexity: float | None
    bits_per_char: float | None

    def text(self) -> Said:
        train = self.last_train is not None and Message("training loss {last_train:loss}")
        return clauses(self._last(), bracketed(train, *_other_units(self)), self._best())

    def _last(self) -> Said:
        if self.last_val is None:
            return Message("Validation loss: not a number at {last_step:at}")
        if self.metric == "bpb":
            return Message("Validation: {last_val:loss} bits per byte at {last_step:at}")
        if self.stderr is None:
            return Message("Validation loss: {last_val:loss} at {last_step:at}")
        return Message("Validation loss: {last:measured} at {last_step:at}", last=(self.last_val, self.stderr))

    def _best(self) -> Said:
        if self.count == 1:
            return Message("; the only evaluation.")
        if self.best_val is None:
            return Message("; no evaluation gave a number.")
        if self.best_step == self.last_step:
            return Message("; the best so far.")
        return Message("; the best was {best_val:loss} at {best_step:at}.")


class LossPlace(Finding):
    """The best validation loss among those of simple models on the same text."""

    loss: float
    step: int
    stderr: float | None
    place: Place
    train_tokens: int  # that the models were counted on
    sampled: bool  # not the whole training split

    def text(self) -> Said:
        return sentences(
            Message(
                "Compared with n-gram models, which only count what follows what in the training text, the best "
                "validation loss, {loss:loss}, is {place}.",
                place=in_words(self.place),
            ),
            self.sampled and Message("These models were counted on a sample of {train_tokens:large} training tokens."),
        )


class Gap(Finding):
    """Validation loss above training loss, by more than at first: a sign before validation turns."""

    step: int
    train: float
    val: float
    share: float  # of the validation loss
    first_step: int
    first_gap: float

    def text(self) -> Said:
        return Message(
            "Validation loss is {difference:significant2} above training loss ({share:percent}); at "
            "{first_step:at} it was {first_gap:significant2}. The model fits its training text ever better than "
            "new text.",
            difference=self.val - self.train,
        )


class Checkpoints(Finding):
    """Checkpoints written; `cost_s` only if evaluations with and without one can be compared."""

    count: int
    last_step: int | None
    cost_s: float | None

    def text(self) -> Said:
        if not self.count:
            return None
        one, last = Message(", at {last_step:at}"), Message(", the last at {last_step:at}")
        written = Message("{n} checkpoint written", "{n} checkpoints written", n=self.count)
        return clauses(written, one if self.count == 1 else last, Message("."))


class Schedule(Finding):
    """Where the run stands in its learning-rate schedule, as printed or as configured."""

    stage: Stage
    lr: float | None
    highest: float | None
    warmup_steps: int | None
    printed: bool
    share: float | None = None  # of the full rate, where only that is printed

    def text(self) -> Said:
        if self.stage == "ended" and self.lr is not None and self.highest is not None:
            return Message(
                "The learning rate has come down from {highest:rate} to {lr:rate}: training longer needs a longer "
                "schedule from the start."
            )
        if self.stage != "warmup":
            return None
        if self.lr is not None:
            return Message("The learning rate is still warming up ({lr:rate} so far), so the loss says little yet.")
        if self.share is not None:
            return Message(
                "The learning rate is still warming up (at {share:percent} of its full value), so the loss says little "
                "yet."
            )
        if self.warmup_steps is None:
            return None
        return Message("The learning rate is still warming up (until {warmup_steps:at}), so the loss says little yet.")


class LossSpike(Finding):
    """A jump of the loss; None: it has not come back yet."""

    step: int
    loss: float
    before: float
    recovered_step: int | None

    def text(self) -> Said:
        if self.recovered_step is None:
            return Message(
                "The loss jumped from {before:loss} to {loss:loss} at {step:at} and hadn't recovered by the end of the "
                "log."
            )
        return Message(
            "The loss jumped from {before:loss} to {loss:loss} at {step:at} and had recovered by {recovered_step:at}."
        )


class GradientNorm(Finding):
    """The gradient norm, and how often it is clipped."""

    typical: float
    highest: float
    highest_step: int
    clip: float | None
    clipped_share: float | None

    def text(self) -> Said:
        return clauses(
            Message(
                "Gradient norm: usually {typical:significant2}, at most {highest:significant2} at {highest_step:at}"
            ),
            self.clipped_share is not None
            and Message(
                "; {clipped_share:percent} of the printed steps were clipped ({setting})",
                setting=verbatim("grad_clip={clip:typed}"),
            ),
            Message("."),
        )


def _other_units(finding: TrainLoss | Evaluations) -> tuple[Part, Part]:
    """The same loss as a perplexity, and in bits per character."""
    small = (finding.perplexity or MOST_PERPLEXITY) < MOST_PERPLEXITY
    return (
        small and Message("perplexity {perplexity:significant}"),
        finding.bits_per_char is not None and Message("{bits_per_char:number2} bits per character"),
    )
