"""The verdicts: how a run is doing, what that rests on, how alarming it is, and how it is said."""

from typing import Literal

from nanoscope.findings.declared.base import Tone, Verdict
from nanoscope.findings.declared.learning import Gap, Measure
from nanoscope.findings.declared.log import ERRORS
from nanoscope.messages import Message, Part, Said, sentences, verbatim
from nanoscope.runs.run import ErrorKind


class Completed(Verdict, tone="good"):
    """Every planned step is done and nothing went wrong: what the run reached, and from where."""

    steps: int
    unit: Literal["step", "epoch"]
    first: float | None  # training loss; None where the log begins later
    last: float | None
    val: float | None
    stderr: float | None

    TITLE = Message("Finished as planned")

    def text(self) -> Said:
        return sentences(self._training(), self._validation())

    def _training(self) -> Part:
        if self.last is None:
            return None
        if self.first is None:
            return Message("Training loss ended near {last:loss}.")
        if self.unit == "epoch":
            return Message(
                "In {n} epoch, training loss went from {first:loss} to {last:loss}.",
                "In {n} epochs, training loss went from {first:loss} to {last:loss}.",
                n=self.steps,
            )
        return Message(
            "In {n} step, training loss went from {first:loss} to {last:loss}.",
            "In {n} steps, training loss went from {first:loss} to {last:loss}.",
            n=self.steps,
        )

    def _validation(self) -> Part:
        if self.stderr is None:
            return self.val is not None and Message("Validation loss is {val:loss}.")
        return Message("Validation loss is {val:measured}.", val=(self.val, self.stderr))


class Improving(Verdict, tone="good"):
    """The loss fell by more than its noise: `gain` ± `error`, from one step to another."""

    measure: Measure
    from_step: int
    from_value: float
    to_step: int
    to_value: float
    gain: float
    error: float

    TITLE = Message("Still improving")

    def text(self) -> Said:
        gain = self.gain, self.error
        if self.measure == "val":
            return Message(
                "Validation loss fell from {from_value:loss} ({from_step:at}) to {to_value:loss} "
                "({to_step:at}), by {gain:measured}.",
                gain=gain,
            )
        return Message(
            "Training loss fell from about {from_value:loss} ({from_step:at}) to about {to_value:loss} "
            "({to_step:at}), by {gain:measured}.",
            gain=gain,
        )


class Plateau(Verdict, harmless=True):
    """The loss has stopped falling: since a step its change is within noise, and a worthwhile fall is excluded."""

    measure: Measure
    level: float
    since_step: int
    change: float
    error: float
    evaluations: int

    TITLE = Message("No longer improving")

    def text(self) -> Said:
        change = self.change, self.error
        if self.measure == "val":
            return Message(
                "Since {since_step:at} validation loss has stayed near {level:loss}: over {evaluations:number} "
                "evaluations it changed by {change:signed}, which is within its noise.",
                change=change,
            )
        return Message(
            "Since {since_step:at} training loss has stayed near {level:loss}: it changed by "
            "{change:signed}, which is within its noise.",
            change=change,
        )


class ScheduleEnded(Verdict, harmless=True):
    """The loss is flat where the learning rate has come down to (nearly) zero: by schedule."""

    measure: Measure
    level: float
    lr: float

    TITLE = Message("Flat, because the learning rate has come down")

    def text(self) -> Said:
        val, train = (
            Message("Validation loss stays near {level:loss}."),
            Message("Training loss stays near {level:loss}."),
        )
        return sentences(
            val if self.measure == "val" else train,
            Message(
                "The learning rate has come down to {lr:rate}, so the curve is flat by schedule; "
                "that doesn't show that there is nothing left to learn. More steps need a new schedule."
            ),
        )


class Unclear(Verdict, harmless=True):
    """Enough lines to judge, and no clear direction: the change is within its error."""

    measure: Measure
    since_step: int
    change: float
    error: float

    TITLE = Message("No clear trend")

    def text(self) -> Said:
        change = self.change, self.error
        if self.measure == "val":
            return Message(
                "Since {since_step:at} validation loss changed by {change:signed}: "
                "too little, or too noisy, to call a trend.",
                change=change,
            )
        return Message(
            "Since {since_step:at} training loss changed by {change:signed}: "
            "too little, or too noisy, to call a trend.",
            change=change,
        )


