"""What the model has learnt, and the verdicts on it."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding, Tone, Verdict
from nanoscope.ladder import Place
from nanoscope.runs.run import ErrorKind

Measure = Literal["val", "train"]


class TrainLoss(Finding):
    """The training loss; `noise` is its scatter around its own trend."""

    first: float | None
    last: float | None
    min: float | None
    smoothed_last: float | None  # median of the last lines
    noise: float | None
    moved: bool  # from `first` to `smoothed_last` by more than the noise of single lines
    averaged: bool  # the trainer prints a smoothed value
    perplexity: float | None  # exp(smoothed_last), if it is a language model's loss in nats
    bits_per_char: float | None  # only if a token is a character
    vocab_size: int | None
    uniform_loss: float | None  # ln(vocab_size): the loss of guessing
    first_is_uniform: bool | None  # a healthy start; None if the log does not begin at the beginning


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


class LossPlace(Finding):
    """The best validation loss among those of simple models on the same text."""

    loss: float
    step: int
    stderr: float | None
    place: Place
    train_tokens: int  # that the models were counted on
    sampled: bool  # not the whole training split


class Gap(Finding):
    """Validation loss above training loss, by more than at first: a sign before validation turns."""

    step: int
    train: float
    val: float
    share: float  # of the validation loss
    first_step: int
    first_gap: float


class Checkpoints(Finding):
    """Checkpoints written; `cost_s` only if evaluations with and without one can be compared."""

    count: int
    last_step: int | None
    cost_s: float | None


class Schedule(Finding):
    """Where the run stands in its learning-rate schedule, as printed or as configured."""

    stage: Literal["warmup", "constant", "decay", "ended"]
    lr: float | None
    highest: float | None
    warmup_steps: int | None
    printed: bool
    share: float | None = None  # of the full rate, where only that is printed


class LossSpike(Finding):
    """A jump of the loss; None: it has not come back yet."""

    step: int
    loss: float
    before: float
    recovered_step: int | None


class GradientNorm(Finding):
    """The gradient norm, and how often it is clipped."""

    typical: float
    highest: float
    highest_step: int
    clip: float | None
    clipped_share: float | None


# --- verdicts ---


class Improving(Verdict, tone="good"):
    """The loss fell by more than its noise: `gain` ± `error`, from one step to another."""

    measure: Measure
    from_step: int
    from_value: float
    to_step: int
    to_value: float
    gain: float
    error: float


class Plateau(Verdict):
    """The loss has stopped falling: since a step its change is within noise, and a worthwhile fall is excluded."""

    measure: Measure
    level: float
    since_step: int
    change: float
    error: float
    evaluations: int


class ScheduleEnded(Verdict):
    """The loss is flat where the learning rate has come down to (nearly) zero: by schedule."""

    measure: Measure
    level: float
    lr: float


class Unclear(Verdict):
    """Enough lines to judge, and no clear direction: the change is within its error."""

    measure: Measure
    since_step: int
    change: float
    error: float


class Stalled(Verdict):
    """Since a step validation loss has not fallen, but training loss has: the gap between them grew."""

    since_step: int
    change: float  # of validation loss
    error: float
    best_step: int
    train_then: float  # training loss at `since_step`
    gap: Gap


class Worsening(Verdict, tone="bad"):
    """The loss has risen since its best, and training loss with it (or nothing shows that it still falls)."""

    measure: Measure
    best: float
    best_step: int
    last: float
    rise: float
    error: float
    train_known: bool


class Overfitting(Verdict):
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


class Memorising(Verdict):
    """A loss below anything that unseen text could have, and no validation loss to confirm it."""

    loss: float
    passes_over_data: float | None


class Leak(Verdict):
    """Validation is easier than training, measured alike: the texts overlap, or one of them is simpler."""

    val: float
    train: float
    difference: float  # validation below training
    evaluations: int
    passes_over_data: float | None  # set where the sign is that no gap opened after so many passes


class Diverged(Verdict, tone="bad"):
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


class NotLearning(Verdict, tone="bad"):
    """The loss stands at that of guessing (or of knowing how frequent tokens are), at its first value, or at zero."""

    reason: Literal["uniform", "frequencies", "first_value", "zero"]
    level: float
    steps: int
    lr_zero: bool


class RepeatedBatches(Verdict, tone="bad"):
    """The batches that are read have a far lower loss than the training text as a whole: they are always the same."""

    step: int
    batch_loss: float
    train_loss: float


class NonFinite(Verdict):
    """The loss is NaN or infinite. `from_start`: a problem of the set-up, not a divergence."""

    step: int
    from_start: bool
    recovered: bool
    last_good_checkpoint: int | None
    last_finite_loss: float | None

    @property
    def tone(self) -> Tone:
        return "fair" if self.recovered else "bad"


class GradientNotFinite(Verdict, tone="bad"):
    """The gradient norm is NaN or infinite in many lines."""

    step: int
    count: int
    lines: int


class GradientExplosion(Verdict, tone="bad"):
    """The gradient norm has grown many times over, and stays up."""

    step: int
    before: float
    after: float


class GradientVanishing(Verdict):
    """The gradient norm has all but vanished while the learning rate has not."""

    before: float
    after: float


class ScaleCollapse(Verdict, tone="bad"):
    """The loss scale of float16 training was halved again and again."""

    first: float
    last: float
    step: int
    halvings: int


class TooShort(Verdict):
    """Too few steps to say anything about learning, or the learning rate is still warming up."""

    steps: int
    warming_up: bool = False


class Error(Verdict):
    """An error after the last step of the log; with `finished`, the training itself was complete by then."""

    line: int
    kind: ErrorKind
    message: str
    finished: bool

    @property
    def tone(self) -> Tone:
        return "fair" if self.finished else "bad"


class NoTraining(Verdict, tone="bad"):
    """The log holds no training line."""

    lines: int
