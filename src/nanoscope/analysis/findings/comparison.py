"""Several runs side by side: what differs, by how much, and what that rests on."""

from dataclasses import dataclass, field
from typing import Literal

from nanoscope.analysis.findings.analysis import Analysis
from nanoscope.analysis.findings.base import Confidence, Finding

RowMeasure = Literal[
    "last_step", "last_train_loss", "last_val_loss", "best_val_loss", "last_val_bpb", "best_val_bpb",
    "val_at_equal_steps", "train_at_equal_steps", "val_at_equal_tokens", "val_at_equal_time", "time_to_loss",
    "step_time", "throughput", "total_time", "mfu",
]  # fmt: skip
LossMeasure = Literal["val", "train"]
NoiseSource = Literal["windows", "repeats", "errors", "scatter"]
Setting = tuple[str, str]  # name and value


class ComparisonRow(Finding):
    """One measure of all runs; None: not in that log.

    `at` is the step, the tokens, the seconds or the loss at which it is taken.
    """

    measure: RowMeasure
    values: tuple[float | None, ...]
    best: int | None  # index of the run that is ahead, if runs can be ranked by it
    at: float | None


class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    key: str
    values: tuple[str | int | float | bool | None, ...]


class RankedSettings(Finding):
    """Runs of equal settings, and the mean of their losses at the step at which all runs are compared."""

    settings: tuple[Setting, ...]  # those that differ between groups
    runs: tuple[int, ...]  # the lowest loss first
    mean: float | None  # None: one of them is not finite
    spread: float | None  # standard deviation; None: one run


class Compared(Finding):
    """Base of what is said about several runs. Runs are numbers: their places in the comparison."""

    confidence: Confidence = field(default="likely", kw_only=True)


# --- which losses can be compared ---


class NotComparable(Compared):
    """The losses of `run` and `other` are not of the same data, tokenizer or unit."""

    run: int
    other: int
    reason: Literal["unit", "vocabulary", "data", "size", "start"]
    values: tuple[str, str]  # what differs


class SameData(Compared):
    """`run` and `other` name their data differently, but it is the same."""

    run: int
    other: int
    names: tuple[str, str]
    evidence: Literal["fingerprint", "size", "vocabulary"]
    vocab_size: int | None


class UnknownData(Compared):
    """The logs do not say what the runs learn from."""

    runs: tuple[int, ...]


# --- the loss ---


class Effect(Compared):
    """These runs differ in one setting and in nothing else that matters to what is learnt.

    `losses` are those of the `values`, averaged over the runs that have that value; None: not finite.
    """

    setting: str
    values: tuple[str, ...]
    losses: tuple[float | None, ...]
    runs: tuple[tuple[int, ...], ...]
    measure: LossMeasure
    step: int | None  # at which the losses are compared; None: each at its own end
    verdict: Literal["differs", "within_noise", "unclear"]
    best: int  # index into `values`
    difference: float  # between the best and the worst finite loss
    noise: float | None  # standard error of that difference
    noise_from: NoiseSource | None
    ties: tuple[str, ...]  # other values that are as good as the best one, within the noise
    edge: Literal["low", "high", "inside"] | None  # where the best lies in the range tried
    try_next: tuple[str, ...]
    fixed: tuple[Setting, ...]  # other settings of these runs, where they vary in the comparison
    small: bool  # so small a difference, without repeats, may be due to the seed


class Repeats(Compared):
    """Runs of the same settings: the noise against which all else is judged."""

    runs: tuple[int, ...]
    differ: Literal["seed", "nothing"]  # nothing: nothing in the logs tells them apart
    mean: float
    spread: float  # standard deviation
    low: float
    high: float
    measure: LossMeasure
    step: int | None
    fixed: tuple[Setting, ...]

    @property
    def count(self) -> int:
        return len(self.runs)