class Diverged(Verdict, tone="bad", breaks=True):
    """The loss rose and stayed up."""

    step: int
    best: float
    last: float
    highest: float
    last_good_checkpoint: int | None
    uniform_loss: float | None  # set if the loss is above it
    began_at: float | None  # set if the loss is above its first value, and `uniform_loss` is not known
    lr_rising: bool  # the printed learning rate was still rising there
    grad_norm_before: float | None
    grad_norm_after: float | None

    TITLE = Message("Diverged")

    def text(self) -> Said:
        return sentences(
            Message(
                "At {step:at} the loss jumped from {best:loss} up to {highest:loss}, and it hasn't recovered: it is "
                "{last:loss} now."
            ),
            _above_guessing(self),
            self.began_at is not None and Message("That is above {began_at:loss}, the loss that it began with."),
            self.lr_rising and Message("The learning rate was still rising there."),
            self.grad_norm_after is not None
            and Message(
                "The gradient norm went from {grad_norm_before:significant2} to {grad_norm_after:significant2}."
            ),
            _last_good(self),
        )


class NotLearning(Verdict, tone="bad"):
    """The loss stands at that of guessing (or of knowing how frequent tokens are), at its first value, or at zero."""

    reason: Literal["uniform", "frequencies", "first_value", "zero"]
    level: float
    steps: int
    lr_zero: bool

    TITLE = Message("Not learning")

    def text(self) -> Said:
        match self.reason:
            case "uniform":
                return Message(
                    "After {n} step the loss is {level:loss}, still that of pure guessing.",
                    "After {n} steps the loss is {level:loss}, still that of pure guessing.",
                    n=self.steps,
                )
            case "frequencies":
                return Message(
                    "After {n} step the loss rests at {level:loss}, about what token frequencies alone would "
                    "give: the model has learnt nothing about their order.",
                    "After {n} steps the loss rests at {level:loss}, about what token frequencies alone would "
                    "give: the model has learnt nothing about their order.",
                    n=self.steps,
                )
            case "first_value":
                where = Message(
                    "After {n} step the loss is {level:loss}, where it began.",
                    "After {n} steps the loss is {level:loss}, where it began.",
                    n=self.steps,
                )
                return sentences(where, self.lr_zero and Message("The learning rate in the log is zero."))
            case "zero":
                return Message(
                    "The loss is exactly zero in every line: the targets are empty or masked, or the loss isn't "
                    "computed at all."
                )


class RepeatedBatches(Verdict, tone="bad"):
    """The batches that are read have a far lower loss than the training text as a whole: they are always the same."""

    step: int
    batch_loss: float
    train_loss: float

    TITLE = Message("The same batches again and again")
    TEXT = Message(
        "At {step:at} the batches have a loss of {batch_loss:loss}, but the training text as a "
        "whole has {train_loss:loss}."
    )


class Worsening(Verdict, tone="bad", unless=(Diverged, NotLearning, RepeatedBatches)):
    """The loss has risen since its best, and training loss with it (or nothing shows that it still falls)."""

    measure: Measure
    best: float
    best_step: int
    last: float
    rise: float
    error: float
    train_known: bool

    TITLE = Message("Getting worse")

    def text(self) -> Said:
        rose, unknown = (
            Message(
                "Training loss doesn't fall either, so this isn't overfitting; a learning rate that is too high is the "
                "usual reason."
            ),
            Message(
                "The log doesn't show whether training loss still falls, so it can't be told whether this is "
                "overfitting."
            ),
        )
        return sentences(
            Message(
                "Validation loss was best at {best_step:at} ({best:loss}) and has risen to {last:loss} since, by "
                "{rise:measured}.",
                rise=(self.rise, self.error),
            ),
            rose if self.train_known else unknown,
        )


