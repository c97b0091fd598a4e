"""Everything that nanoscope can say is said about some log, and reads well in every language."""

import io
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import compared_runs
import generated_logs
import known_numbers as known
import made_up_scores
from messages import messages_about_findings
from nanoscope.findings.analyse import Analysis, Options, analyse, log_errors
from nanoscope.findings.compare import compare
from nanoscope.findings.declared import Note, notes_of
from nanoscope.messages import LANGUAGES, RIGHT_TO_LEFT_MARK
from nanoscope.runs.listing import list_runs
from nanoscope.runs.reader import read_log, read_stream
from nanoscope.runs.run import Log, Run
from nanoscope.runs.text import clean_lines
from nanoscope.views.annotate import print_annotated
from nanoscope.views.compare import print_comparison
from nanoscope.views.concepts import concepts_markdown, print_concept, print_concepts, print_lessons
from nanoscope.views.labels import table
from nanoscope.views.report.tiles import evidence, tiles
from nanoscope.views.runs import STATES, print_no_runs, print_none_matches, print_runs
from nanoscope.views.scores import print_scores
from nanoscope.views.terminal import print_eta, print_how_to_go_on, print_report
from nanoscope.views.terminal_page import Page
from nanoscope.words.concepts import CONCEPTS
from nanoscope.words.language import Language

NOW = datetime(2026, 11, 15, 20, 0)
# What a value that was not looked at would leave behind.
RAW = re.compile(r"\bNone\b|\bnan\b|\binf\b|(?<!=)\b(?:True|False)\b|[{}]")


class RecordingLanguage(Language):
    """Keeps the messages that were asked for."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.used: set[str | tuple[str, str]] = set()

    def translate(self, message: str, other: str | None = None, n: int = 1, context: str = "") -> str:
        self.used.add(message if other is None else (message, other))
        return super().translate(message, other, n, context)


def page_of(language: Language) -> Page:
    return Page(language, Console(file=io.StringIO(), width=100, highlight=False, markup=False, emoji=False))


def read(text: str, name: str = "train.log") -> Log:
    return read_stream(io.BytesIO(text.encode()), name, keep_rows=True)


def say_everything(language: Language, folder: Path) -> Iterator[str]:
    """All texts about all generated logs, runs and comparisons."""
    for text in generated_logs.LOGS.values():
        yield from texts_of(read(text), text, language)
    for log in generated_logs.made_up_logs():
        yield report(log, language)
    for runs in compared_runs.EXAMPLES.values():
        page = page_of(language)
        print_comparison(compare(runs, [f"run {number}" for number in range(len(runs))]), page)
        yield text_of(page)
    page = page_of(language)
    print_comparison(compare(compared_runs.EXAMPLES["unexplained"], ("one", "a name too long for a table" * 2)), page)
    yield text_of(page)
    for scores in made_up_scores.EXAMPLES.values():
        page = page_of(language)
        print_scores(scores, page)
        yield text_of(page)
    (folder / "events.jsonl").write_text(generated_logs.own_events(), "utf-8")
    for some in (generated_logs.NOTES[:5], generated_logs.NOTES[5:]):
        yield report(read_log(str(folder)), language, notes=notes_of(some))
    page = page_of(language)
    print_how_to_go_on(page)
    yield text_of(page)
    yield report(read(generated_logs.LOGS["gpu"], "-"), language)
    yield report(read(generated_logs.LOGS["gpu"]), language, Options(max_iters=10))  # it has gone on from there
    console = read(generated_logs.LOGS["gpu"], "console.log")
    console.read_instead = "events.jsonl"
    yield report(console, language)
    yield from lessons(language)
    page = page_of(language)
    listed: list[Any] = list_runs(folder)
    facts = {"name": "run", "step": 5, "total": 9, "best": 2.0, "settings": {}, "eta_seconds": 60.0}
    listed += [SimpleNamespace(**facts, state=state, updated=0.0, reason=None) for state in STATES]
    print_runs(listed, [], page)
    print_no_runs("runs", page)
    print_none_matches("runs", page)
    yield text_of(page)


def lessons(language: Language) -> Iterator[str]:
    """All concepts, for runs that have all numbers, all but one, or none."""
    page = page_of(language)
    print_concepts(page)
    print_lessons(known.ALL, page)
    print_concept(CONCEPTS["temperature"], known.ALL, page)
    yield text_of(page)
    yield concepts_markdown(language)
    for numbers in known.SOME:
        yield " ".join(concept.teach(numbers, language).here for concept in CONCEPTS.values())


def texts_of(log: Log, text: str, language: Language) -> Iterator[str]:
    for options in (Options(), Options(max_iters=100_000, device="A100")):
        yield report(log, language, options)
        for run in log.runs:
            page = page_of(language)
            print_eta(analyse(run, options, log), page, NOW)
            yield text_of(page)
    page = page_of(language)
    print_annotated(clean_lines(io.BytesIO(text.encode())), log, [analyse(run, log=log) for run in log.runs], page)
    # Not the quoted lines: they may well say 'loss nan'.
    yield "\n".join(line for line in text_of(page).splitlines() if line.lstrip(RIGHT_TO_LEFT_MARK).startswith("    "))


def report(log: Log, language: Language, options: Options | None = None, notes: Sequence[Note] = ()) -> str:
    page = page_of(language)
    analyses = [analyse(run, options, log) for run in log.runs]
    print_report(log, analyses, log_errors(log.errors), page, notes)
    at_a_glance = [
        each for run, analysis in zip(log.runs, analyses, strict=True) for each in glance(run, analysis, language)
    ]
    return "\n".join([text_of(page), *at_a_glance])


def glance(run: Run, analysis: Analysis, language: Language) -> Iterator[str]:
    for tile in tiles(run, analysis, language):
        yield from (tile.label, *tile.foot)
    for title, text, _ in evidence(analysis, language):
        yield from (title, text)


def text_of(page: Page) -> str:
    assert isinstance(page.console.file, io.StringIO)
    return page.console.file.getvalue()


@pytest.mark.slow
def test_every_message_is_used_for_some_log(tmp_path):
    language = RecordingLanguage("en")
    language.used |= set(table("say").values())
    for _ in say_everything(language, tmp_path):
        pass
    assert messages_about_findings() - language.used == set()


@pytest.mark.slow
@pytest.mark.parametrize("code", LANGUAGES)
def test_no_text_about_a_generated_log_has_a_hole(code, tmp_path):
    for text in say_everything(Language(code), tmp_path):
        assert not RAW.search(text), text


@pytest.mark.slow
@given(text=generated_logs.any_log(), code=st.sampled_from(list(LANGUAGES)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_about_any_log_whatsoever_has_a_hole(text, code):
    for said in texts_of(read(text), text, Language(code)):
        assert not RAW.search(said), said