class Identical(Compared):
    """Runs whose losses agree to the last digit: whatever was changed between them had no effect."""

    runs: tuple[int, ...]
    settings: tuple[str, ...]  # the known ones that differ
    knows_settings: bool  # whether the logs show all of them
    loss: float
    measure: LossMeasure
    step: int | None

    @property
    def count(self) -> int:
        return len(self.runs)


class Confounded(Compared):
    """Several settings differ between `run` and `other`, so none of them can be named as the cause."""

    run: int
    other: int
    settings: tuple[str, ...]
    difference: float | None  # loss of `run` minus loss of `other`
    measure: LossMeasure | None
    step: int | None
    tell_apart: tuple[Setting, ...]  # `run` again with one of these values would tell


class Unexplained(Compared):
    """Two runs differ by more than their noise, and no setting in the logs explains it."""

    run: int
    other: int
    difference: float
    noise: float | None
    measure: LossMeasure
    step: int
    knows: Literal["settings", "some_settings", "no_settings"]  # that the logs show


class WithinNoise(Compared):
    """Two runs of the same settings differ by no more than their measured noise."""

    run: int
    other: int
    difference: float
    noise: float
    noise_from: NoiseSource
    measure: LossMeasure
    step: int


class FewerSteps(Compared):
    """`run` did fewer steps than `other`; both losses at the ends and at the last step that both reached."""

    run: int
    other: int
    steps: int
    other_steps: int
    equal_step: int | None  # None: the logs share no step
    losses_then: tuple[float, float] | None
    verdict: Literal["explains", "differs_too", "unclear", "no_common_step"]
    measure: LossMeasure


class ResumedWith(Compared):
    """A run was resumed with other settings: those that it has now hold only from there on."""

    run: int
    step: int
    settings: tuple[Setting, ...]


class Fault(Compared):
    """What went wrong in one run: its last loss is no measure of its settings."""

    run: int
    kind: Literal["overfitting", "diverged", "non_finite"]
    step: int | None
    best: float | None


class NoEffect(Compared):
    """A difference that does not explain another loss."""

    kind: Literal["device"]


# --- the time ---


class Work(Compared):
    """A step of `run` does `ratio` times the arithmetic of a step of `other`."""

    run: int
    other: int
    ratio: float
    source: Literal["mfu", "sizes"]
    time_ratio: float


class Speed(Compared):
    """How fast the steps are, from the fastest run to the slowest, and why."""

    run: int  # the slowest
    other: int  # the fastest
    seconds: float
    other_seconds: float
    reason: Literal["equal", "setting", "device", "several", "work", "machine", "same_machine", "unexplained"]
    settings: tuple[str, ...]
    values: tuple[str, str] | None  # of the one setting, in the slowest and in the fastest run

    @property
    def times_slower(self) -> float:
        return self.seconds / self.other_seconds


class Continued(Compared):
    """Where the shorter run would be at the longer one's last step, or why that is unknown."""

    run: int
    to_step: int
    low: float | None
    high: float | None
    measure: LossMeasure
    why_not: Literal["overfitting", "too_short", "too_far", "unsteady", "diverged"] | None


Data = NotComparable | SameData | UnknownData
Learnt = Effect | Repeats | Identical | Confounded | Unexplained | WithinNoise | FewerSteps | ResumedWith | Fault | Work


@dataclass(eq=False, repr=False)
class Experiment:
    """What several runs show together."""

    data: tuple[Data, ...]
    learnt: tuple[Learnt, ...]
    does_not_explain: tuple[NoEffect, ...]
    speed: tuple[Speed | Work, ...]
    ranked: bool  # whether the losses are of the same data, tokens and unit
    measure: LossMeasure | None  # of `losses`; None: the runs have no measure and step in common
    step: int | None
    losses: tuple[float, ...]


@dataclass(eq=False, repr=False)
class Comparison:
    """Several runs side by side."""

    names: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    experiment: Experiment
    rows: tuple[ComparisonRow, ...]
    ranking: tuple[RankedSettings, ...]  # where settings were repeated with other seeds: the best settings first
    config: tuple[ConfigDifference, ...]
    continued: tuple[Continued, ...]
