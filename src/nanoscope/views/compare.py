"""Several runs side by side: the texts and tables that every view shows, and how a terminal prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from nanoscope.analysis.findings import Comparison
from nanoscope.untrusted import printable
from nanoscope.views.terminal_page import Page
from nanoscope.words.compare import MEASURES, ROW_REASONS, compared, leader, row_value
from nanoscope.words.language import NOTHING, Language

LONG_NAME = 16  # characters: runs with longer names are called A, B, C


@dataclass(eq=False)
class ComparisonTexts:
    """A comparison in one language; the first column of a table has no header."""

    key: list[str]  # which letter stands for which run
    leads: list[str]
    sections: list[tuple[str, list[str]]]
    measures_title: str
    measures_headers: list[str]
    measures: list[list[str]]
    settings_title: str
    settings_headers: list[str]
    settings: list[list[str]]


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the runs, safe to print, or letters if one of them is long."""
    if max(map(len, names)) <= LONG_NAME:
        return tuple(map(printable, names))
    return tuple(ascii_uppercase[index % 26] * (1 + index // 26) for index in range(len(names)))


def comparison_texts(comparison: Comparison, language: Language) -> ComparisonTexts:
    """Which run is ahead and why, which settings differ, and a table with a reason in each row."""
    say = language.say
    names = short_names(comparison.names)
    key = zip(names, map(printable, comparison.names), strict=True)
    explains = [compared(e, language, names) for e in comparison.explanations if e.explains]
    does_not = [compared(e, language, names) for e in comparison.explanations if not e.explains]
    leads = [text for row in comparison.rows if (text := leader(row, language, names))]
    if not explains:
        leads.append(say("What makes the difference cannot be seen in these logs."))
    return ComparisonTexts(
        key=[say("{letter}: {name}", letter=letter, name=name) for letter, name in key if letter != name],
        leads=leads,
        sections=[
            (say("What explains the difference"), explains),
            (say("What does not"), does_not),
            (say("If it went on"), [compared(c, language, names) for c in comparison.continued]),
        ],
        measures_title=say("Side by side"),
        measures_headers=["", *names, say("why")],
        measures=[
            [
                MEASURES.write(row, language),
                *(row_value(row, value, language) for value in row.values),
                ROW_REASONS.write(row, language),
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
    """Print a comparison on a terminal."""
    texts = comparison_texts(comparison, page.language)
    for text in texts.key:
        page.paragraph(text, style="dim")
    page.line()
    for text in texts.leads:
        page.paragraph(text, style="bold")
    for title, reasons in texts.sections:
        page.section(title, reasons)
    page.heading(texts.measures_title)
    page.table(texts.measures_headers, texts.measures, numeric=len(comparison.names))
    if texts.settings:
        page.heading(texts.settings_title)
        page.table(texts.settings_headers, texts.settings, numeric=len(comparison.names))
