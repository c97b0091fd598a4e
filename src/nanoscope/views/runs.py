"""A list of runs on a terminal."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from nanoscope.messages import NO_BREAK_SPACE, NOTHING, printable
from nanoscope.runs.summary import RunSummary, State
from nanoscope.views.terminal_page import Page, columns
from nanoscope.words.language import Language

STYLES: dict[State, str] = {
    "live": "green",
    "stalled": "yellow",
    "stopped": "yellow",
    "failed": "red",
    "unreadable": "red",
}
GAP = "  "


class Column(NamedTuple):
    header: str
    cells: list[str]
    numeric: bool = True
    optional: bool = False  # left out where a terminal is too narrow


def state_labels(language: Language) -> dict[State, str]:
    """The states of a run in words."""
    say = language.say
    return {
        "starting": say("starting"),
        "live": say("training"),
        "stalled": say("stalled"),
        "finished": say("finished"),
        "stopped": say("stopped"),
        "failed": say("failed"),
        "unreadable": say("cannot be read"),
    }


def print_runs(runs: Sequence[RunSummary], settings: Sequence[str], page: Page) -> None:
    """A table; where it is not printed to a terminal, it is as wide as it needs to be."""
    columns = _columns(runs, settings, page.language)
    if page.language.right_to_left:
        page.table([c.header for c in columns], list(zip(*(c.cells for c in columns), strict=True)))
    else:
        limit = page.console.width if page.console.is_terminal else None
        _print_table(_fitting(columns, limit), runs, page)
    for run in runs:
        if run.reason:
            page.paragraph(f"{printable(run.name)}: {printable(run.reason)}", style="dim")


def print_no_runs(folder: str, page: Page) -> None:
    say = page.language.say
    page.paragraph(say("There are no runs in {folder}. Start one: {command}", folder=folder, command="nanoscope train"))


def print_none_matches(folder: str, page: Page) -> None:
    page.paragraph(page.language.say("No run in {folder} matches {option}.", folder=folder, option="--filter"))


def _columns(runs: Sequence[RunSummary], settings: Sequence[str], language: Language) -> list[Column]:
    say, states, now = language.say, state_labels(language), time.time()
    steps = [NOTHING if run.step is None else f"{run.step}/{run.total}" if run.total else str(run.step) for run in runs]
    left = ["" if run.eta_seconds is None else language.duration(round(run.eta_seconds)) for run in runs]
    ages = [language.duration(max(0, round(now - run.updated)), parts=1) if run.updated else NOTHING for run in runs]
    return [
        Column(say("run"), [printable(run.name) for run in runs], numeric=False),
        Column(say("state"), [states[run.state] for run in runs], numeric=False),
        Column(say("step"), steps),
        Column(say("best validation"), [language.loss(run.best) for run in runs]),
        *(Column(printable(name), [_setting(run, name) for run in runs]) for name in settings),
        Column(say("time left"), left, optional=True),
        Column(say("age"), ages, optional=True),
    ]


def _setting(run: RunSummary, name: str) -> str:
    value = run.settings.get(name)
    return NOTHING if value is None else printable(f"{value:g}" if isinstance(value, float) else str(value))


def _fitting(columns: list[Column], limit: int | None) -> list[Column]:
    """Without empty columns, and without optional ones, the last first, as long as a line would not fit."""
    kept = [column for column in columns if any(column.cells) or not column.optional]
    while limit and sum(map(_width, kept)) + len(GAP) * (len(kept) - 1) > limit:
        dropped = next((column for column in reversed(kept) if column.optional), None)
        if dropped is None:
            break
        kept.remove(dropped)
    return kept


def _width(column: Column) -> int:
    return max(map(columns, [column.header, *column.cells]))


def _print_table(columns: Sequence[Column], runs: Sequence[RunSummary], page: Page) -> None:
    padded = [_padded(column) for column in columns]
    header, *rows = zip(*padded, strict=True)
    page.line(GAP.join(header).rstrip(), "dim")
    for run, (name, state, *rest) in zip(runs, rows, strict=True):
        line = Text.assemble(name + GAP, (state, STYLES.get(run.state, "")), GAP + GAP.join(rest))
        line.rstrip()
        page.line(line)


def _padded(column: Column) -> list[str]:
    """The header and the cells, all equally wide."""
    width, texts = _width(column), [cell.replace(NO_BREAK_SPACE, " ") for cell in (column.header, *column.cells)]
    if column.numeric:
        return [" " * (width - columns(text)) + text for text in texts]
    return [text + " " * (width - columns(text)) for text in texts]
