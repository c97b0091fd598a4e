"""What can be said about a run: every finding is a type and its numbers, and holds no prose.

`analyse()` fills one `Analysis` per run. Its fields are findings, or None where the log does not have the numbers, so
words, views and the JSON schema all read the same figures. Times are in seconds, shares are fractions of 1.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, dataclass_transform

from nanoscope.runs.run import ErrorKind, TimeSource

Cause = Literal["startup", "evaluation", "checkpoint", "resume", "periodic", "stall"]
MfuTrust = Literal["ok", "wrong_peak", "smoothing_lag", "unmeasured"]
MfuReason = Literal[
    "matches_device", "above_one", "assumes_other_device", "device_unknown", "moving_average", "not_measured",
    "peak_unknown", "trainer_knows_device",
]  # fmt: skip


@dataclass_transform(eq_default=False)
class Finding:
    """Base of all findings: each subclass is a dataclass, and `code` is its name in snake_case.

    Comparison and representation are written once, here: forty generated copies would slow the start of `explain`.
    """

    code: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        dataclass(eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


# --- the log ---


class LogSummary(Finding):
    """How much of the run the log holds, and what had to be ignored or repaired."""

    steps_logged: int
    first_step: int | None
    last_step: int | None
    duplicates_dropped: int  # lines printed twice, or once per rank
    rejoined_lines: int  # records that a terminal had wrapped
    resumed_at: tuple[int, ...]  # steps
    begins_mid_run: bool  # the log starts after the run did
    elided: bool  # steps are missing from the middle


class LogError(Finding):
    """An error that the log shows (of the log, not of one run)."""

    line: int
    kind: ErrorKind
    message: str


class RunProgress(Finding):
    """How far the run is. `total_steps` is None if neither the log nor the user gives it."""

    last_step: int | None
    total_steps: int | None
    steps_left: int | None
    finished: bool | None
    tokens_per_step: int | None
    tokens_seen: int | None
    passes_over_data: float | None  # if the log says how many tokens there are


# --- timing ---


class NormalStep(Finding):
    """The time of steps that carry no start-up, evaluation or checkpoint."""

    typical_s: float
    low_s: float  # 5th percentile
    high_s: float  # 95th percentile
    mean_s: float
    steps: int
    trend_share: float | None  # change of the typical time from the first third to the last
    first_third_s: float | None
    last_third_s: float | None
    slowing_down: bool
    jittery: bool  # many steps are far above the typical one, without a cause in the log
    clock_resolution_s: float | None  # set if the spread is only the clock's own steps
    includes_evaluation: bool | None  # whether printed times include the evaluation; None: unknown
    source: TimeSource
    throughput_tok_s: float | None


class SlowRecord(Finding):
    """A printed time that stands out of the run's own spread."""

    step: int
    time_s: float
    extra_s: float
    causes: tuple[Cause, ...]


class SlowGroup(Finding):
    """All slow records with the same causes, and what they cost together."""

    causes: tuple[Cause, ...]
    count: int
    first_step: int
    period_steps: int | None  # the distance between them, if it is regular
    typical_s: float
    extra_total_s: float  # over the printed lines
    times_slower: float


class PhaseCost(Finding):
    """The total cost of a phase, including what no line shows; `share` is of the run's time so far."""

    phase: Literal["evaluation", "checkpoint", "startup", "sample"]
    count: int
    each_s: float
    total_s: float
    share: float


class HiddenEvaluations(Finding):
    """Evaluations whose cost no printed line shows, because log_interval does not divide eval_interval."""

    hidden: int
    count: int
    log_interval: int
    eval_interval: int


# --- the time left ---


class Scenario(Finding):
    """The time left if a step took `step_s`."""

    step_s: float
    remaining_s: float


class Eta(Finding):
    """The time left: steps × mean step + the evaluations and checkpoints to come."""

    expected_s: float
    low_s: float
    high_s: float
    naive_s: float  # steps left × the last printed time
    steps_left: int
    step_s: float  # the mean used
    evals_left: int
    eval_each_s: float | None  # None: not visible in the log
    checkpoints_left: int
    checkpoint_each_s: float | None  # None: part of eval_each_s, or not visible
    moving_average_s: float  # over the last `moving_average_lines` normal lines
    moving_average_lines: int
    direction: Literal["faster", "slower", "steady"]
    scenarios: tuple[Scenario, ...]


class NoEta(Finding):
    """Why the time left cannot be estimated; `step_s` still tells how long N steps take."""

    reason: Literal["total_unknown", "no_times", "not_finite"]
    step_s: float | None


# --- learning ---


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


class Improving(Finding):
    """Still getting better; `gain` over the last `over_steps` steps."""

    measure: Literal["val", "train"]
    gain: float
    over_steps: int


class Plateau(Finding):
    """No longer getting better than its own noise."""

    measure: Literal["val", "train"]
    level: float
    since_step: int
    gain: float


class Overfitting(Finding):
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


class Memorising(Finding):
    """A loss below anything that unseen text could have, and no validation loss to confirm it."""

    loss: float
    passes_over_data: float | None


class Diverged(Finding):
    """The loss rose and stayed up."""

    step: int
    best: float
    last: float
    last_good_checkpoint: int | None


class NonFinite(Finding):
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


class SlowingDown(Finding):
    """Steps take longer at the end than at the beginning."""

    first_third_s: float
    last_third_s: float
    share: float


