"""The concepts of training, each in a few sentences: what it is, also in this run, what is normal, what is misread.

They are listed by theme, in the order in which a newcomer meets them. Everything that teaches reads from here:
`nanoscope what`, `explain --teach`, the report, the dashboard, docs/concepts.md.
"""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from nanoscope.analysis.known import KnownNumbers
from nanoscope.errors import UsageError
from nanoscope.messages import LANGUAGES, Text
from nanoscope.suggest import did_you_mean
from nanoscope.words.concepts import data, learning, losses, machine, model
from nanoscope.words.concepts.concept import Concept
from nanoscope.words.language import Language

NEAR = 0.7  # the least similarity: there are so many names that something is near to any word
CONCEPTS: dict[str, Concept] = {
    concept.key: concept
    for theme in (losses, learning, data, model, machine)
    for concept in theme.CONCEPTS
}  # fmt: skip
NOTHING_KNOWN = KnownNumbers()

# Vowel signs, hamzas, dots below, the lengthening stroke, marks of direction: whoever types a name may leave them out.
_UNTYPED = re.compile("[\u064b-\u0655\u0640\u093c\u200e\u200f]")


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
    raise UsageError(Text(
        "There is no concept {name}.{hint}\nAll of them: {command}",
        name=repr(name), hint=hint, command="nanoscope what",
        ))  # fmt: skip


def shown_concepts(numbers: KnownNumbers) -> Sequence[Concept]:
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
        title = concept.title.write(None, Language(code))
        before, _, inside = title.partition("(")
        yield from {_plain(part) for part in (title, before, inside.rstrip(")")) if part.strip()}
