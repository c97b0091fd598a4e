"""Several runs side by side on a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from nanoscope.analysis.findings import Analysis, Comparison, Explanation, Overfitting
from nanoscope.views.page import Page, printable
from nanoscope.words.comparing import measure_name, row_reason, row_value, who_leads
from nanoscope.words.language import NOTHING
from nanoscope.words.sentences import sentence

LONG_NAME = 16  # characters of a run's name: from here on, runs are lettered


def print_comparison(comparison: Comparison, page: Page) -> None:
    """Who is ahead and why, what was set differently, and a table with a reason in each row."""
    language = page.language
    say = language.say
    names = tuple(printable(name) for name in comparison.names)
    if max(map(len, names)) > LONG_NAME:
        letters = tuple(ascii_uppercase[index % 26] * (1 + index // 26) for index in range(len(names)))
        for letter, name in zip(letters, names, strict=True):
            page.paragraph(say("{letter}: {name}", letter=letter, name=name), style="dim")
        names = letters
    page.line()
    for row in comparison.rows:
        page.paragraph(who_leads(row, language, names), style="bold")
    explanations = [_turned(e, comparison.analyses) for e in comparison.explanations]
    explains = [e for e in explanations if e.explains]
    does_not = [e for e in explanations if not e.explains]
    if not explains:
        page.paragraph(say("What makes the difference cannot be seen in these logs."))
    page.section(say("What explains the difference"), [sentence(e, language, names) for e in explains])
    page.section(say("What does not"), [sentence(e, language, names) for e in does_not])
    page.section(say("If it went on"), [sentence(c, language, names) for c in comparison.continued])
    page.heading(say("Side by side"))
    page.table(
        ["", *names, say("why")],
        [
            [
                measure_name(row, language),
                *(row_value(row, value, language) for value in row.values),
                row_reason(row.reason, language),
            ]
            for row in comparison.rows
        ],
        numeric=len(names),
    )
    if comparison.config:
        page.heading(say("Settings that differ"))
        page.table(
            ["", *names],
            [
                [d.key, *(NOTHING if value is None else printable(str(value)) for value in d.values)]
                for d in comparison.config
            ],
            numeric=len(names),
        )


def _turned(explanation: Explanation, analyses: Sequence[Analysis]) -> Explanation:
    """The explanation told of the run that it is true of: the shorter, or the overfitting one."""
    run, other = analyses[explanation.run], analyses[explanation.other]

    def is_past_its_best(analysis: Analysis) -> bool:
        return any(isinstance(verdict, Overfitting) for verdict in analysis.verdicts)

    turn = False
    if explanation.reason == "fewer_steps":
        turn = (run.progress.last_step or 0) > (other.progress.last_step or 0)
    elif explanation.reason == "overfitting" and explanation.explains:
        turn = is_past_its_best(other) and not is_past_its_best(run)
    return replace(explanation, run=explanation.other, other=explanation.run) if turn else explanation