class TooShort(Finding):
    """Too few steps to say anything about learning."""

    steps: int


class NoTraining(Finding):
    """The log holds no training line."""

    lines: int


class Warmup(Finding):
    """The learning rate is still rising, so the loss says little yet."""

    warmup_steps: int
    last_step: int


# --- efficiency ---


class Mfu(Finding):
    """The printed MFU, whether to believe it, and what it is on the actual device."""

    logged: float | None  # median of the printed values, as a fraction; None if never measured
    last: float | None
    trust: MfuTrust
    reason: MfuReason
    assumed_device: str | None
    device: str | None
    peak_tflops: float | None
    peak_source: str | None
    recomputed: float | None  # fraction of the peak of `device`
    lag: float | None  # how far slow steps pull the printed moving average down, as a fraction of MFU


# --- advice ---

AdviceAction = Literal[
    "raise_eval_interval", "checkpoint_less", "stop_at_best", "use_best_checkpoint", "add_validation", "regularise",
    "train_longer", "lower_learning_rate", "resume_from_checkpoint", "find_stalls", "stop_slowdown",
    "align_log_interval", "check_setup", "less_memory",
]  # fmt: skip


class Advice(Finding):
    """One thing to do, with its estimated gain; the list of a run is ranked by gain.

    `setting`, `from_value`, `to_value` are set if the advice is a setting ('eval_interval', 500, 2000).
    `saves_s` of `of_s`: seconds of the run's whole time (or of the time left, if that is known).
    """

    action: AdviceAction
    setting: str | None = None
    from_value: float | None = None
    to_value: float | None = None
    saves_s: float | None = None
    of_s: float | None = None
    loss_gain: float | None = None
    step: int | None = None  # of the best validation loss, or of the last good checkpoint


# --- what a run noted about itself while it trained; made in analysis/notes.py ---


class RollbackNote(Finding):
    """The loss was not finite, and the run went back to step `to`."""

    step: int
    to: int


class OutOfMemoryNote(Finding):
    step: int
    micro_batch_before: int
    micro_batch: int


class SpikeNote(Finding):
    step: int
    loss: float
    usual: float


class SlowStepNote(Finding):
    step: int
    seconds: float
    usual: float
    cause: Literal["asleep", "data", "checkpoint", "busy", "unknown"]


class AsleepNote(Finding):
    """The machine was suspended."""

    step: int
    seconds: float


class CheckpointFailedNote(Finding):
    step: int
    message: str


NoteFinding = RollbackNote | OutOfMemoryNote | SpikeNote | SlowStepNote | AsleepNote | CheckpointFailedNote


# --- a whole run ---

VerdictFinding = (
    Improving | Plateau | Overfitting | Memorising | Diverged | NonFinite | SlowingDown | TooShort | NoTraining
)


@dataclass(eq=False, repr=False)
class Analysis:
    """All that can be said about one run, in reading order."""

    summary: LogSummary
    verdicts: tuple[VerdictFinding, ...]
    progress: RunProgress
    timing: NormalStep | None
    slow_steps: tuple[SlowRecord, ...]
    slow_groups: tuple[SlowGroup, ...]
    phase_costs: tuple[PhaseCost, ...]
    hidden_evaluations: HiddenEvaluations | None
    eta: Eta | NoEta | None
    train_loss: TrainLoss
    evals: Evaluations | None
    checkpoints: Checkpoints
    spikes: tuple[LossSpike, ...]
    warmup: Warmup | None
    mfu: Mfu | None
    advice: tuple[Advice, ...]


# --- several runs ---

RowMeasure = Literal[
    "last_step", "last_train_loss", "last_val_loss", "best_val_loss", "val_at_equal_steps", "val_at_equal_tokens",
    "val_at_equal_time", "time_to_loss", "step_time", "throughput", "total_time", "mfu",
]  # fmt: skip
RowReason = Literal[
    "fewer_steps", "other_model", "other_batch", "other_data", "other_settings", "overfitting", "faster_machine",
    "same", "within_noise", "not_in_log",
]  # fmt: skip


class ComparisonRow(Finding):
    """One measure of all runs (None: not in that log) and why they differ.

    `at` is the step, the tokens, the seconds or the loss at which it is taken.
    """

    measure: RowMeasure
    values: tuple[float | None, ...]
    best: int | None  # index of the run that is ahead
    at: float | None
    reason: RowReason


class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    key: str
    values: tuple[str | int | float | bool | None, ...]


class Explanation(Finding):
    """What explains, or does not explain, that `run` ends at another loss than `other`."""

    reason: Literal[
        "fewer_steps", "other_model", "other_batch", "other_data", "overfitting", "device", "precision", "noise"
    ]
    explains: bool
    run: int
    other: int
    loss_difference: float | None


class Continued(Finding):
    """Where the shorter run would be at the longer one's last step, or why that is unknown."""

    run: int
    to_step: int
    low: float | None
    high: float | None
    why_not: Literal["overfitting", "too_short", "no_evaluations", "diverged"] | None


@dataclass(eq=False, repr=False)
class Comparison:
    """Several runs side by side."""

    names: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    rows: tuple[ComparisonRow, ...]
    config: tuple[ConfigDifference, ...]
    explanations: tuple[Explanation, ...]
    continued: tuple[Continued, ...]
    speed_ratio: float | None  # the second run's step time over the first's, at their own models and batches
