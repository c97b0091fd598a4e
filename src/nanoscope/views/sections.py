"""What every view says about a run, section by section; how it looks is the view's own matter."""

from typing import Literal

from nanoscope.analysis.findings import (
    Analysis,
    Diverged,
    Eta,
    Finding,
    Improving,
    LogError,
    NonFinite,
    NormalStep,
    NoTraining,
    Overfitting,
    SlowGroup,
    VerdictFinding,
)
from nanoscope.runs.run import Log
from nanoscope.untrusted import printable
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence
from nanoscope.words.timing import direction, naive_eta, why

MOST_ADVICE = 5
MOST_SPIKES = 3
STRIKING = 3.0  # times slower: such a step is explained however little it costs
WORTH_SHARE = 0.01  # of the time: below it, a phase's cost is not worth a line
LONG_S = 60.0  # of waiting: from here on, one would like to know what a faster step would bring


def source_line(log: Log, language: Language) -> str:
    """Where it was read, how long it is, and who wrote it."""
    say = language.say
    source = say("standard input") if log.source == "-" else printable(log.source)
    lines = language.plural("{n} line", "{n} lines", log.lines)
    if log.format == "none":
        return say("{source}: {lines}", source=source, lines=lines)
    if log.format == "generic":
        return say("{source}: {lines}, of an unknown trainer", source=source, lines=lines)
    return say("{source}: {lines}, format {format}", source=source, lines=lines, format=log.format)


def sections(analysis: Analysis, language: Language) -> list[tuple[str, list[str]]]:
    """Titles with their sentences; a section may have none."""
    say = language.say
    learnt = (analysis.train_loss, analysis.evals, analysis.warmup, *analysis.spikes[:MOST_SPIKES])
    return [
        (say("Timing"), [*_said(language, analysis.timing), *_timing(analysis, language)]),
        (say("Progress"), [*_said(language, analysis.progress), *_time_left(analysis, language)]),
        (say("Learning"), _said(language, *learnt, analysis.checkpoints, analysis.reading)),
        (say("Efficiency"), _said(language, analysis.mfu)),
    ]


def tone(verdict: VerdictFinding) -> Literal["good", "fair", "bad"]:
    """How alarming a verdict is."""
    if isinstance(verdict, Improving):
        return "good"
    severe = isinstance(verdict, Overfitting) and verdict.severity == "severe"
    if severe or isinstance(verdict, Diverged | NoTraining):
        return "bad"
    return "bad" if isinstance(verdict, NonFinite) and not verdict.recovered else "fair"


def safe_error(error: LogError) -> LogError:
    """The error with a message that may be shown."""
    return LogError(error.line, error.kind, printable(error.message))


def _said(language: Language, *findings: Finding | None) -> list[str]:
    return [sentence(finding, language) for finding in findings if finding is not None]


def _timing(analysis: Analysis, language: Language) -> list[str]:
    """The slow steps by cause, each reason told once, and what they cost together."""
    texts = []
    explained: set[str] = set()
    for group in analysis.slow_groups:
        if _is_negligible(group, analysis.timing):
            continue
        text = sentence(group, language)
        unexplained = tuple(cause for cause in group.causes if cause not in explained)
        if unexplained:
            text += " " + why(unexplained, language)
        begins = set(unexplained) & {"startup", "resume"}  # what else such a step held is told with the next ones
        explained.update(begins or unexplained)
        texts.append(text)
    costs = [cost for cost in analysis.phase_costs if cost.share >= WORTH_SHARE]
    texts.append(" ".join(sentence(cost, language) for cost in costs))
    return [*texts, *_said(language, analysis.hidden_evaluations)]


def _is_negligible(group: SlowGroup, normal: NormalStep | None) -> bool:
    """Whether these are stray steps that are hardly slower and cost next to nothing."""
    if normal is None or group.causes != ("stall",) or group.times_slower >= STRIKING:
        return False
    return group.extra_total_s < WORTH_SHARE * normal.mean_s * normal.steps


def _time_left(analysis: Analysis, language: Language) -> list[str]:
    eta = analysis.eta
    if eta is None or analysis.progress.finished:
        return []
    texts = [sentence(eta, language)]
    if isinstance(eta, Eta):
        texts += [naive_eta(eta, language), direction(eta, language)]
        if eta.expected_s > LONG_S:
            texts.append(" ".join(sentence(scenario, language) for scenario in eta.scenarios))
    return texts
