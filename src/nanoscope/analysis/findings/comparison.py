"""Several runs side by side."""

from dataclasses import dataclass
from typing import Literal

from nanoscope.analysis.findings.analysis import Analysis
from nanoscope.analysis.findings.base import Finding

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
