"""Where the time goes, and how much of it is left."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding, Verdict
from nanoscope.messages import Message
from nanoscope.runs.run import TimeSource

Cause = Literal["startup", "evaluation", "checkpoint", "resume", "periodic", "stall"]


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
    jittery: bool  # many steps are far above the typical one, without a cause in the log
    clock_resolution_s: float | None  # set if the spread is only the clock's own steps
    includes_evaluation: bool | None  # whether printed times include the evaluation; None: unknown
    source: TimeSource
    throughput_tok_s: float | None
    tok_s_per_device: bool = False  # the throughput is one device's
    unit: Literal["step", "epoch"] = "step"  # what the times are those of


class NoNormalStep(Finding):
    """Every printed time is that of a step with an evaluation; `step` is the last one."""

    step: int
    time_s: float


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
    extra_total_s: float  # more than normal steps take, over the printed lines
    times_slower: float
    unit: Literal["step", "epoch"] = "step"  # what the step numbers count
    compiled: bool | None = False  # this is the first step, and the trainer compiles its model; None: it may
    inferred: bool = False  # the log leaves the evaluations out; only the distance of these steps shows them


class PhaseCost(Finding):
    """The total cost of a phase, including what no line shows; `share` is of the run's time so far."""

    phase: Literal["evaluation", "checkpoint", "startup", "sample"]
    count: int
    each_s: float
    total_s: float
    share: float
    with_evaluation: bool = False  # the start-up holds an evaluation, and no later one tells the two apart


class HiddenEvaluations(Finding):
    """Evaluations whose cost no printed line shows, because log_interval does not divide eval_interval."""

    hidden: int
    count: int
    log_interval: int
    eval_interval: int


class SlowStepsNormal(Verdict, tone="good"):
    """All slow steps are explained by what the trainer does besides training, evaluations among it."""

    steps: tuple[int, ...]  # with an evaluation, but for the first
    saves: Literal["always", "perhaps", "never"]  # whether a checkpoint is part of the times of those steps
    first_step: int | None  # with an evaluation and the start-up
    typical_s: float  # of a normal step

    def title(self) -> Message:
        one = len(self.steps) + (self.first_step is not None) == 1
        return Message("The slow step is normal") if one else Message("The slow steps are normal")


class SlowingDown(Verdict):
    """Steps take longer at the end than at the beginning, and nothing in the log says that they do more."""

    first_third_s: float
    last_third_s: float
    share: float
    since_step: int | None = None  # set where the change was sudden
    unit: Literal["step", "epoch"] = "step"

    TITLE = Message("Slowing down")


class WaitingForData(Verdict):
    """A noticeable part of a step is spent waiting for its data."""

    data_s: float
    step_s: float  # with the waiting
    share: float
    records: int

    TITLE = Message("Waiting for data")


class MemoryGrowth(Verdict):
    """Memory grows steadily, beyond what the first steps need."""

    first_gb: float
    last_gb: float
    first_step: int
    last_step: int
    share: float

    TITLE = Message("Memory keeps growing")


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
    eval_each_s: float | None  # None: not visible in the log, or part of no printed time
    checkpoints_left: int
    checkpoint_each_s: float | None  # None: part of eval_each_s, or not visible
    scenarios: tuple[Scenario, ...]
    # 'forecast': none was seen, the run foresees their cost; 'likely': their cost is part of the first step's;
    # 'left_out': how often they come is unknown; 'none': invisible
    evaluations: Literal["known", "forecast", "likely", "left_out", "none"] = "none"
    printed_s: float | None = None  # the time left as the trainer itself prints it
    printed_disagrees: bool = False  # by more than both ranges
    unit: Literal["step", "epoch"] = "step"  # what the steps are


class NoEta(Finding):
    """Why the time left cannot be estimated; `thousand_s` still tells how long 1,000 steps take."""

    reason: Literal["total_unknown", "no_times", "no_normal_step", "not_finite"]
    step_s: float | None
    evals_in_thousand: int = 0  # evaluations that come within 1,000 steps
    eval_each_s: float | None = None

    @property
    def steps_s(self) -> float:
        return 1000 * (self.step_s or 0.0)

    @property
    def thousand_s(self) -> float:
        return self.steps_s + self.evals_in_thousand * (self.eval_each_s or 0.0)
