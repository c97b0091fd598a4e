"""Several runs side by side: the texts and tables that every view shows, and how a terminal prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from nanoscope.findings.compare import Comparison, ComparisonRow
from nanoscope.findings.compare.effects import Effect, Identical, Repeats
from nanoscope.messages import NOTHING, Message, printable
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language
from nanoscope.words.sentences import verdict_title

LONG_NAME = 40  # characters: runs with longer names are called A, B, C
MOST_COLUMNS = 4  # runs beside each other in the table of settings; of more, a terminal shows none
MOST_SETTINGS = 3  # that the table of runs shows
MUCH_SLOWER = 1.5  # times: steps that differ by less may do so by chance
BEST = {
    "loss": Message("Best validation loss: {run} ({value})."),
    "bpb": Message("Best validation, in bits per byte: {run} ({value})."),
}
TRAINED, VALIDATED = Message("training loss at step {at:plain}"), Message("validation at step {at:plain}")


@dataclass(eq=False)
class TextTable:
    """A table as texts."""

    title: str
    headers: list[str]
    rows: list[list[str]]


@dataclass(eq=False)
class ComparisonTexts:
    """A comparison in one language."""

    key: list[str]  # which letter stands for which run
    leads: list[str]
    findings: list[str]
    measures: TextTable
    settings: TextTable


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the runs, safe to print, or letters if one of them is too long for a table."""
    if max(map(len, names)) <= LONG_NAME:
        return tuple(map(printable, names))
    return tuple(ascii_uppercase[index % 26] * (1 + index // 26) for index in range(len(names)))


def comparison_texts(
    comparison: Comparison, language: Language, names: tuple[str, ...] | None = None
) -> ComparisonTexts:
    """What makes the difference, what each run reached, and which settings differ; `names`: what to call the runs."""
    say = language.say
    names = names or short_names(comparison.names)
    key = zip(names, map(printable, comparison.names), strict=True)
    settings = [
        [printable(each.key), *(NOTHING if value is None else printable(str(value)) for value in each.values)]
        for each in comparison.config
    ]
    return ComparisonTexts(
        key=[say("{letter}: {name}", letter=letter, name=name) for letter, name in key if letter != name],
        leads=_leads(comparison, language, names),
        findings=[language.render(finding.said(names), finding) for finding in comparison.findings],
        measures=_measures(comparison, language, names),
        settings=TextTable(say("Settings that differ"), ["", *names], settings),
    )


def _leads(comparison: Comparison, language: Language, names: tuple[str, ...]) -> list[str]:
    """The run with the lowest loss, unless all differences are noise, and the one with the fastest steps, if by far."""
    found = []
    known = list(zip(comparison.analyses, names, strict=True))
    vals = [(a.evals.best_val, a.evals.metric, name) for a, name in known if a.evals and a.evals.best_val is not None]
    noise = comparison.findings and all(
        isinstance(f, Repeats | Identical) or (isinstance(f, Effect) and f.verdict == "within_noise")
        for f in comparison.findings
    )
    if comparison.ranked and vals and not noise:
        value, metric, name = min(vals)
        found.append(language.say(BEST[metric].template, run=name, value=language.loss(value)))
    times = [(a.timing.typical_s, name) for a, name in known if a.timing]
    if times and max(times)[0] > MUCH_SLOWER * min(times)[0]:
        seconds, name = min(times)
        found.append(language.say("Fastest step: {run} ({value}).", run=name, value=language.duration(seconds)))
    return found


def _measures(comparison: Comparison, language: Language, names: tuple[str, ...]) -> TextTable:
    """A line for each run, the lowest loss at equal steps first, with what sets it apart from that run in its last
    column. A column that says the same in all lines is left out."""
    lines = [_cells(row, comparison, language, names) for row in comparison.rows]
    shown = [h for i, h in enumerate(lines[0]) if i < 2 or len({line[h] for line in lines}) > 1]
    return TextTable(language.say("Side by side"), shown, [[line[header] for header in shown] for line in lines])


def _cells(row: ComparisonRow, comparison: Comparison, language: Language, names: tuple[str, ...]) -> dict[str, str]:
    """What a line says, by the headers of the columns."""
    say, loss = language.say, language.loss(row.loss)
    cells = {"": names[row.runs[0]] + (f" (+{len(row.runs) - 1})" if len(row.runs) > 1 else "")}
    if comparison.measure:
        where = TRAINED if comparison.measure == "train" else VALIDATED
        if row.loss is not None and row.spread is not None:
            loss = language.with_error((row.loss, row.spread), 2)
        above = NOTHING if row.difference is None else language.with_error((row.difference, row.difference_error))
        cells |= {say(where.template, at=comparison.step or 0): loss, say("above the best"): above}
    else:  # no step at which all runs have a loss: there is only the best one that each has reached
        best = language.loss(row.best_val)
        cells[say("best validation loss")] = best if row.metric == "loss" else NOTHING
        cells[say("best validation, bits per byte")] = best if row.metric == "bpb" else NOTHING
    return cells | {
        say("last step"): language.write(row.steps, "typed"),
        say("normal step"): language.duration(row.step_seconds),
        say("why"): _why(comparison, row, language),
    }


def _why(comparison: Comparison, row: ComparisonRow, language: Language) -> str:
    """What is wrong with a run, by its own verdicts, and the settings in which it differs from the best one."""
    bad = [verdict for verdict in comparison.analyses[row.runs[0]].verdicts if verdict.tone == "bad"]
    texts = [] if row.ranked else [language.say("not comparable")]
    texts += [verdict_title(verdict, language) for verdict in bad]
    texts += [printable(f"{key}={value}") for key, value in row.settings[:MOST_SETTINGS]]
    texts += ["…"] * (len(row.settings) > MOST_SETTINGS)
    return language.listed(texts)


def print_comparison(comparison: Comparison, page: Page) -> None:
    """Print a comparison on a terminal."""
    say, texts = page.language.say, comparison_texts(comparison, page.language)
    for text in texts.key:
        page.paragraph(text, style="dim")
    page.line()
    for text in texts.leads:
        page.paragraph(text, style="bold")
    page.section(say("Learning"), texts.findings)
    for table in (texts.measures, texts.settings):
        if table is texts.measures or (table.rows and len(comparison.names) <= MOST_COLUMNS):
            page.heading(table.title)
            numbers = len(table.headers) - (table.headers[-1] == say("why"))
            page.table(table.headers, table.rows, numeric=range(1, numbers))
