"""`explain` and `eta` on a terminal: verdict and advice first, then timing, progress, learning, efficiency."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.text import Text

from nanoscope.findings.analyse import Analysis, analyse_nothing, main_run
from nanoscope.findings.compare.effects import Confounded, Effect, Identical, Repeats
from nanoscope.findings.declared import LogError, Note, Verdict
from nanoscope.findings.eta import Eta
from nanoscope.messages import NOTHING, printable
from nanoscope.runs.run import Log, Run
from nanoscope.views.charts import SLOW_MARK, VALIDATION_MARK, loss_chart, step_time_chart
from nanoscope.views.sections import MOST_ADVICE, error_texts, sections, source_line
from nanoscope.views.terminal_page import Page, columns
from nanoscope.words.sentences import sentence, verdict_title

STYLES = {"good": "bold green", "fair": "bold yellow", "bad": "bold red"}
LONGEST_WAIT_S = 10 * 365 * 86400.0  # no date is given beyond it (it may not exist)
MOST_NOTES = 8  # the latest
CHART_COLUMNS = 60
WIDE = 96  # columns from which the two charts are printed side by side


def print_report(
    log: Log, analyses: Sequence[Analysis], errors: Sequence[LogError], page: Page, notes: Sequence[Note] = ()
) -> None:
    """Print everything about a log: of several runs a table, and one in full. `notes` belong to the last run."""
    say = page.language.say
    page.paragraph(source_line(log, page.language), style="dim")
    if not log.runs:
        nothing = analyse_nothing(log)
        _verdicts(nothing.verdicts, page)
        if nothing.interruption:
            page.paragraph(sentence(nothing.interruption, page.language))
        _errors(nothing, errors, page)
        _advice(nothing, page)
        return
    shown = main_run(analyses)
    if len(analyses) > 1:
        runs_table([str(number) for number in range(1, len(analyses) + 1)], analyses, page)
        _experiment(log, analyses, page)
        page.heading(say("Run {number:number} of {count:number}", number=shown + 1, count=len(analyses)))
    is_last = shown == len(analyses) - 1
    _run(log.runs[shown], analyses[shown], errors, notes if is_last else (), page)


def print_how_to_go_on(page: Page) -> None:
    """Print what else can be asked about a log."""
    text = page.language.say(
        "{teach} explains these numbers, {annotate} the log line by line; {report} writes a page to share.",
        teach="--teach",
        annotate="--annotate",
        report="nanoscope report",
    )
    page.line()
    page.paragraph(text, style="dim")


def _run(run: Run, analysis: Analysis, errors: Sequence[LogError], notes: Sequence[Note], page: Page) -> None:
    _verdicts(analysis.verdicts, page)
    _advice(analysis, page)
    _errors(analysis, errors, page)
    for title, texts in sections(analysis, page.language):
        page.section(title, texts)
    noted = [page.language.render(said, event) for event, said in notes[-MOST_NOTES:]]
    page.section(page.language.say("Noted by the run"), noted)
    _charts(run, analysis, page)


def _verdicts(verdicts: Sequence[Verdict], page: Page) -> None:
    if verdicts:
        page.line()
    for verdict in verdicts:
        title = verdict_title(verdict, page.language)
        rest = page.language.say(". ") + sentence(verdict, page.language)
        page.paragraph(Text.assemble((title, STYLES[verdict.tone]), rest))


def _errors(analysis: Analysis, errors: Sequence[LogError], page: Page) -> None:
    page.section(page.language.say("Errors in the log"), error_texts(analysis, errors, page.language), style="red")


def _advice(analysis: Analysis, page: Page) -> None:
    texts = [sentence(advice, page.language) for advice in analysis.advice[:MOST_ADVICE]]
    page.section(page.language.say("What to do"), texts, numbered=True)


def _charts(run: Run, analysis: Analysis, page: Page) -> None:
    if not page.draws_charts:
        return
    beside = page.width >= WIDE and not page.language.right_to_left
    width = page.width // 2 - 2 if beside else min(page.width, CHART_COLUMNS)
    charts = [loss_chart(run, width, page.language), step_time_chart(run, analysis, width, page.language)]
    charts = [chart for chart in charts if chart]
    if beside and len(charts) == 2:
        charts = [[a + " " * (width + 2 - columns(a)) + b for a, b in zip(*charts, strict=True)]]
    for chart in charts:
        page.line()
        page.paragraph(chart[0], style="dim")
        for row in chart[1:]:
            text = Text(row)
            text.highlight_words([VALIDATION_MARK, SLOW_MARK], "yellow")
            page.line(text)


def runs_table(names: Sequence[str], analyses: Sequence[Analysis], page: Page) -> None:
    """A line about each run."""
    language = page.language
    say = language.say
    headers = [say("run"), say("steps"), say("normal step"), say("loss"), say("best validation"), say("verdict")]
    rows = []
    for name, a in zip(names, analyses, strict=True):
        last = a.progress.last_step
        rows.append(
            [
                printable(name),
                NOTHING if last is None else language.isolate(f"{a.summary.first_step or 0}–{last}"),
                language.duration(a.timing.typical_s if a.timing else None),
                language.loss(a.train_loss.smoothed_last),
                language.loss(a.evals.best_val if a.evals else None),
                say(", ").join(verdict_title(verdict, language) for verdict in a.verdicts) or NOTHING,
            ]
        )
    page.line()
    page.table(headers, rows, numeric=range(1, 5))


def _experiment(log: Log, analyses: Sequence[Analysis], page: Page) -> None:
    """What the runs of one log show together: a sweep, or the same run again and again."""
    from nanoscope.findings.compare import compare_equally_long  # late: most logs hold one run

    names = tuple(f"#{number}" for number in range(1, len(analyses) + 1))
    comparison = compare_equally_long(log.runs, analyses, names)
    if comparison is not None:
        found = [f for f in comparison.findings if isinstance(f, Effect | Repeats | Identical | Confounded)]
        texts = [page.language.render(finding.said(names), finding) for finding in found]
        page.section(page.language.say("The runs together"), texts)


def print_eta(analysis: Analysis, page: Page, now: datetime) -> None:
    """Print the time left, in a few lines. The run must have a step or an evaluation."""
    language = page.language
    eta = analysis.eta
    assert eta is not None
    page.paragraph(sentence(eta, language), style="bold")
    if not isinstance(eta, Eta) or eta.steps_left <= 0:
        return
    if eta.expected_s < LONGEST_WAIT_S:
        finish = language.clock(now + timedelta(seconds=eta.expected_s), now)
        page.paragraph(language.say("If the log's last line is from just now: done at about {clock}.", clock=finish))
    page.paragraph(language.render(eta.naive(), eta))
    page.paragraph(language.render(eta.other_step_times()))
