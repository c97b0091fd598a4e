"""Several runs side by side: which losses can be compared, what the settings do, why some are faster."""

from collections.abc import Sequence
from itertools import combinations

from nanoscope.analysis.analyse import Options, analyse
from nanoscope.analysis.compare.continued import continued
from nanoscope.analysis.compare.data import comparable_groups
from nanoscope.analysis.compare.effects import learnt
from nanoscope.analysis.compare.lengths import fewer_steps
from nanoscope.analysis.compare.losses import Levels, levels_at_equal_steps
from nanoscope.analysis.compare.ranking import ranked_settings
from nanoscope.analysis.compare.settings import changed_settings, differs, is_shown, settings_of
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.compare.speed import DEVICE_KEYS, speeds
from nanoscope.analysis.compare.table import rows
from nanoscope.analysis.findings import (
    Analysis,
    Comparison,
    ConfigDifference,
    Diverged,
    Effect,
    Experiment,
    Fault,
    FewerSteps,
    Identical,
    Learnt,
    NoEffect,
    NonFinite,
    Overfitting,
    ResumedWith,
    Unexplained,
    UnknownData,
)
from nanoscope.runs.run import Run

MOST_FAULTS = 3  # runs whose own trouble is told; the table shows the others


def compare(
    runs: Sequence[Run],
    names: Sequence[str],
    options: Options | None = None,
    analyses: Sequence[Analysis] | None = None,
    same_log: bool = False,
) -> Comparison:
    """Put two or more runs side by side; `same_log`: they come from one log, so they learn from the same data."""
    analyses = tuple(analyses or (analyse(run, options) for run in runs))
    sides = _sides(runs, analyses)
    experiment, levels = _experiment(sides, same_log)
    return Comparison(
        names=tuple(names),
        analyses=analyses,
        experiment=experiment,
        rows=tuple(rows(sides, levels, experiment.ranked)),
        ranking=ranked_settings(sides, levels),
        config=_config_differences(sides),
        continued=tuple(continued(sides)) if experiment.ranked else (),
    )


def analyse_experiment(runs: Sequence[Run], analyses: Sequence[Analysis]) -> Experiment | None:
    """What the runs of one log show together; None if fewer than two went equally far."""
    sides = _sides(runs, analyses)
    longest = max((side.last_step for side in sides), default=0)
    whole = [side for side in sides if longest and side.last_step >= 0.95 * longest]
    return _experiment(whole, same_log=True)[0] if len(whole) > 1 else None


def _sides(runs: Sequence[Run], analyses: Sequence[Analysis]) -> list[Side]:
    return [
        Side(place, run, analysis, settings_of(run, analysis))
        for place, (run, analysis) in enumerate(zip(runs, analyses, strict=True))
    ]


def _experiment(sides: list[Side], same_log: bool) -> tuple[Experiment, Levels | None]:
    groups, data = comparable_groups(sides, same_log)
    ranked = len(groups) == 1
    levels = levels_at_equal_steps(sides) if ranked else None
    sure_of_data = not any(isinstance(finding, UnknownData) for finding in data)
    found = [finding for group in groups if len(group) > 1 for finding in _learnt(group, sure_of_data)]
    experiment = Experiment(
        data=tuple(data),
        learnt=tuple(found),
        does_not_explain=tuple(_no_effects(sides, found)),
        speed=tuple(speeds(sides, same_log)),
        ranked=ranked,
        measure=levels.measure if levels else None,
        step=levels.step if levels else None,
        losses=tuple(levels.of[side.place].loss for side in sides) if levels else (),
    )
    return experiment, levels


def _learnt(group: list[Side], sure_of_data: bool) -> list[Learnt]:
    found = learnt(group, sure_of_data)
    faults = [fault for side in group if (fault := _fault(side))]
    broken = {fault.run for fault in faults if fault.kind != "overfitting"}
    lengths = sorted((side for side in group if side.place not in broken), key=lambda side: side.last_step)
    shorter = fewer_steps(lengths[0], lengths[-1]) if len(lengths) > 1 else None
    if shorter is not None and not _is_told(shorter, found):
        found.append(shorter)
    return [*found, *(resumed for side in group for resumed in _resumed(side)), *faults[:MOST_FAULTS]]


def _is_told(shorter: FewerSteps, found: Sequence[Learnt]) -> bool:
    """Whether the lengths of two runs are part of another finding."""
    pair = {shorter.run, shorter.other}
    return any(
        (isinstance(f, Effect) and f.step is None) or (isinstance(f, Identical) and pair <= set(f.runs)) for f in found
    )


def _resumed(side: Side) -> list[ResumedWith]:
    """Where settings that can change what is learnt were changed."""
    resumes = side.run.details.resumes if side.run.details else []
    found = [(event.step, changed_settings({key: now for key, (_, now) in event.changed.items()})) for event in resumes]
    return [ResumedWith(side.place, step, settings, confidence="sure") for step, settings in found if settings]


def _fault(side: Side) -> Fault | None:
    """What went wrong in a run, by its own verdicts."""
    for verdict in side.analysis.verdicts:
        if isinstance(verdict, NonFinite) and not verdict.recovered:
            return Fault(side.place, "non_finite", verdict.step, verdict.last_finite_loss, confidence="sure")
        if isinstance(verdict, Diverged):
            return Fault(side.place, "diverged", verdict.step, verdict.best, confidence=verdict.confidence)
        if isinstance(verdict, Overfitting):
            best = verdict.best_val
            return Fault(side.place, "overfitting", verdict.onset_step, best, confidence=verdict.confidence)
    return None


def _no_effects(sides: list[Side], found: Sequence[Learnt]) -> list[NoEffect]:
    """Differences that people suspect first, where something else explains the losses."""
    explained = any(isinstance(f, Effect) and f.verdict == "differs" for f in found) or any(
        not isinstance(f, Unexplained) for f in found
    )
    if not explained or not any(differs([a, b], key) for a, b in combinations(sides, 2) for key in DEVICE_KEYS):
        return []
    return [NoEffect("device")]


def _config_differences(sides: list[Side]) -> tuple[ConfigDifference, ...]:
    keys = dict.fromkeys(key for side in sides for key in side.settings if is_shown(key))
    return tuple(
        ConfigDifference(key, tuple(side.settings.get(key) for side in sides)) for key in keys if differs(sides, key)
    )
