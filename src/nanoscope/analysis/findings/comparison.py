"""Several runs side by side: what differs, by how much, and what that rests on."""

from dataclasses import dataclass, field
from typing import Literal

from nanoscope.analysis.findings.analysis import Analysis
from nanoscope.analysis.findings.base import Confidence, Finding

LossMeasure = Literal["val", "train"]
NoiseSource = Literal["windows", "errors", "scatter"]
Setting = tuple[str, str]  # name and value


class ComparisonRow(Finding):
    """A run at the step at which all are compared, or repeats of the same settings; the lowest loss first."""

    runs: tuple[int, ...]  # the lowest loss first
    steps: int
    loss: float | None  # of repeats, the mean; None: not finite, or nothing to compare it with
    spread: float | None  # of repeats, the standard deviation
    difference: float | None  # to the first row, and the error of the two models' evaluations
    difference_error: float | None
    best_val: float | None
    metric: Literal["loss", "bpb"]
    step_seconds: float | None
    wall_seconds: float | None
    settings: tuple[Setting, ...]  # in which it differs from the first row
    ranked: bool  # whether its loss can be held against that of the first row


class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    key: str
    values: tuple[str | int | float | bool | None, ...]


class Compared(Finding):
    """Base of what is said about several runs. Runs are numbers: their places in the comparison."""

    confidence: Confidence = field(default="likely", kw_only=True)


class NotComparable(Compared):
    """The losses of `run` and `other` are not of the same data, tokenizer or unit."""

    run: int
    other: int
    reason: Literal["unit", "vocabulary", "data", "start"]
    values: tuple[str, ...]  # what differs, where it can be told


class UnknownData(Compared):
    """The logs do not say what the runs learn from."""

    runs: tuple[int, ...]


class Effect(Compared):
    """These runs differ in one setting and in nothing else that matters to what is learnt.

    `losses` are those of the `values`, averaged over the runs that have that value; None: not finite. The verdict is
    `models` where the two models differ, but repeats would have to show that it is the setting which does that.
    """

    setting: str
    values: tuple[str, ...]
    losses: tuple[float | None, ...]
    runs: tuple[tuple[int, ...], ...]
    measure: LossMeasure
    step: int | None  # at which the losses are compared; None: each at its own end
    verdict: Literal["differs", "models", "unclear", "within_noise"]
    best: int  # index into `values`
    difference: float  # between the best and the worst finite loss
    noise: float | None  # what the verdict rests on: the error of that difference, or the assumed spread of seeds
    noise_from: NoiseSource | Literal["repeats", "seeds"] | None
    ties: tuple[str, ...]  # other values that are as good as the best one, within the noise
    edge: Literal["low", "high", "inside"] | None  # where the best lies in the range tried
    fixed: tuple[Setting, ...]  # other settings of these runs, where they vary in the comparison
    among: tuple[int, ...]  # these runs, where others are compared too and no setting of these tells which
    seed_differs: bool  # as well, and no run was repeated


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
    unexplained: Literal["settings", "some_settings", "no_settings"] | None  # that the logs show

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
    device_differs: bool


@dataclass(eq=False, repr=False)
class Comparison:
    """Several runs side by side."""

    names: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    findings: tuple[Compared, ...]
    rows: tuple[ComparisonRow, ...]
    config: tuple[ConfigDifference, ...]
    ranked: bool  # whether the losses are of the same data, tokens and unit
    measure: LossMeasure | None  # of the losses in the rows; None: the runs have no measure and step in common
    step: int | None
