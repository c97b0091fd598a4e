"""Several runs side by side: the texts and tables that every view shows, and how a terminal prints them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from nanoscope.analysis.findings import Comparison, ComparisonRow, Experiment, Identical, Repeats, Speed, WithinNoise
from nanoscope.messages import printable
from nanoscope.views.terminal_page import Page
from nanoscope.words.compare import MEASURES, compared, leader, row_value
from nanoscope.words.language import NOTHING, Language

LONG_NAME, LONG_NAME_IN_LIST = 16, 40  # characters: runs with longer names are called A, B, C
MOST_COLUMNS = 4  # runs beside each other; more are listed below each other, the best first
MOST_SETTINGS = 3  # columns of such a list
# The columns of such a list, as far as the logs have them.
RANKED = ("last_step", "val_at_equal_steps", "train_at_equal_steps", "best_val_loss", "best_val_bpb", "step_time",
          "total_time")  # fmt: skip


@dataclass(eq=False)
class ComparisonTexts:
    """A comparison in one language; the first column of a table has no header unless it lists runs."""

    key: list[str]  # which letter stands for which run
    leads: list[str]
    sections: list[tuple[str, list[str]]]
    measures_title: str
    measures_headers: list[str]
    measures: list[list[str]]
    settings_title: str
    settings_headers: list[str]
    settings: list[list[str]]


def short_names(names: Sequence[str], in_list: bool = False) -> tuple[str, ...]:
    """The names of the runs, safe to print, or letters if one of them is too long for a table."""
    in_list = in_list or len(names) > MOST_COLUMNS
    if max(map(len, names)) <= (LONG_NAME_IN_LIST if in_list else LONG_NAME):
        return tuple(map(printable, names))
    return tuple(ascii_uppercase[index % 26] * (1 + index // 26) for index in range(len(names)))


def comparison_texts(
    comparison: Comparison, language: Language, *, ranked: bool = False, names: tuple[str, ...] | None = None
) -> ComparisonTexts:
    """What makes the difference, what the runs reached, and which settings differ.

    `ranked`: list the runs, the best first, however few they are. `names`: what to call the runs.
    """
    say = language.say
    is_list = ranked or len(comparison.names) > MOST_COLUMNS
    names = names or short_names(comparison.names, is_list)
    key = zip(names, map(printable, comparison.names), strict=True)
    experiment = comparison.experiment
    grouped = is_list and bool(comparison.ranking)
    if grouped:  # the table has the repeats
        learnt = tuple(finding for finding in experiment.learnt if not isinstance(finding, Repeats))
        experiment = replace(experiment, learnt=learnt)
    table = _ranked_settings if grouped else _ranking if is_list else _columns
    headers, measures = table(comparison, language, names)
    settings = [] if grouped or (is_list and len(comparison.config) <= MOST_SETTINGS) else _settings(comparison)
    return ComparisonTexts(
        key=[say("{letter}: {name}", letter=letter, name=name) for letter, name in key if letter != name],
        leads=_leads(comparison, language, names),
        sections=[
            *experiment_sections(experiment, language, names),
            (say("If training continued"), [compared(c, language, names) for c in comparison.continued]),
        ],
        measures_title=say("Side by side"),
        measures_headers=headers,
        measures=measures,
        settings_title=say("Settings that differ"),
        settings_headers=["", *names],
        settings=settings,
    )


def experiment_sections(
    experiment: Experiment, language: Language, names: tuple[str, ...]
) -> list[tuple[str, list[str]]]:
    """Titles with what several runs show together."""
    say = language.say
    return [
        (say("Learning"), [compared(f, language, names) for f in (*experiment.data, *experiment.learnt)]),
        (say("Ruled out"), [compared(f, language, names) for f in experiment.does_not_explain]),
        (say("Timing"), [compared(f, language, names) for f in experiment.speed]),
    ]


def _leads(comparison: Comparison, language: Language, names: tuple[str, ...]) -> list[str]:
    """Which run is the fastest and which has the lowest loss, unless they are all the same."""
    experiment = comparison.experiment
    without = set()
    if not any(isinstance(f, Speed) and f.reason != "equal" for f in experiment.speed):
        without.add("step_time")
    is_noise = [isinstance(f, Repeats | Identical | WithinNoise) or _no_difference(f) for f in experiment.learnt]
    if is_noise and all(is_noise):
        without |= {"best_val_loss", "best_val_bpb"}
    rows = [row for row in comparison.rows if row.measure not in without]
    return [text for row in rows if (text := leader(row, language, names))]


def _no_difference(finding: object) -> bool:
    return getattr(finding, "verdict", "") == "within_noise"


def _columns(comparison: Comparison, language: Language, names: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [MEASURES.write(row, language), *(row_value(row, value, language) for value in row.values)]
        for row in comparison.rows
    ]
    return ["", *names], rows


def _ranking(comparison: Comparison, language: Language, names: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """One line for each run, the lowest loss first."""
    columns = [row for measure in RANKED for row in comparison.rows if row.measure == measure]
    columns = [row for row in columns if not _is_redundant(row, comparison)]
    settings = comparison.config[:MOST_SETTINGS]
    losses = comparison.experiment.losses
    order = sorted(range(len(names)), key=lambda place: losses[place]) if losses else range(len(names))
    headers = [language.say("run"), *(printable(d.key) for d in settings)]
    headers += [MEASURES.write(row, language) for row in columns]
    cells = [
        [
            names[place],
            *(_setting(difference.values[place]) for difference in settings),
            *(row_value(row, row.values[place], language) for row in columns),
        ]
        for place in order
    ]
    return headers, cells


def _is_redundant(row: ComparisonRow, comparison: Comparison) -> bool:
    """Whether a column would say the same in each line, or the same as another column."""
    if row.measure == "last_step":
        return len(set(row.values)) == 1
    return row.measure == "best_val_loss" and any(
        other.measure == "val_at_equal_steps" and other.values == row.values for other in comparison.rows
    )


def _ranked_settings(
    comparison: Comparison, language: Language, names: tuple[str, ...]
) -> tuple[list[str], list[list[str]]]:
    """One line for settings with all their repeats, the lowest mean first."""
    rows = {row.measure: row for row in comparison.rows}
    loss = rows["val_at_equal_steps" if comparison.experiment.measure == "val" else "train_at_equal_steps"]
    headers = [language.say("settings"), language.say("runs"), MEASURES.write(loss, language), language.say("best run")]
    lines = []
    for group in comparison.ranking:
        best = group.runs[0]
        mean = language.loss(group.mean) if group.spread is None else language.measured((group.mean, group.spread))  # type: ignore[arg-type]
        settings = ", ".join(f"{key}={value}" for key, value in group.settings)
        run = f"{names[best]} ({row_value(loss, loss.values[best], language)})"
        lines.append([printable(settings), str(len(group.runs)), mean, run])
    return headers, lines


def _settings(comparison: Comparison) -> list[list[str]]:
    return [[printable(d.key), *(_setting(value) for value in d.values)] for d in comparison.config]


def _setting(value: object) -> str:
    return NOTHING if value is None else printable(str(value))


def print_comparison(comparison: Comparison, page: Page, ranked: bool = False) -> None:
    """Print a comparison on a terminal."""
    texts = comparison_texts(comparison, page.language, ranked=ranked)
    for text in texts.key:
        page.paragraph(text, style="dim")
    page.line()
    for text in texts.leads:
        page.paragraph(text, style="bold")
    for title, found in texts.sections:
        page.section(title, found)
    page.heading(texts.measures_title)
    page.table(texts.measures_headers, texts.measures, numeric=len(texts.measures_headers) - 1)
    if texts.settings:
        page.heading(texts.settings_title)
        page.table(texts.settings_headers, texts.settings, numeric=len(comparison.names))