class Overfitting(Verdict, unless=(NotLearning, RepeatedBatches)):
    """Validation loss is past its best while training loss keeps falling.

    With too few evaluations to see where it began, `onset_step` and what follows from it are None.
    """

    onset_step: int | None
    best_val: float | None
    last_val: float
    last_train: float | None
    rise: float | None  # last validation loss above the best
    wasted_steps: int | None
    wasted_share: float | None
    severity: Literal["slight", "clear", "severe"]

    @property
    def tone(self) -> Tone:
        return "bad" if self.severity == "severe" else "fair"

    def title(self) -> Message:
        match self.severity:
            case "slight":
                return Message("Slight overfitting")
            case "clear":
                return Message("Overfitting")
            case "severe":
                return Message("Severe overfitting")

    def text(self) -> Said:
        if self.onset_step is None or self.wasted_steps is None:
            return Message(
                "Validation loss {last_val:loss} is far above training loss {last_train:loss}: the model knows much of "
                "its training text by heart. Validation loss was very likely lower before; the log doesn't show when "
                "it was best."
            )
        return sentences(
            self.last_train is not None
            and Message(
                "Validation loss was best at {onset_step:at} ({best_val:loss}) and has risen to "
                "{last_val:loss} since, while training loss fell to {last_train:loss}."
            ),
            Message("What came after that, {wasted_share:percent} of the run, did not help on new text."),
        )


class Memorising(Verdict, unless=(NotLearning, RepeatedBatches)):
    """A loss below anything that unseen text could have, and no validation loss to confirm it."""

    loss: float
    passes_over_data: float | None

    TITLE = Message("Memorising")

    def text(self) -> Said:
        return sentences(
            Message(
                "A training loss of {loss:loss} is lower than new text usually allows, so the model seems to repeat "
                "what it has read. There is no validation loss to confirm it."
            ),
            self.passes_over_data is not None
            and Message("It has read its data {passes_over_data:significant2} times."),
        )


class Stalled(Verdict):
    """Since a step validation loss has not fallen, but training loss has: the gap between them grew."""

    since_step: int
    change: float  # of validation loss
    error: float
    best_step: int
    train_then: float  # training loss at `since_step`
    gap: Gap

    TITLE = Message("Only training loss still falls")

    def text(self) -> Said:
        gap = self.gap
        return sentences(
            Message(
                "Since {since_step:at} validation loss changed by {change:signed}, while training loss fell from "
                "{train_then:loss} to {train:loss}.",
                change=(self.change, self.error),
                train=gap.train,
            ),
            Message(
                "The gap between them was {then:significant2} at {first_step:at} and is {now:significant2} now: the "
                "model fits its training text ever better, and new text no better.",
                then=gap.first_gap,
                first_step=gap.first_step,
                now=gap.val - gap.train,
            ),
        )


class Leak(Verdict):
    """Validation is easier than training, measured alike: the texts overlap, or one of them is simpler."""

    val: float
    train: float
    difference: float  # validation below training
    evaluations: int
    passes_over_data: float | None  # set where the sign is that no gap opened after so many passes

    TITLE = Message("Validation looks too easy")

    def text(self) -> Said:
        if self.passes_over_data is not None:
            return Message(
                "After {passes_over_data:significant2} passes over the data, validation loss ({val:loss}) is still no "
                "higher than training loss ({train:loss}), although the model has more parameters than the data has "
                "tokens. Check that the validation text isn't part of the training text."
            )
        return Message(
            "Validation loss ({val:loss}) is below training loss ({train:loss}), by {difference:significant2} over "
            "{evaluations:number} evaluations. Either the validation text is simpler, or it is part of the training "
            "text."
        )


class DamagedStart(Verdict):
    """The first steps made the model worse than it was before them."""

    measure: Measure
    first: float
    worst: float
    worst_step: int
    recovered_step: int | None
    uniform_loss: float | None  # set if the worst is above it

    @property
    def tone(self) -> Tone:
        return "bad" if self.recovered_step is None else "fair"

    @property
    def lasts(self) -> bool:
        return self.recovered_step is None

    TITLE = Message("The first steps made the loss worse")

    def text(self) -> Said:
        val = Message("Validation loss was {first:loss} before training and {worst:loss} at {worst_step:at}.")
        train = Message("The loss was {first:loss} at first and {worst:loss} at {worst_step:at}.")
        back, not_yet = Message("It had recovered by {recovered_step:at}."), Message("It hasn't recovered yet.")
        return sentences(
            val if self.measure == "val" else train,
            _above_guessing(self),
            not_yet if self.recovered_step is None else back,
            Message("Too high a learning rate, or no warm-up, is the usual reason."),
        )


