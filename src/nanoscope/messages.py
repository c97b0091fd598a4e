"""Texts in the user's language: an English template, and the values that fill it.

Any room can make a `Text`; only the command line knows the language, and calls `use`. `str(text)` is always English,
for files and for programs; `shown(text)` is for people.

    Text("{path} is not a run", path=path)
    Count("{n} run", "{n} runs", len(runs))

A value may itself be a `Text`; `Joined` puts several side by side. The format after a colon is `duration` (of seconds),
`count` (33.2k), or Python's own; without one, a value is written by `str` in every language.
"""

import locale
import os
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any, Protocol

from nanoscope.units import short_count, short_duration

LANGUAGES: Mapping[str, str] = {"en": "English", "ar": "العربية", "hi": "हिन्दी"}
NAMES: Mapping[str, str] = {"english": "en", "arabic": "ar", "hindi": "hi"}
VARIABLE = "NANOSCOPE_LANG"


class Translator(Protocol):
    """What `words.language.Language` does."""

    code: str
    right_to_left: bool

    def text(self, text: "Text") -> str: ...


class _English(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "duration":
            return short_duration(value)
        return short_count(value) if format_spec == "count" else str(super().format_field(value, format_spec))


class Text:
    """A message of the catalogues. Without values the template is taken as it is, braces included."""

    def __init__(self, template: str, /, **values: object) -> None:
        self.template, self.values = template, values
        self.many: str | None = None

    @property
    def n(self) -> int:
        return 1

    def __str__(self) -> str:
        template = self.template if self.many is None or self.n == 1 else self.many
        return _English().vformat(template, (), self.values) if self.values else template

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text | str) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Joined(Text):
    """Texts, or what is the same in every language, with a separator between them."""

    def __init__(self, separator: str, parts: Iterable[object], /) -> None:
        values = {f"part{number}": part for number, part in enumerate(parts)}
        super().__init__(separator.join(f"{{{name}}}" for name in values), **values)


class Count(Text):
    """A message in the form that goes with a number, which also fills {n}."""

    def __init__(self, one: str, many: str, n: int, /, **values: object) -> None:
        super().__init__(one, n=n, **values)
        self.many = many
        self._n = n

    @property
    def n(self) -> int:
        return self._n


_translator: Translator | None = None


def use(translator: Translator | None) -> None:
    """Show texts in this language from now on; None is English."""
    global _translator
    _translator = translator


def right_to_left() -> bool:
    """Whether the user's language is written from right to left."""
    return _translator is not None and _translator.right_to_left


def translator() -> Translator | None:
    """The language in use; None is English."""
    return _translator


def shown(text: object) -> str:
    """A text as the user reads it."""
    return _translator.text(text) if _translator is not None and isinstance(text, Text) else str(text)


def language_code(wanted: str) -> str | None:
    """The language that a word like 'ar', 'ar_EG.UTF-8' or 'Arabic_Egypt' means, if there is one."""
    code = wanted.lower().replace("-", "_").split("_")[0].split(".")[0]
    code = NAMES.get(code, code)
    return code if code in LANGUAGES else None


def language_of_locale() -> str:
    """The language of the environment, found as gettext does; Windows and macOS have it in `locale`."""
    variables = ("LC_ALL", "LC_MESSAGES", "LANG")
    value = next(filter(None, map(os.environ.get, variables)), None) or locale.getlocale()[0] or ""
    return language_code(value) or "en"
