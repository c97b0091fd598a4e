"""Several runs side by side: the texts and tables that every view shows, and how a terminal prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from nanoscope.findings.compare import Comparison, ComparisonRow
from nanoscope.findings.compare.effects import Effect, Identical, Repeats
from nanoscope.findings.compare.runs import Compared
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
class ComparisonTexts:
    """A comparison in one language."""

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
    headers, measures = _table(comparison, language, names)
    return ComparisonTexts(
        key=[say("{letter}: {name}", letter=letter, name=name) for letter, name in key if letter != name],
        leads=_leads(comparison, language, names),
        sections=[
            (say("Learning"), [language.render(finding.said(names), finding) for finding in comparison.findings])
        ],
        measures_title=say("Side by side"),
        measures_headers=headers,
        measures=measures,
        settings_title=say("Settings that differ"),
        settings_headers=["", *names],
        settings=[[printable(each.key), *map(_setting, each.values)] for each in comparison.config],
    )


def _leads(comparison: Comparison, language: Language, names: tuple[str, ...]) -> list[str]:
    """The run with the lowest loss, unless all differences are noise, and the one with the fastest steps, if by far."""
    found = []
    known = list(zip(comparison.analyses, names, strict=True))
    vals = [(a.evals.best_val, a.evals.metric, name) for a, name in known if a.evals and a.evals.best_val is not None]
    noise = [isinstance(f, Repeats | Identical) or _is_noise(f) for f in comparison.findings]
    if comparison.ranked and vals and not (noise and all(noise)):
        value, metric, name = min(vals)
        found.append(language.say(BEST[metric].template, run=name, value=language.loss(value)))
    times = [(a.timing.typical_s, name) for a, name in known if a.timing]
    if times and max(times)[0] > MUCH_SLOWER * min(times)[0]:
        seconds, name = min(times)
        found.append(language.say("Fastest step: {run} ({value}).", run=name, value=language.duration(seconds)))
    return found


def _is_noise(finding: Compared) -> bool:
    return isinstance(finding, Effect) and finding.verdict == "within_noise"


def _table(comparison: Comparison, language: Language, names: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """A line for each run, the lowest loss at equal steps first, with what sets it apart from that run in its last
    column. A column that says the same in all lines is left out."""
    say, rows = language.say, comparison.rows
    where = TRAINED if comparison.measure == "train" else VALIDATED
    columns = [
        ("", [_name(row, names) for row in rows]),
        (say(where.template, at=comparison.step or 0), [_loss(row, language) for row in rows]),
        (say("above the best"), [_higher(row, language) for row in rows]),
        (say("best validation loss"), [_best_val(row, "loss", language) for row in rows]),
        (say("best validation, bits per byte"), [_best_val(row, "bpb", language) for row in rows]),
        (say("last step"), [language.write(row.steps, "typed") for row in rows]),
        (say("normal step"), [language.duration(row.step_seconds) for row in rows]),
        (say("why"), [_why(comparison, row, language) for row in rows]),
    ]
    # At equal steps all runs have a loss; without such a step there is only the best one that each has reached.
    columns = [*columns[:3], *columns[5:]] if comparison.measure else [columns[0], *columns[3:]]
    shown = [*columns[:2], *((header, cells) for header, cells in columns[2:] if len(set(cells)) > 1)]
    return [header for header, _ in shown], [list(line) for line in zip(*(cells for _, cells in shown), strict=True)]


def _name(row: ComparisonRow, names: tuple[str, ...]) -> str:
    return names[row.runs[0]] + (f" (+{len(row.runs) - 1})" if len(row.runs) > 1 else "")


def _best_val(row: ComparisonRow, metric: str, language: Language) -> str:
    return language.loss(row.best_val) if row.metric == metric else NOTHING


def _loss(row: ComparisonRow, language: Language) -> str:
    return (
        language.loss(row.loss)
        if row.loss is None or row.spread is None
        else language.with_error((row.loss, row.spread), 2)
    )


def _higher(row: ComparisonRow, language: Language) -> str:
    return NOTHING if row.difference is None else language.with_error((row.difference, row.difference_error))


def _why(comparison: Comparison, row: ComparisonRow, language: Language) -> str:
    """What is wrong with a run, by its own verdicts, and the settings in which it differs from the best one."""
    bad = [verdict for verdict in comparison.analyses[row.runs[0]].verdicts if verdict.tone == "bad"]
    texts = [] if row.ranked else [language.say("not comparable")]
    texts += [verdict_title(verdict, language) for verdict in bad]
    texts += [printable(f"{key}={value}") for key, value in row.settings[:MOST_SETTINGS]]
    texts += ["…"] * (len(row.settings) > MOST_SETTINGS)
    return language.listed(texts)


def _setting(value: object) -> str:
    return NOTHING if value is None else printable(str(value))


def print_comparison(comparison: Comparison, page: Page) -> None:
    """Print a comparison on a terminal."""
    texts = comparison_texts(comparison, page.language)
    for text in texts.key:
        page.paragraph(text, style="dim")
    page.line()
    for text in texts.leads:
        page.paragraph(text, style="bold")
    for title, found in texts.sections:
        page.section(title, found)
    page.heading(texts.measures_title)
    numbers = len(texts.measures_headers) - 1 - (texts.measures_headers[-1] == page.language.say("why"))
    page.table(texts.measures_headers, texts.measures, numeric=numbers)
    if texts.settings and len(comparison.names) <= MOST_COLUMNS:
        page.heading(texts.settings_title)
        page.table(texts.settings_headers, texts.settings, numeric=len(comparison.names))
