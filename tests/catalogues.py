"""The entries of the catalogues, for the tests that read them."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from nanoscope.words.concepts import entries as concepts
from nanoscope.words.language import CATALOGUES, LANGUAGES

PLACEHOLDER = re.compile(r"\{\w*(?:!\w)?(?::[^{}]+)?\}")
TRANSLATED = [code for code in LANGUAGES if code != "en"]


class Entry(NamedTuple):
    english: str  # both forms of a plural, a line each
    form: str  # one translation


def path(code: str) -> Path:
    return CATALOGUES / code / "LC_MESSAGES" / "nanoscope.po"


def catalogue(code: str) -> Catalog:
    with path(code).open("rb") as file:
        return read_po(file, locale=code)


def entries(code: str) -> Iterator[Entry]:
    """Every translation with its English, a form of a plural at a time; not those that are still missing.

    The concepts too.
    """
    for message in catalogue(code):
        if message.id:
            one, many = message.id if isinstance(message.id, tuple) else (message.id, message.id)
            forms = message.string if isinstance(message.string, tuple) else (message.string,)
            yield from (
                Entry(many if number or code == "ar" else one, form) for number, form in enumerate(forms) if form
            )
    yield from map(Entry, concept_texts("en"), concept_texts(code))


def concept_texts(code: str) -> list[str]:
    """Every text of words/concepts, in the order of the file."""
    return [
        text
        for concept in concepts(code).values()
        for text in (concept.title, concept.summary, *(text for texts in concept.parts.values() for _, text in texts))
    ]


def without_marks(text: str) -> str:
    """The text without the marks on Arabic letters, without joining strokes and in lower case."""
    return "".join(c for c in text if not "\u064b" <= c <= "\u0652" and c not in "\u0670\u0640").lower()


def listed(problems: list[tuple[Entry, str]]) -> str:
    """Every problem with its entry, for the message of an assertion."""
    shown = (f"{what}\n  {entry.english!r}\n  {unicodedata.normalize('NFC', entry.form)}" for entry, what in problems)
    return "\n" + "\n".join(shown)
