"""A list of runs on a terminal."""

import time
from collections.abc import Sequence

from rich.text import Text

from nanoscope.messages import NOTHING, Message, printable
from nanoscope.runs.summary import RunSummary, State
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language

STATES: dict[State, tuple[Message, str]] = {
    "starting": (Message("starting"), ""),
    "live": (Message("training"), "green"),
    "stalled": (Message("stalled"), "yellow"),
    "finished": (Message("finished"), ""),
    "stopped": (Message("stopped"), "yellow"),
    "failed": (Message("failed"), "red"),
    "unreadable": (Message("cannot be read"), "red"),
}
"""In words, and in which style."""


def print_runs(runs: Sequence[RunSummary], settings: Sequence[str], page: Page) -> None:
    """A table; where it is not printed to a terminal, it is as wide as it needs to be."""
    say, timed = page.language.say, any(run.eta_seconds is not None for run in runs)
    headers = [say("run"), say("state"), say("step"), say("best validation"), *map(printable, settings)]
    headers += [*([say("time left")] if timed else []), say("age")]
    rows = [_row(run, settings, timed, page.language) for run in runs]
    page.table(headers, rows, numeric=range(2, len(headers)), optional=1 + timed)
    for run in runs:
        if run.reason:
            page.paragraph(f"{printable(run.name)}: {printable(run.reason)}", style="dim")


def print_no_runs(folder: str, page: Page) -> None:
    say = page.language.say
    page.paragraph(say("There are no runs in {folder}. Start one: {command}", folder=folder, command="nanoscope train"))


def print_none_matches(folder: str, page: Page) -> None:
    page.paragraph(page.language.say("No run in {folder} matches {option}.", folder=folder, option="--filter"))


def _row(run: RunSummary, settings: Sequence[str], timed: bool, language: Language) -> list[str | Text]:
    state, style = STATES[run.state]
    left = [] if run.eta_seconds is None else [language.duration(round(run.eta_seconds))]
    age = max(0, round(time.time() - run.updated))
    return [
        printable(run.name),
        Text(language.render(state), style),
        NOTHING if run.step is None else f"{run.step}/{run.total}" if run.total else str(run.step),
        language.loss(run.best),
        *(_setting(run, name) for name in settings),
        *((left or [""]) if timed else []),
        language.duration(age, parts=1) if run.updated else NOTHING,
    ]


def _setting(run: RunSummary, name: str) -> str:
    value = run.settings.get(name)
    return NOTHING if value is None else printable(f"{value:g}" if isinstance(value, float) else str(value))
