"""Several runs side by side on a terminal."""

from string import ascii_uppercase

from nanoscope.analysis.findings import Comparison
from nanoscope.untrusted import printable
from nanoscope.views.page import Page
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
    explains = [e for e in comparison.explanations if e.explains]
    does_not = [e for e in comparison.explanations if not e.explains]
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
