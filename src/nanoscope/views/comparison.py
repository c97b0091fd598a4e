"""Several runs side by side: what every view says about them, and how a terminal shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from nanoscope.analysis.findings import Comparison
from nanoscope.untrusted import printable
from nanoscope.views.page import Page
from nanoscope.words.comparing import measure_name, row_reason, row_value, who_leads
from nanoscope.words.language import NOTHING, Language
from nanoscope.words.sentences import sentence

LONG_NAME = 16  # characters of a run's name: from here on, runs are lettered


@dataclass(eq=False)
class Told:
    """A comparison in words; the first column of a table has no header."""

    key: list[str]  # which letter stands for which run, where names are long
    leads: list[str]
    sections: list[tuple[str, list[str]]]
    measures_title: str
    measures_headers: list[str]
    measures: list[list[str]]
    settings_title: str
    settings_headers: list[str]
    settings: list[list[str]]


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of runs, safe to show; letters where a name is long."""
    if max(map(len, names)) <= LONG_NAME:
        return tuple(map(printable, names))
    return tuple(ascii_uppercase[index % 26] * (1 + index // 26) for index in range(len(names)))


def tell(comparison: Comparison, language: Language) -> Told:
    """Who is ahead and why, what was set differently, and a table with a reason in each row."""
    say = language.say
    names = short_names(comparison.names)
    key = zip(names, map(printable, comparison.names), strict=True)
    explains = [sentence(e, language, names) for e in comparison.explanations if e.explains]
    does_not = [sentence(e, language, names) for e in comparison.explanations if not e.explains]
    leads = [text for row in comparison.rows if (text := who_leads(row, language, names))]
    if not explains:
        leads.append(say("What makes the difference cannot be seen in these logs."))
    return Told(
        key=[say("{letter}: {name}", letter=letter, name=name) for letter, name in key if letter != name],
        leads=leads,
        sections=[
            (say("What explains the difference"), explains),
            (say("What does not"), does_not),
            (say("If it went on"), [sentence(c, language, names) for c in comparison.continued]),
        ],
        measures_title=say("Side by side"),
        measures_headers=["", *names, say("why")],
        measures=[
            [
                measure_name(row, language),
                *(row_value(row, value, language) for value in row.values),
                row_reason(row.reason, language),
            ]
            for row in comparison.rows
        ],
        settings_title=say("Settings that differ"),
        settings_headers=["", *names],
        settings=[
            [printable(d.key), *(NOTHING if value is None else printable(str(value)) for value in d.values)]
            for d in comparison.config
        ],
    )


def print_comparison(comparison: Comparison, page: Page) -> None:
    """All of it on a terminal."""
    told = tell(comparison, page.language)
    for text in told.key:
        page.paragraph(text, style="dim")
    page.line()
    for text in told.leads:
        page.paragraph(text, style="bold")
    for title, texts in told.sections:
        page.section(title, texts)
    page.heading(told.measures_title)
    page.table(told.measures_headers, told.measures, numeric=len(comparison.names))
    if told.settings:
        page.heading(told.settings_title)
        page.table(told.settings_headers, told.settings, numeric=len(comparison.names))
