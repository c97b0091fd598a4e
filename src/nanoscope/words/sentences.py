"""Which function says which finding."""

from collections.abc import Callable
from typing import Any

from nanoscope.analysis import findings as f
from nanoscope.words import advice, comparing, learning, timing, verdicts
from nanoscope.words.language import Language

_SENTENCES: dict[type[f.Finding], Callable[[Any, Language], str]] = {
    f.Reading: learning.reading,
    f.LogError: learning.error,
    f.Progress: learning.progress,
    f.NormalStep: timing.normal_step,
    f.SlowStep: timing.slow_step,
    f.SlowGroup: timing.slow_group,
    f.PhaseCost: timing.phase_cost,
    f.HiddenEvaluations: timing.hidden_evaluations,
    f.Scenario: timing.scenario,
    f.Eta: timing.eta,
    f.NoEta: timing.no_eta,
    f.TrainLoss: learning.train_loss,
    f.Evaluations: learning.evaluations,
    f.Checkpoints: learning.checkpoints,
    f.Improving: verdicts.improving,
    f.Plateau: verdicts.plateau,
    f.Overfitting: verdicts.overfitting,
    f.Memorising: verdicts.memorising,
    f.Diverged: verdicts.diverged,
    f.NonFinite: verdicts.non_finite,
    f.LossSpike: learning.loss_spike,
    f.SlowingDown: verdicts.slowing_down,
    f.TooShort: verdicts.too_short,
    f.NoTraining: verdicts.no_training,
    f.Warmup: learning.warmup,
    f.Mfu: learning.mfu,
    f.Advice: advice.advice,
}
_COMPARING: dict[type[f.Finding], Callable[[Any, Language, tuple[str, ...]], str]] = {
    f.ComparisonRow: comparing.comparison_row,
    f.ConfigDifference: comparing.config_difference,
    f.Explanation: comparing.explanation,
    f.Continued: comparing.continued,
}


def sentence(finding: f.Finding, language: Language, names: tuple[str, ...] = ()) -> str:
    """The finding in words: one or a few sentences, or nothing where it has nothing to tell.

    `names` are those of the compared runs, for the findings of a comparison.
    """
    if type(finding) in _COMPARING:
        return _COMPARING[type(finding)](finding, language, names)
    return _SENTENCES[type(finding)](finding, language)
