"""What can be said about a run: every finding is a code and its numbers, and holds no prose.

`analyse()` fills one `Analysis` a run; its fields are findings (or None where the log does not tell), so that
words, views and the JSON schema all read from the same numbers. Times are seconds, shares are fractions of 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from nanoscope.runs.run import ErrorKind, TimeSource

Verdict = Literal[
    "improving",
    "plateau",
    "overfitting",
    "memorising",
    "diverged",
    "non_finite",
    "slowing_down",
    "too_short",
    "no_training",
]
Cause = Literal["startup", "evaluation", "checkpoint", "resume", "periodic", "stall"]
MfuTrust = Literal["ok", "wrong_peak", "smoothing_lag", "unmeasured"]
MfuReason = Literal[
    "matches_device",
    "above_one",
    "assumes_other_device",
    "device_unknown",
    "moving_average",
    "not_measured",
    "peak_unknown",
    "trainer_knows_device",
]


class Finding:
    """Anything that can be said; `code` is the key under which `words` keeps the sentence.

    Comparison and representation are written once, here: forty generated copies would slow the start of `explain`.
    """

    code: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


# --- reading ---


@dataclass(eq=False, repr=False)
class Reading(Finding):
    """What was read: which format, how much of it, and what had to be ignored or mended."""

    code: ClassVar[str] = "reading"
    format: str
    lines: int  # of the whole log
    steps_logged: int
    first_step: int | None
    last_step: int | None
    log_interval: int | None  # steps from one printed line to the next
    duplicates_dropped: int  # lines printed twice, or once a rank
    rejoined_lines: int  # records that a terminal had wrapped
    resumed_at: tuple[int, ...]  # steps at which the run was taken up again
    begins_mid_run: bool  # the log starts after the run did
    elided: bool  # steps are missing from the middle


@dataclass(eq=False, repr=False)
class LogError(Finding):
    """An error that the log shows (of the log, not of one run)."""

    code: ClassVar[str] = "error"
    line: int
    kind: ErrorKind
    message: str


@dataclass(eq=False, repr=False)
class Progress(Finding):
    """How far the run is. `total_steps` is None where neither the log nor the person says it."""

    code: ClassVar[str] = "progress"
    last_step: int | None
    total_steps: int | None
    steps_left: int | None
    finished: bool | None
    tokens_per_step: int | None
    tokens_seen: int | None
    passes_over_data: float | None  # where the log says how many tokens there are


# --- timing ---


@dataclass(eq=False, repr=False)
class NormalStep(Finding):
    """The time of steps that carry no start-up, evaluation or checkpoint."""

    code: ClassVar[str] = "timing.normal"
    typical_s: float
    low_s: float  # 5th percentile
    high_s: float  # 95th percentile
    mean_s: float
    steps: int
    trend_share: float | None  # change of the typical time from the first third to the last
    first_third_s: float | None
    last_third_s: float | None
    slowing_down: bool
    jittery: bool  # many steps far above the typical one, without a cause in the log
    clock_resolution_s: float | None  # set where the spread is only the clock's own steps
    includes_evaluation: bool | None  # whether printed times hold the evaluation; None: no way to tell
    source: TimeSource
    throughput_tok_s: float | None


@dataclass(eq=False, repr=False)
class SlowStep(Finding):
    """A printed time that stands out of the run's own spread."""

    code: ClassVar[str] = "timing.slow_step"
    step: int
    time_s: float
    extra_s: float
    causes: tuple[Cause, ...]


@dataclass(eq=False, repr=False)
class SlowGroup(Finding):
    """All the slow steps with the same causes: what they cost together."""

    code: ClassVar[str] = "timing.slow_group"
    causes: tuple[Cause, ...]
    count: int
    first_step: int
    last_step: int
    period_steps: int | None  # the distance between them, where it is regular
    typical_s: float
    extra_total_s: float  # over the printed lines
    times_slower: float


@dataclass(eq=False, repr=False)
class PhaseCost(Finding):
    """What evaluation or checkpoints cost in all, hidden ones too; `share` is of the run's time so far."""

    code: ClassVar[str] = "timing.phase_cost"
    phase: Literal["evaluation", "checkpoint", "startup", "sample"]
    count: int
    each_s: float
    total_s: float
    share: float


@dataclass(eq=False, repr=False)
class HiddenEvaluations(Finding):
    """Evaluations whose cost no printed line shows: log_interval does not divide eval_interval."""

    code: ClassVar[str] = "timing.hidden_evaluations"
    hidden: int
    count: int
    log_interval: int
    eval_interval: int


