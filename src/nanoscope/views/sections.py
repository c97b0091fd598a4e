"""The texts about a run, section by section, as every view shows them."""

from collections.abc import Sequence

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.declared import Diverged, Error, Finding, LogError, ScheduleEnded
from nanoscope.findings.eta import Eta
from nanoscope.findings.slow import SlowGroup
from nanoscope.findings.timing import NormalStep
from nanoscope.messages import printable
from nanoscope.runs.run import Log
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence

MOST_ADVICE = 5
MOST_SPIKES = 3
STRIKING = 3.0  # times slower: such a step is explained however little it costs
WORTH_SHARE = 0.01  # of the time: a phase that costs less gets no line
LARGE_SHARE = 0.2  # of the time: such a phase comes before everything else about time
LONG_S = 60.0  # of waiting: from here on, what a faster step would bring is of interest


def source_line(log: Log, language: Language) -> str:
    """The file, its length, and the format."""
    say = language.say
    source = say("standard input") if log.source == "-" else printable(log.source)
    lines = language.say("{n} line", "{n} lines", n=log.lines)
    if log.read_instead:
        return say("{source}: read from {file} beside it, which holds more", source=source, file=log.read_instead)
    if log.format == "none":
        return say("{source}: {lines}", source=source, lines=lines)
    if log.format == "generic":
        return say("{source}: {lines}, of an unknown trainer", source=source, lines=lines)
    return say("{source}: {lines}, format {format}", source=source, lines=lines, format=log.format)


def sections(analysis: Analysis, language: Language) -> list[tuple[str, list[str]]]:
    """Titles with their texts; texts may be empty."""
    say = language.say
    scheduled = any(isinstance(verdict, ScheduleEnded) for verdict in analysis.verdicts)  # it says the schedule
    broken = {verdict.step for verdict in analysis.verdicts if isinstance(verdict, Diverged)}
    learned = (
        analysis.train_loss,
        analysis.evals,
        analysis.place,
        analysis.gap,
        None if scheduled else analysis.schedule,
        analysis.gradients,
        *[spike for spike in analysis.spikes if spike.step not in broken][:MOST_SPIKES],
        analysis.checkpoints,
        analysis.summary,
        analysis.reading,
    )
    return [
        (say("Timing"), [*_texts(language, analysis.timing, analysis.no_normal_step), *_timing(analysis, language)]),
        (
            say("Progress"),
            [
                *_texts(language, analysis.progress, analysis.interruption, *analysis.mismatches),
                *_left(analysis, language),
            ],
        ),
        (say("Learning"), _texts(language, *learned)),
        (say("Efficiency"), _texts(language, analysis.mfu, analysis.achieved)),
    ]


def error_texts(analysis: Analysis, errors: Sequence[LogError], language: Language) -> list[str]:
    """The errors of a log, without what a verdict or the progress tells."""
    told = {verdict.line for verdict in analysis.verdicts if isinstance(verdict, Error)}
    return [sentence(error, language) for error in errors if error.line not in told and error.kind != "interrupted"]


def _texts(language: Language, *findings: Finding | None) -> list[str]:
    return [sentence(finding, language) for finding in findings if finding is not None]


def _timing(analysis: Analysis, language: Language) -> list[str]:
    """The slow steps by cause, with each reason given once, and what they cost together."""
    texts = []
    explained: set[str] = set()
    for group in analysis.slow_groups:
        if _is_negligible(group, analysis.timing):
            continue
        text = sentence(group, language)
        unexplained = tuple(cause for cause in group.causes if cause not in explained)
        begins = set(unexplained) & {"startup", "resume"}  # its other causes are explained with the next group
        if unexplained:
            text += " " + language.render(group.reason(group.causes if begins else unexplained))
        explained.update(begins or unexplained)
        texts.append(text)
    costs = [cost for cost in analysis.phase_costs if cost.share >= WORTH_SHARE]
    matters_most = bool(costs) and costs[0].share >= LARGE_SHARE
    texts.insert(0 if matters_most else len(texts), " ".join(sentence(cost, language) for cost in costs))
    return [*texts, *_texts(language, analysis.hidden_evaluations)]


def _is_negligible(group: SlowGroup, normal: NormalStep | None) -> bool:
    """Whether these are stray steps that are hardly slower and cost almost nothing."""
    if normal is None or group.causes != ("stall",) or group.times_slower >= STRIKING:
        return False
    return group.extra_total_s < WORTH_SHARE * normal.mean_s * normal.steps


def _left(analysis: Analysis, language: Language) -> list[str]:
    eta = analysis.eta
    if eta is None or analysis.progress.finished:
        return []
    texts = [sentence(eta, language)]
    if isinstance(eta, Eta):
        texts.append(language.render(eta.naive(), eta))
        if eta.expected_s > LONG_S:
            texts.append(language.render(eta.other_step_times()))
    return texts
