"""Texts in the user's language: an English template, and the values that fill it.

Any room can make a `Text`; only the command line knows the language, and calls `use`. A text is a string, in English,
for files and for programs; `shown(text)` is for people.

    Text("{path} is not a run", path=path)
    Count("{n} run", "{n} runs", len(runs))
    Joined(", ", texts)

A value may itself be a `Text`; `Joined` puts several side by side. The format after a colon is `duration` (of seconds),
`rough` (3 digits of it), `seconds2` (with 2 decimals), `count` (33.2k), or Python's own; without one, a value is
written by `str` in every language.

Findings say themselves in a `Message`, `Plural` or `Phrases`, which is filled and translated when it is shown.
"""

import locale
import os
import re
from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any, Protocol, cast

from nanoscope.units import exact_seconds, rough_duration, short_count, short_duration

LANGUAGES: Mapping[str, str] = {"en": "English", "ar": "العربية", "hi": "हिन्दी"}
NAMES: Mapping[str, str] = {"english": "en", "arabic": "ar", "hindi": "hi"}
VARIABLE = "NANOSCOPE_LANG"
NO_VALUE = "?"  # of --lang at the end of a command line
RIGHT_TO_LEFT_MARK = "\u200f"


class Translator(Protocol):
    """What `words.language.Language` does."""

    code: str
    right_to_left: bool

    def text(self, text: "Text") -> str: ...


_FORMATS: dict[str, Callable[..., str]] = {
    "duration": short_duration,
    "rough": rough_duration,
    "seconds": exact_seconds,
    "count": short_count,
}


class _English(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        name = format_spec.rstrip("0123456789")
        if name not in _FORMATS:
            return str(super().format_field(value, format_spec))
        return _FORMATS[name](value, *map(int, filter(None, [format_spec.removeprefix(name)])))


class Text(str):
    """A message of the catalogues. Without values the template is taken as it is, braces included."""

    template: str
    values: Mapping[str, object]
    many: str | None = None
    n: int = 1

    def __new__(cls, template: str, /, **values: object) -> "Text":
        return cls._make(template, template, values)

    @classmethod
    def _make(cls, english: str, template: str, values: Mapping[str, object]) -> "Text":
        text = super().__new__(cls, _English().vformat(english, (), values) if values else english)
        text.template, text.values = template, values
        return text


class Count(Text):
    """A message in the form that goes with a number, which also fills {n}."""

    def __new__(cls, one: str, many: str, n: int, /, **values: object) -> "Count":
        text = cls._make(one if n == 1 else many, one, {"n": n, **values})
        text.many, text.n = many, n
        return cast(Count, text)


class Joined(Text):
    """Texts with a separator between them, which is a message itself."""

    parts: tuple[object, ...]

    def __new__(cls, separator: str, parts: Iterable[object], /) -> "Joined":
        parts = tuple(parts)
        text = str.__new__(cls, separator.join(map(str, parts)))
        text.template, text.values, text.parts = separator, {}, parts
        return text


class Message:
    """A text that is filled when it is shown: by these values, and by the fields of what it is about."""

    many: str | None = None
    n: int = 1

    def __init__(self, template: str, /, **values: object) -> None:
        self.template, self.values = template, values


class Plural(Message):
    """A message in the form that goes with a number, which also fills {n}."""

    def __init__(self, one: str, many: str, n: int, /, **values: object) -> None:
        super().__init__(one, n=n, **values)
        self.many, self.n = many, n


class Verbatim(Message):
    """Values side by side, the same in every language: 'ln(65) = 4.17'."""


class Phrases:
    """Messages with a separator between them, those that there are: `self.clipped and Message(…)`."""

    def __init__(self, *parts: "Part", separator: "str | Message" = " ") -> None:
        self.parts, self.separator = [part for part in parts if part and not isinstance(part, bool)], separator

    def __bool__(self) -> bool:
        return bool(self.parts)


Said = Message | Phrases | None
Part = Said | bool


def clauses(first: Part, *more: Part) -> Phrases:
    """One sentence of several pieces; without the first there is none."""
    return Phrases(first, *more, separator="") if first else Phrases()


def bracketed(*parts: Part) -> Said:
    """' (a, b, c)': the parts that there are."""
    inside = Phrases(*parts, separator=Message(", "))
    return Phrases(Verbatim(" ("), inside, Verbatim(")"), separator="") if inside else None


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


# What a terminal would act on: control characters, bidirectional overrides and lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return text that is safe to print: control characters become their symbols (␛), other unsafe ones '�'."""
    return _UNSAFE.sub(_symbol, text)


def to_print(text: object) -> str:
    """Return a text in the user's language that is safe to print."""
    if _translator is not None and isinstance(text, Text):
        return _translator.text(text)  # has made the values safe; escaping all of it would hit the isolates around them
    isolates = "\u2068\u2069" if right_to_left() else ""  # of another process
    return _UNSAFE.sub(lambda match: match[0] if match[0] in isolates else _symbol(match), str(text))


def on_terminal(text: object) -> str:
    """Return the same, where lines that go from right to left begin with a mark that says so."""
    written = to_print(text)
    marked = right_to_left() and isinstance(text, Text)
    return re.sub("^(?=.)", RIGHT_TO_LEFT_MARK, written, flags=re.MULTILINE) if marked else written


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd"
