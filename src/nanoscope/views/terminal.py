"""The report on a terminal: verdict first, then timing, progress, learning, efficiency, and what to do."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.text import Text

from nanoscope.analysis.analyse import analyse, run_to_tell
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
from nanoscope.runs.run import Log, Run, Traits
from nanoscope.untrusted import printable
from nanoscope.views.charts import SLOW_MARK, VALIDATION_MARK, loss_chart, step_time_chart
from nanoscope.views.page import Page
from nanoscope.words.language import NOTHING, Language
from nanoscope.words.sentences import sentence
from nanoscope.words.timing import direction, naive_eta, why
from nanoscope.words.verdicts import verdict_title

MOST_ADVICE = 5
MOST_SPIKES = 3
STRIKING = 3.0  # times slower: such a step is explained however little it costs
WORTH_SHARE = 0.01  # of the time: below it, a phase's cost is not worth a line
LONGEST_WAIT_S = 10 * 365 * 86400.0  # beyond it, a date is a joke (and may not exist)
LONG_S = 60.0  # of waiting: from here on, one would like to know what a faster step would bring
CHART_COLUMNS = 60
WIDE = 96  # columns from which the two charts stand side by side


def print_report(log: Log, analyses: Sequence[Analysis], errors: Sequence[LogError], page: Page) -> None:
    """Everything about a log; of several runs a table, and one in full."""
    say = page.language.say
    source = say("standard input") if log.source == "-" else printable(log.source)
    lines = page.language.plural("{n} line", "{n} lines", log.lines)
    if log.format == "none":
        page.paragraph(say("{source}: {lines}", source=source, lines=lines), style="dim")
    elif log.format == "generic":
        page.paragraph(say("{source}: {lines}, of an unknown trainer", source=source, lines=lines), style="dim")
    else:
        page.paragraph(
            say("{source}: {lines}, format {format}", source=source, lines=lines, format=log.format),
            style="dim",
        )
    if not log.runs:
        nothing = analyse(Run(log.format, Traits()), log=log)
        _verdicts(nothing.verdicts, page)
        _errors(errors, page)
        _advice(nothing, page)
        return
    told = run_to_tell(log, analyses)
    if len(analyses) > 1:
        _runs_table(analyses, page)
        page.heading(say("Run {number} of {count}", number=told + 1, count=len(analyses)))
    _run(log.runs[told], analyses[told], errors, page)


def _run(run: Run, analysis: Analysis, errors: Sequence[LogError], page: Page) -> None:
    language, say = page.language, page.language.say
    _verdicts(analysis.verdicts, page)
    _errors(errors, page)
    page.section(say("Timing"), [*_said(language, analysis.timing), *_timing(analysis, language)])
    page.section(say("Progress"), [*_said(language, analysis.progress), *_time_left(analysis, language)])
    learnt = (analysis.train_loss, analysis.evals, analysis.warmup, *analysis.spikes[:MOST_SPIKES])
    page.section(say("Learning"), _said(language, *learnt, analysis.checkpoints, analysis.reading))
    page.section(say("Efficiency"), _said(language, analysis.mfu))
    _charts(run, analysis, page)
    _advice(analysis, page)


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


def _style(verdict: VerdictFinding) -> str:
    if isinstance(verdict, Improving):
        return "bold green"
    severe = isinstance(verdict, Overfitting) and verdict.severity == "severe"
    if severe or isinstance(verdict, Diverged | NoTraining):
        return "bold red"
    if isinstance(verdict, NonFinite) and not verdict.recovered:
        return "bold red"
    return "bold yellow"


def _verdicts(verdicts: Sequence[VerdictFinding], page: Page) -> None:
    if verdicts:
        page.line()
    for verdict in verdicts:
        title = verdict_title(verdict, page.language)
        rest = page.language.say(". ") + sentence(verdict, page.language)
        page.styled(Text.assemble((title, _style(verdict)), rest))


def _errors(errors: Sequence[LogError], page: Page) -> None:
    if errors:
        page.heading(page.language.say("Errors in the log"))
    for error in errors:
        safe = LogError(error.line, error.kind, printable(error.message))
        page.paragraph(sentence(safe, page.language), style="red", bullet="- ")


def _advice(analysis: Analysis, page: Page) -> None:
    if not analysis.advice:
        return
    page.heading(page.language.say("What to do"))
    for number, advice in enumerate(analysis.advice[:MOST_ADVICE], start=1):
        page.paragraph(sentence(advice, page.language), bullet=f"{number}. ")


def _charts(run: Run, analysis: Analysis, page: Page) -> None:
    if not page.draws_charts:
        return
    beside = page.width >= WIDE and not page.language.right_to_left
    width = page.width // 2 - 2 if beside else min(page.width, CHART_COLUMNS)
    charts = [loss_chart(run, width, page.language), step_time_chart(run, analysis, width, page.language)]
    charts = [chart for chart in charts if chart]
    if beside and len(charts) == 2:
        charts = [[f"{a:<{width + 2}}{b}" for a, b in zip(*charts, strict=True)]]
    for chart in charts:
        page.line()
        page.paragraph(chart[0], style="dim") if not beside else page.line(chart[0], style="dim")
        for row in chart[1:]:
            text = Text(row)
            text.highlight_words([VALIDATION_MARK, SLOW_MARK], "yellow")
            page.line(text)


def _runs_table(analyses: Sequence[Analysis], page: Page) -> None:
    """The runs of one log at a glance."""
    language = page.language
    say = language.say
    headers = [say("run"), say("steps"), say("normal step"), say("loss"), say("best validation"), say("verdict")]
    rows = []
    for number, a in enumerate(analyses, start=1):
        last = a.progress.last_step
        rows.append(
            [
                str(number),
                NOTHING if last is None else language.isolate(f"{a.reading.first_step or 0}–{last}"),
                language.duration(a.timing.typical_s if a.timing else None),
                language.loss(a.train_loss.smoothed_last),
                language.loss(a.evals.best_val if a.evals else None),
                say(", ").join(verdict_title(verdict, language) for verdict in a.verdicts) or NOTHING,
            ]
        )
    page.line()
    page.table(headers, rows, numeric=4)


def print_eta(analysis: Analysis, page: Page, now: datetime) -> None:
    """The time left, in a few lines."""
    language = page.language
    eta = analysis.eta
    if eta is None:
        page.paragraph(language.say("No time left can be given: the log has no training step."))
        return
    page.paragraph(sentence(eta, language), style="bold")
    if not isinstance(eta, Eta) or eta.steps_left <= 0:
        return
    if eta.expected_s < LONGEST_WAIT_S:
        finish = language.clock(now + timedelta(seconds=eta.expected_s), now)
        page.paragraph(language.say("If the log's last line is from just now: done at about {clock}.", clock=finish))
    for text in (naive_eta(eta, language), direction(eta, language)):
        page.paragraph(text)
    for scenario in eta.scenarios:
        page.paragraph(sentence(scenario, language), bullet="- ")