# --- what is left ---


@dataclass(eq=False, repr=False)
class Scenario(Finding):
    """'If a step took this long, the rest would take that long.'"""

    code: ClassVar[str] = "eta.scenario"
    step_s: float
    remaining_s: float


@dataclass(eq=False, repr=False)
class Eta(Finding):
    """The time left: steps × mean step + evaluations and checkpoints to come."""

    code: ClassVar[str] = "eta"
    expected_s: float
    low_s: float
    high_s: float
    naive_s: float  # steps left × the last printed time
    steps_left: int
    step_s: float  # the mean used
    evals_left: int
    eval_each_s: float | None  # None: not visible in the log
    checkpoints_left: int
    checkpoint_each_s: float | None  # None: inside eval_each_s, or not visible
    moving_average_s: float  # over the last `moving_average_steps` normal lines
    moving_average_lines: int
    direction: Literal["faster", "slower", "steady"]
    scenarios: tuple[Scenario, ...]


@dataclass(eq=False, repr=False)
class NoEta(Finding):
    """Why no time left can be given. `step_s` still serves for 'N steps would take …'."""

    code: ClassVar[str] = "eta.none"
    reason: Literal["total_unknown", "no_times", "not_finite"]
    step_s: float | None


# --- learning ---


@dataclass(eq=False, repr=False)
class TrainLoss(Finding):
    """The training loss; `noise` is its scatter around its own trend."""

    code: ClassVar[str] = "loss.train"
    first: float | None
    last: float | None
    min: float | None
    smoothed_last: float | None  # median of the last lines
    noise: float | None
    perplexity: float | None  # exp(smoothed_last), where it is a loss in nats
    bits_per_char: float | None  # only where a token is a character
    vocab_size: int | None
    uniform_loss: float | None  # ln(vocab_size): what knowing nothing costs
    first_is_uniform: bool | None  # a healthy start; None if the log does not begin at the beginning


@dataclass(eq=False, repr=False)
class Evaluations(Finding):
    """The validation results, and what one evaluation costs."""

    code: ClassVar[str] = "evals"
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


@dataclass(eq=False, repr=False)
class Checkpoints(Finding):
    """Checkpoints written; `cost_s` only where evaluations with and without one can be told apart."""

    code: ClassVar[str] = "checkpoints"
    count: int
    last_step: int | None
    cost_s: float | None


@dataclass(eq=False, repr=False)
class Improving(Finding):
    """Still getting better; `gain` over the last `over_steps` steps."""

    code: ClassVar[str] = "verdict.improving"
    measure: Literal["val", "train"]
    gain: float
    over_steps: int


@dataclass(eq=False, repr=False)
class Plateau(Finding):
    """No longer getting better than its own noise."""

    code: ClassVar[str] = "verdict.plateau"
    measure: Literal["val", "train"]
    level: float
    since_step: int
    gain: float


@dataclass(eq=False, repr=False)
class Overfitting(Finding):
    """Validation is past its best while training loss falls on. `onset_step` None: one evaluation to judge by."""

    code: ClassVar[str] = "verdict.overfitting"
    onset_step: int | None
    best_val: float | None
    last_val: float
    last_train: float | None
    rise: float | None  # last validation loss above the best
    wasted_steps: int | None
    wasted_share: float | None
    severity: Literal["slight", "clear", "severe"]


@dataclass(eq=False, repr=False)
class Memorising(Finding):
    """A loss below anything that unseen text could have, and no validation to prove it on."""

    code: ClassVar[str] = "verdict.memorising"
    loss: float
    passes_over_data: float | None


@dataclass(eq=False, repr=False)
class Diverged(Finding):
    """The loss rose and stayed up."""

    code: ClassVar[str] = "verdict.diverged"
    step: int
    best: float
    last: float
    last_good_checkpoint: int | None


@dataclass(eq=False, repr=False)
class NonFinite(Finding):
    """The loss is NaN or infinite. `from_start`: a problem of set-up, not a divergence."""

    code: ClassVar[str] = "verdict.non_finite"
    step: int
    from_start: bool
    recovered: bool
    last_good_checkpoint: int | None
    last_finite_loss: float | None


@dataclass(eq=False, repr=False)
class LossSpike(Finding):
    """A jump that the run got over."""

    code: ClassVar[str] = "loss.spike"
    step: int
    loss: float
    before: float
    recovered_step: int


@dataclass(eq=False, repr=False)
class SlowingDown(Finding):
    """Steps take longer at the end than at the beginning."""

    code: ClassVar[str] = "verdict.slowing_down"
    first_third_s: float
    last_third_s: float
    share: float


