"""Concepts on a terminal, as Markdown and as JSON."""

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from nanoscope.findings.known import Numbers
from nanoscope.views.terminal_page import Page
from nanoscope.words.concepts import CONCEPTS, NOTHING_KNOWN, Concept, Taught, shown_concepts
from nanoscope.words.language import Language


def part_names(language: Language) -> dict[str, str]:
    """What stands before the last parts of a concept."""
    return {"normal": language.say("Normal, and what to try"), "mistake": language.say("Often misunderstood")}


def print_concepts(page: Page) -> None:
    """Print one line about each of the concepts."""
    for concept in CONCEPTS.values():
        taught = concept.teach(NOTHING_KNOWN, page.language)
        name = page.language.isolate(concept.key)
        page.paragraph(Text.assemble((name, "bold"), f" · {taught.title}: {taught.summary}"), bullet="- ")
    page.line()
    more = {"command": "nanoscope what perplexity", "with_log": "nanoscope what perplexity train.log"}
    page.paragraph(page.language.say("More about one of them: {command}; with a run's numbers: {with_log}", **more))


def print_concept(concept: Concept, numbers: Numbers, page: Page) -> None:
    """Print all that is taught about a concept."""
    language = page.language
    taught = concept.teach(numbers, language)
    page.paragraph(taught.title, style="bold")
    page.paragraph(taught.summary)
    if numbers is not NOTHING_KNOWN and not taught.here:
        page.paragraph(language.say("The log has no number for it."), bullet="- ")
    _print_parts(taught, page)
    also = language.listed(concept.related)
    page.paragraph(language.say("See also: {names}", names=also), style="dim")


def print_lessons(numbers: Numbers, page: Page) -> None:
    """Print what the numbers mean that a run has."""
    page.heading(page.language.say("What these numbers mean"))
    for concept in shown_concepts(numbers):
        taught = concept.teach(numbers, page.language)
        page.line()
        page.paragraph(Text.assemble((taught.title, "bold"), page.language.say(". ") + taught.summary))
        _print_parts(taught, page)


def _print_parts(taught: Taught, page: Page) -> None:
    page.paragraph(taught.here or taught.example, bullet="- ")
    for part, name in part_names(page.language).items():
        page.paragraph(Text.assemble((name + page.language.say(": "), "dim"), getattr(taught, part)), bullet="- ")


def concepts_document(concepts: Iterable[Concept], numbers: Numbers, language: Language) -> dict[str, Any]:
    """Concepts for programs."""
    taught = (concept.teach(numbers, language) for concept in concepts)
    return {"schema": "nanoscope.what/1", "language": language.code, "concepts": [vars(each) for each in taught]}


def concepts_markdown(language: Language) -> str:
    """All concepts as a page."""
    blocks = [f"# {language.say('Concepts of training')}"]
    for concept in CONCEPTS.values():
        taught = concept.teach(NOTHING_KNOWN, language)
        named = [f"**{name}**: {getattr(taught, part)}" for part, name in part_names(language).items()]
        blocks += [
            f"## {taught.title}",
            f"{taught.summary} {taught.example}".rstrip(),
            "\n".join(f"- {n}" for n in named),
        ]
    return "\n\n".join(blocks) + "\n"
