"""The concepts of training, each in a few sentences: what it is, also in this run, what is normal, what is misread.

They are in en.md, ar.md and hi.md beside this file, in the order in which a newcomer meets them. Everything that
teaches reads from here: `nanoscope what`, `explain --teach`, the report, the dashboard, docs/concepts.md.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any
from unicodedata import normalize

from nanoscope.errors import UsageError
from nanoscope.findings.known import Numbers
from nanoscope.messages import LANGUAGES, Message
from nanoscope.suggest import did_you_mean
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence

NEAR = 0.7  # the least similarity: there are so many names that something is near to any word
NOTHING_KNOWN: Numbers = {}
LISTS = ("aliases", "related", "shown")

_CONCEPT = re.compile(r"^## (\w+): (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_PART = re.compile(r"^- (\w+)(?: if ([\w ,]+))?: (.+)$", re.MULTILINE)
# Vowel signs, hamzas, dots below, the lengthening stroke, marks of direction: whoever types a name may leave them out.
_UNTYPED = re.compile("[\u064b-\u0655\u0640\u093c\u200e\u200f]")


@dataclass(frozen=True)
class Taught:
    """A concept in one language, with the numbers of one run or without."""

    key: str
    title: str
    summary: str
    here: str  # what it is in this run; empty if the run does not have the number
    example: str  # instead
    normal: str  # and what to try
    mistake: str


@dataclass(frozen=True)
class Entry:
    """What one language's file has below a heading: each text of a part with the conditions on which it is used."""

    title: str
    lists: str  # the lines about it that are in English only
    summary: str
    parts: dict[str, list[tuple[list[str], str]]]


@dataclass(frozen=True)
class Concept:
    """A term of training."""

    key: str
    aliases: tuple[str, ...]
    related: tuple[str, ...]
    shown: tuple[str, ...]  # it is taught with a run that has one of these numbers

    def is_shown(self, numbers: Numbers) -> bool:
        return any(numbers.get(name) for name in self.shown)

    def teach(self, numbers: Numbers, language: Language) -> Taught:
        entry = entries(language.code)[self.key]
        title, summary = (_filled(text, numbers, language) for text in (entry.title, entry.summary))
        here, normal, mistake = (_part(entry, name, numbers, language) for name in ("here", "normal", "mistake"))
        example = "" if here else _part(entry, "example", numbers, language)
        return Taught(self.key, title, summary, here, example, normal, mistake)


@cache
def entries(code: str) -> dict[str, Entry]:
    """The concepts of one language's file, by key."""
    found = {}
    for key, title, body in _CONCEPT.findall((Path(__file__).parent / f"{code}.md").read_text("utf-8")):
        parts: dict[str, list[tuple[list[str], str]]] = {}
        for name, conditions, text in _PART.findall(body):
            parts.setdefault(name, []).append((conditions.split(", ") if conditions else [], text))
        lists, _, summary = body.partition("\n- ")[0].strip().rpartition("\n")
        found[key] = Entry(title, lists, summary, parts)
    return found


def _part(entry: Entry, name: str, numbers: Numbers, language: Language) -> str:
    """The first text of a part whose conditions hold and whose numbers are known."""
    for conditions, text in entry.parts.get(name, ()):
        used = (field for _, field, _, _ in Formatter().parse(text) if field)
        if all(_holds(condition, numbers) for condition in conditions) and all(
            _value(field, numbers) is not None for field in used
        ):
            return _filled(text, numbers, language)
    return ""


def _holds(condition: str, numbers: Numbers) -> bool:
    wanted, name = not condition.startswith("not "), condition.removeprefix("not ")
    return name in numbers and bool(numbers[name]) == wanted


def _value(name: str, numbers: Numbers) -> Any:
    return numbers.get("overfitting" if name == "verdict" else name)


def _filled(text: str, numbers: Numbers, language: Language) -> str:
    """A text with its numbers; what stands between backticks keeps its own direction, as a whole."""

    values: dict[str, Any] = {**numbers}
    if "overfitting" in numbers:
        values["verdict"] = sentence(numbers["overfitting"], language)
    pieces = [language.fill(piece, values) for piece in text.split("`")]
    return "".join(language.isolate(piece) if at % 2 else piece for at, piece in enumerate(pieces))


def _concept(key: str, lines: str) -> Concept:
    lists = dict(re.findall(r"^(\w+): (.+)$", lines, re.MULTILINE))
    return Concept(key, *(tuple(lists[name].split(", ")) if name in lists else () for name in LISTS))


CONCEPTS: dict[str, Concept] = {key: _concept(key, entry.lists) for key, entry in entries("en").items()}


def find_concept(name: str) -> Concept | None:
    """The concept of a name: its key, another name for it, or its title in any language."""
    wanted = _plain(name)
    for concept in CONCEPTS.values():
        if wanted in (concept.key, *concept.aliases):
            return concept
    return next((concept for concept in CONCEPTS.values() if wanted in _titles(concept)), None)


def concept_named(name: str) -> Concept:
    """The concept of a name, or an error with the nearest one."""
    if found := find_concept(name):
        return found
    names = {_plain(each): concept.key for concept in CONCEPTS.values() for each in (*concept.aliases, concept.key)}
    names |= {title: title.replace("_", " ") for concept in CONCEPTS.values() for title in _titles(concept)}
    hint = did_you_mean(_plain(name), names, lambda near: f"nanoscope what {names[near]}", cutoff=NEAR)
    raise UsageError(
        Message(
            "There is no concept {name}.{hint}\nAll of them: {command}",
            name=repr(name),
            hint=hint,
            command="nanoscope what",
        )
    )


def shown_concepts(numbers: Numbers) -> Sequence[Concept]:
    """The concepts of the numbers that a run has."""
    return [concept for concept in CONCEPTS.values() if concept.is_shown(numbers)]


def _plain(name: str) -> str:
    """A name as it is compared: 'Learning-Rate' is learning_rate, «الخسارة» is «خسارة»."""
    typed = _UNTYPED.sub("", normalize("NFD", name.casefold()))
    words = (word.removeprefix("ال") for word in re.split(r"[\s_:/-]+", typed) if word)
    return "_".join(word for word in words if word)


def _titles(concept: Concept) -> Iterable[str]:
    """Its titles in all languages, also without what stands in brackets, and that alone."""
    for code in LANGUAGES:
        title = entries(code)[concept.key].title
        before, _, inside = title.partition("(")
        yield from {_plain(part) for part in (title, before, inside.rstrip(")")) if part.strip()}
