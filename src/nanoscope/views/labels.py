"""Labels of the pages, as labels.toml lists them, and the concepts that they open."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from nanoscope.messages import UNITS
from nanoscope.words.concepts import CONCEPTS, NOTHING_KNOWN
from nanoscope.words.language import Language

# Plural forms, as browsers name them, with a number that takes each of them in every language that has it.
PLURAL_FORMS = {"zero": 0, "one": 1, "two": 2, "few": 3, "many": 11, "other": 100.5}
_FILLED = re.compile(r"\{(\w+)\}")


@cache
def table(name: str) -> dict[str, Any]:
    """A part of the file."""
    return tomllib.loads(Path(__file__).with_name("labels.toml").read_text("utf-8"))[name]  # type: ignore[no-any-return]


@cache
def labels(code: str) -> dict[str, str]:
    """Every label in a language; those with a number for each form of the plural."""
    language = Language(code)
    texts = {
        key: language.say(text, **{name: f"{{{name}}}" for name in _FILLED.findall(text)})
        for key, text in table("say").items()
    }
    units = {
        f"unit_{unit}_{form}": language.isolate(language.unit(unit, n))
        for unit in UNITS
        for form, n in PLURAL_FORMS.items()
    }
    return {**table("same_in_every_language"), **texts, **units}


def concepts_of_names(charts: Iterable[str], phases: Iterable[str], settings: Iterable[str]) -> dict[str, str]:
    """The charts, phases and settings of a run that open a concept: 'chart lr' opens learning_rate."""
    names = {"chart": set(charts), "phase": set(phases), "setting": set(settings)}
    return {
        f"{kind} {name}": concept
        for kind, concepts in table("concepts").items()
        for name, concept in concepts.items()
        if name in names[kind]
    }


@cache
def lesson(key: str, code: str) -> dict[str, str]:
    """What a concept is, whatever the run."""
    taught = vars(CONCEPTS[key].teach(NOTHING_KNOWN, Language(code)))
    return {part: taught[part] for part in ("title", "summary", "example", "normal", "mistake")}


def extract(file: BinaryIO, *_: object, **__: object) -> Iterator[tuple[int, None, str, list[str]]]:
    """The labels, for pybabel."""
    for text in tomllib.load(file)["say"].values():
        yield 1, None, text, []