@dataclass(eq=False, repr=False)
class TooShort(Finding):
    """Too few steps for any statement about learning."""

    code: ClassVar[str] = "verdict.too_short"
    steps: int


@dataclass(eq=False, repr=False)
class NoTraining(Finding):
    """The log holds no training line."""

    code: ClassVar[str] = "verdict.no_training"
    lines: int


@dataclass(eq=False, repr=False)
class Warmup(Finding):
    """The learning rate is still rising: the loss says little yet."""

    code: ClassVar[str] = "loss.warmup"
    warmup_steps: int
    last_step: int


# --- efficiency ---


@dataclass(eq=False, repr=False)
class Mfu(Finding):
    """The printed MFU, whether to believe it, and what it is on the device at hand."""

    code: ClassVar[str] = "mfu"
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
    "raise_eval_interval",
    "checkpoint_less",
    "stop_at_best",
    "use_best_checkpoint",
    "add_validation",
    "regularise",
    "train_longer",
    "lower_learning_rate",
    "resume_from_checkpoint",
    "find_stalls",
    "stop_slowdown",
    "align_log_interval",
    "check_setup",
    "less_memory",
]


@dataclass(eq=False, repr=False)
class Advice(Finding):
    """One thing to do, with what it is estimated to bring; the list is ranked by gain.

    `setting`, `from_value`, `to_value` are given where the advice is a setting ('eval_interval', 500, 2000).
    `saves_s` of `of_s`: seconds of the run's whole time (or of what is left, where that is known).
    """

    code: ClassVar[str] = "advice"
    action: AdviceAction
    setting: str | None = None
    from_value: float | None = None
    to_value: float | None = None
    saves_s: float | None = None
    of_s: float | None = None
    loss_gain: float | None = None
    step: int | None = None  # the step meant: the best validation, the last good checkpoint


# --- the whole ---

VerdictFinding = (
    Improving | Plateau | Overfitting | Memorising | Diverged | NonFinite | SlowingDown | TooShort | NoTraining
)


@dataclass(eq=False, repr=False)
class Analysis:
    """All that can be said about one run, in reading order: `findings()` yields what there is."""

    reading: Reading
    verdicts: tuple[VerdictFinding, ...]
    progress: Progress
    timing: NormalStep | None
    slow_steps: tuple[SlowStep, ...]
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

    def findings(self) -> Iterator[Finding]:
        """Every finding, section by section."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Finding):
                yield value
            elif isinstance(value, tuple):
                yield from value


# --- comparing ---

RowMeasure = Literal[
    "last_step",
    "last_train_loss",
    "last_val_loss",
    "best_val_loss",
    "val_at_equal_steps",
    "val_at_equal_tokens",
    "val_at_equal_time",
    "time_to_loss",
    "step_time",
    "throughput",
    "total_time",
    "mfu",
]
RowReason = Literal[
    "fewer_steps",
    "other_model",
    "other_batch",
    "other_data",
    "other_settings",
    "overfitting",
    "faster_machine",
    "same",
    "within_noise",
    "not_reached",
    "not_in_log",
]


@dataclass(eq=False, repr=False)
class ComparisonRow(Finding):
    """One measure of all the runs (None: not in that log) and why they differ.

    `at` is the step, tokens, seconds or loss at which it is taken.
    """

    code: ClassVar[str] = "compare.row"
    measure: RowMeasure
    values: tuple[float | None, ...]
    best: int | None  # index of the run that is ahead
    at: float | None
    reason: RowReason


@dataclass(eq=False, repr=False)
class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    code: ClassVar[str] = "compare.config"
    key: str
    values: tuple[str | int | float | bool | None, ...]


@dataclass(eq=False, repr=False)
class Explanation(Finding):
    """What explains, or does not explain, that `run` ends at another loss than `other`."""

    code: ClassVar[str] = "compare.explanation"
    reason: Literal[
        "fewer_steps",
        "other_model",
        "other_batch",
        "other_data",
        "overfitting",
        "device",
        "precision",
        "noise",
    ]
    explains: bool
    run: int
    other: int
    loss_difference: float | None


@dataclass(eq=False, repr=False)
class Continued(Finding):
    """Where the shorter run would be at the longer one's step; None: it cannot be told."""

    code: ClassVar[str] = "compare.continued"
    run: int
    to_step: int
    low: float | None
    high: float | None
    why_not: Literal["overfitting", "too_short", "no_evaluations", "diverged", "schedule_ended"] | None


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
