"""What the model has learnt, and the verdicts on it."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding, Verdict


class TrainLoss(Finding):
    """The training loss; `noise` is its scatter around its own trend."""

    first: float | None
    last: float | None
    min: float | None
    smoothed_last: float | None  # median of the last lines
    noise: float | None
    perplexity: float | None  # exp(smoothed_last), if it is a loss in nats
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
    noise: float | None
    perplexity: float | None
    bits_per_char: float | None


class Checkpoints(Finding):
    """Checkpoints written; `cost_s` only if evaluations with and without one can be compared."""

    count: int
    last_step: int | None
    cost_s: float | None


class Improving(Verdict):
    """Still getting better; `gain` over the last `over_steps` steps."""

    measure: Literal["val", "train"]
    gain: float
    over_steps: int


class Plateau(Verdict):
    """No longer getting better than its own noise."""

    measure: Literal["val", "train"]
    level: float
    since_step: int
    gain: float


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


class Memorising(Verdict):
    """A loss below anything that unseen text could have, and no validation loss to confirm it."""

    loss: float
    passes_over_data: float | None


class Diverged(Verdict):
    """The loss rose and stayed up."""

    step: int
    best: float
    last: float
    last_good_checkpoint: int | None


class NonFinite(Verdict):
    """The loss is NaN or infinite. `from_start`: a problem of the set-up, not a divergence."""

    step: int
    from_start: bool
    recovered: bool
    last_good_checkpoint: int | None
    last_finite_loss: float | None


class LossSpike(Finding):
    """A jump from which the run recovered."""

    step: int
    loss: float
    before: float
    recovered_step: int


class TooShort(Verdict):
    """Too few steps to say anything about learning."""

    steps: int


class NoTraining(Verdict):
    """The log holds no training line."""

    lines: int


class Warmup(Finding):
    """The learning rate is still rising, so the loss says little yet."""

    warmup_steps: int
    last_step: int
