"""The one Run type: what a log says about a training run, whichever trainer wrote it.

Steps are kept as columns of machine numbers: a log may have millions of lines, too many for objects.
In the columns NaN means 'not printed'; a loss that was printed but is not finite is stored as +inf.
(Comparisons and representations are not generated, here and in findings/: they would slow the start of `explain`.)
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from nanoscope.runs.details import RunDetails

MISSING = float("nan")
NOT_FINITE = float("inf")

ConfigValue = str | int | float | bool
ErrorKind = Literal["out_of_memory", "exception", "killed", "interrupted"]
TimeSource = Literal["printed", "cumulative", "timestamps", "progress_bar"]


@dataclass(eq=False, repr=False)
class Traits:
    """What a trainer means by its numbers."""

    # Whether N steps are numbered 0 … N−1 (True) or end at N (False); None: judge by the first step number.
    last_is_total_minus_one: bool | None = None
    # The step whose printed time includes an evaluation: the same, the next or none; None: decide from the data.
    evaluation_in: Literal["same", "next", "none"] | None = None
    evaluates_every: int | None = None  # steps, as its script has it unless somebody changes it
    evaluates_last: bool = False  # also at the last step of all
    # The device whose peak the MFU is relative to, whatever the trainer runs on.
    mfu_assumes: str | None = None
    mfu_is_moving_average: bool = False
    trains_language_models: bool = False
    tok_s_per_device: bool = False
    total_keys: tuple[str, ...] = ("max_iters", "max_steps", "num_iterations", "total_steps", "train_steps")


OWN_FORMAT = "nanoscope"
OWN_TRAITS = Traits(
    last_is_total_minus_one=False,
    evaluation_in="none",
    evaluates_last=True,
    trains_language_models=True,
    total_keys=("max_iters",),
)


class Steps:
    """The steps, column by column. `time_s` is the time of one step."""

    def __init__(self) -> None:
        self.step = array("q")
        self.loss, self.time_s, self.lr, self.grad_norm, self.tok_s, self.mfu_pct = (array("d") for _ in range(6))

    def __len__(self) -> int:
        return len(self.step)

    def columns(self) -> "tuple[Any, ...]":
        """All columns, the steps first."""
        return self.step, self.loss, self.time_s, self.lr, self.grad_norm, self.tok_s, self.mfu_pct

    def extend(self, *columns: list[Any]) -> None:
        """Append many steps, given column by column."""
        for column, values in zip(self.columns(), columns, strict=True):
            column.fromlist(values)


class Series:
    """A number that lines carry besides the columns of `Steps`, at the steps where it was printed."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.values = array("d")


@dataclass(eq=False, repr=False)
class Evaluation:
    """One validation result; `train_loss` where the trainer measures it at the same time."""

    step: int
    val: float  # +inf: printed, but not finite
    train_loss: float | None = None
    metric: Literal["loss", "bpb"] = "loss"
    seconds: float | None = None  # where the log says how long it took
    stderr: float | None = None


@dataclass(eq=False, repr=False)
class SavedCheckpoint:
    """A checkpoint written at `step`; `seconds` where the log says how long training had to wait."""

    step: int
    seconds: float | None = None


@dataclass(eq=False, repr=False)
class LoggedError:
    """An error reported on a line of the log; `run` is the one it ended."""

    line: int
    kind: ErrorKind
    message: str
    run: "Run | None"


class Reading(NamedTuple):
    """One way to read a field. Readings of one descent (a column, a bar, the clock) are one witness."""

    value: Any
    why: str
    descent: str
    size: float | None = None  # as it is shown


@dataclass(eq=False, repr=False)
class Claim:
    """What a log says about a field: the readings that nothing refused, and the others with what refused them. Without
    a reading that counts it is a doubt."""

    name: str
    readings: list[Reading] = field(default_factory=list)
    refused: list[tuple[Reading, str]] = field(default_factory=list)

    @property
    def value(self) -> Any:
        return self.readings[0].value if self.readings else None


@dataclass(eq=False, repr=False)
class Run:
    """One training run, according to a log."""

    format: str
    traits: Traits
    steps: Steps = field(default_factory=Steps)
    evals: list[Evaluation] = field(default_factory=list)
    evaluated_at: list[int] = field(default_factory=list)  # steps of evaluations whose losses the log leaves out
    checkpoints: list[SavedCheckpoint] = field(default_factory=list)
    config: dict[str, ConfigValue] = field(default_factory=dict)
    total_steps: int | None = None
    said_finished: bool = False  # a line of the log says so
    failed: bool = False  # an error of the log ended it
    last_error: "LoggedError | None" = None  # the first one after its last step
    resumed_at: list[int] = field(default_factory=list)
    begins_with_resume: bool = False
    time_source: TimeSource = "printed"
    time_spans_steps: bool = False  # a time is the mean per step since the previous record
    clock_resolution_s: float | None = None  # of the clock that step times are differences of
    duplicates_dropped: int = 0
    wall_seconds: float | None = None  # as measured by the trainer, over all its sessions
    phases: dict[str, float] = field(default_factory=dict)  # seconds by phase, as nanoscope names them
    samples: int = 0
    # By name: 'loss_scale', 'memory_gb', 'data_s' (waiting for data), 'eta_s' (the time left, as printed),
    # 'lr_share' (of the full learning rate), …
    series: dict[str, Series] = field(default_factory=dict)
    steps_are_lines: bool = False  # the log does not number its steps: each line counts as one
    unit: Literal["step", "epoch"] = "step"  # what step numbers count
    is_language_model: bool | None = None  # None: nothing says so; only a language model's loss has a perplexity
    loss_in_bits: bool = False  # the loss is a base-2 logarithm (fairseq), not in nats
    loss_is_average: bool = False  # the printed training loss is smoothed, or the mean since the epoch began
    tok_s_per_device: bool = False  # printed tokens/s are one device's, not the whole run's
    doubts: list[Claim] = field(default_factory=list)
    unused_columns: tuple[str, ...] = ()  # of the records, where the format tells
    details: "RunDetails | None" = None  # what only nanoscope's own runs record

    def cut_from(self, step: int) -> None:
        """Drop `step` and what follows it: a resumed run prints it again."""
        for columns in (self.steps.columns(), *((series.steps, series.values) for series in self.series.values())):
            kept = bisect_left(columns[0], step)
            for column in columns:
                del column[kept:]
        self.evals = [evaluation for evaluation in self.evals if evaluation.step <= step]
        self.failed = self.said_finished = False
        self.last_error = None

    @property
    def first_step(self) -> int | None:
        return self.steps.step[0] if self.steps else None

    @property
    def last_step(self) -> int | None:
        return self.steps.step[-1] if self.steps else None


# What a line is: a step, an evaluation or a checkpoint; the step and the MFU that it shows.
ShownLine = tuple[Literal["step", "eval", "checkpoint"], int | None, float | None]
LINE_BITS = 10  # a place in a file is its line, shifted by so many bits, and which of its rows


@dataclass(eq=False, repr=False)
class Log:
    """All that was read from one source, with its runs in order of appearance."""

    source: str
    format: str
    runs: list[Run]
    errors: list[LoggedError]
    lines: int
    rejoined_lines: int = 0
    shown: dict[int, ShownLine] = field(default_factory=dict)  # by line, if it was asked for
    read_instead: str = ""  # the file beside it that was read, since it holds more