class NonFinite(Verdict, breaks=True):
    """The loss is NaN or infinite. `from_start`: a problem of the set-up, not a divergence."""

    step: int
    from_start: bool
    recovered: bool
    last_good_checkpoint: int | None
    last_finite_loss: float | None

    @property
    def tone(self) -> Tone:
        return "fair" if self.recovered else "bad"

    @property
    def lasts(self) -> bool:
        return not self.recovered

    def title(self) -> Message:
        return Message("Recovered from NaN") if self.recovered else Message("Training broke down: NaN")

    def text(self) -> Said:
        if self.recovered:
            return Message("The loss was not a number at {step:at}; later losses are valid again.")
        if self.from_start:
            return Message(
                "The loss has not been a number since the first step in the log ({step:at}). That points to the "
                "set-up (data, precision, a kernel) rather than to learning."
            )
        return sentences(
            Message("The loss has not been a number since {step:at}: the model learns nothing after that."),
            Message("The last valid loss was {last_finite_loss:loss}."),
            _last_good(self),
        )


class GradientNotFinite(Verdict, tone="bad", unless=(NonFinite,)):
    """The gradient norm is NaN or infinite in many lines."""

    step: int
    count: int
    lines: int

    TITLE = Message("Gradients are not finite")
    TEXT = Message(
        "The gradient norm is NaN or infinite in {count:number} of {lines:number} lines, since "
        "{step:at}. Such steps teach the model nothing, or destroy it."
    )


class GradientExplosion(Verdict, tone="bad"):
    """The gradient norm has grown many times over, and stays up."""

    step: int
    before: float
    after: float

    TITLE = Message("Exploding gradients")
    TEXT = Message("Since {step:at} the gradient norm is {after:significant2}, where {before:significant2} was usual.")


class ScaleCollapse(Verdict, tone="bad"):
    """The loss scale of float16 training was halved again and again."""

    first: float
    last: float
    step: int
    halvings: int

    TITLE = Message("Loss scale collapsed")
    TEXT = Message(
        "Since {step:at} the loss scale has fallen from {first:large} to "
        "{last:significant2}: gradients overflow again and again, and such steps are skipped."
    )


class TooShort(Verdict, harmless=True):
    """Too few steps to say anything about learning, or the learning rate is still warming up."""

    steps: int
    warming_up: bool = False

    TITLE = Message("Too early to judge")

    def text(self) -> Said:
        if self.warming_up:
            return Message(
                "The log covers {n} step, all of them while the learning rate warms up.",
                "The log covers {n} steps, all of them while the learning rate warms up.",
                n=self.steps,
            )
        return Message("The log shows too little of the run to say how the model learns.")


class Error(Verdict, breaks=True):
    """An error after the last step of the log; with `finished`, the training itself was complete by then."""

    line: int
    kind: ErrorKind
    message: str
    finished: bool

    @property
    def tone(self) -> Tone:
        return "fair" if self.finished else "bad"

    def title(self) -> Message:
        return Message("An error after the end of training") if self.finished else Message("Ended by an error")

    def text(self) -> Said:
        return ERRORS[self.kind]


class NoTraining(Verdict, tone="bad"):
    """The log holds no training line."""

    lines: int

    TITLE = Message("No training in this log")

    def text(self) -> Said:
        if not self.lines:
            return Message("It is empty.")
        return Message(
            "No training step was found in {n} line.", "No training step was found in {n} lines.", n=self.lines
        )


def _last_good(verdict: Diverged | NonFinite) -> Part:
    known = verdict.last_good_checkpoint is not None
    return known and Message("The last checkpoint before that is from {last_good_checkpoint:at}.")


def _above_guessing(verdict: Diverged | DamagedStart) -> Said:
    if verdict.uniform_loss is None:
        return None
    uniform = verbatim("{uniform_loss:number2}")
    return Message("That is above {uniform}, the loss of pure guessing.", uniform=uniform)
