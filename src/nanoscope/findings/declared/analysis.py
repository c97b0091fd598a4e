"""A whole run: all its findings."""

from dataclasses import dataclass

from nanoscope.findings.declared.advice import Advice
from nanoscope.findings.declared.base import Verdict
from nanoscope.findings.declared.efficiency import Achieved, Mfu, Mismatch
from nanoscope.findings.declared.learning import (
    Checkpoints,
    Evaluations,
    Gap,
    GradientNorm,
    LossPlace,
    LossSpike,
    Schedule,
    TrainLoss,
)
from nanoscope.findings.declared.log import LogError, LogSummary, Reading, RunProgress
from nanoscope.findings.declared.timing import (
    Eta,
    HiddenEvaluations,
    NoEta,
    NoNormalStep,
    NormalStep,
    PhaseCost,
    SlowGroup,
    SlowRecord,
)


@dataclass(eq=False, repr=False)
class Analysis:
    """All that can be said about one run, in reading order."""

    summary: LogSummary
    reading: Reading
    verdicts: tuple[Verdict, ...]
    progress: RunProgress
    interruption: LogError | None
    timing: NormalStep | None
    no_normal_step: NoNormalStep | None
    slow_steps: tuple[SlowRecord, ...]
    slow_groups: tuple[SlowGroup, ...]
    phase_costs: tuple[PhaseCost, ...]
    hidden_evaluations: HiddenEvaluations | None
    eta: Eta | NoEta | None
    train_loss: TrainLoss
    evals: Evaluations | None
    place: LossPlace | None
    gap: Gap | None
    schedule: Schedule | None
    gradients: GradientNorm | None
    checkpoints: Checkpoints
    spikes: tuple[LossSpike, ...]
    mfu: Mfu | None
    achieved: Achieved | None
    mismatches: tuple[Mismatch, ...]
    advice: tuple[Advice, ...]
