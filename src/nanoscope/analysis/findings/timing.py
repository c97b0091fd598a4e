"""Where the time goes, and how much of it is left."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding, Verdict
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


class SlowingDown(Verdict):
    """Steps take longer at the end than at the beginning."""

    first_third_s: float
    last_third_s: float
    share: float


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
