"""One language of the output: gettext for messages, Babel for numbers, isolates for right-to-left text.

English messages are the keys of the catalogues, so English needs none. A placeholder says how its value is written:
`{each:duration}` is the value of `each` as a duration. Digits are Western in every language, as in the logs.
"""

import gettext
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nanoscope.errors import UsageError
from nanoscope.messages import (
    LANGUAGES,
    NAMES,
    NO_VALUE,
    RIGHT_TO_LEFT_MARK,
    VARIABLE,
    Writer,
    language_code,
    language_of_locale,
)
from nanoscope.suggest import did_you_mean

if TYPE_CHECKING:
    from babel import Locale

RIGHT_TO_LEFT = frozenset({"ar"})
CATALOGUES = Path(__file__).parent / "locale"

# First-strong isolate … pop: the text between them is laid out by itself, so that '0.62 / 1.70' or '--max_iters' keeps
# its order inside an Arabic sentence.
ISOLATE, RIGHT_TO_LEFT_ISOLATE, END_ISOLATE = "\u2068", "\u2067", "\u2069"
LIST_COMMA = "،"
# What one types, with its values: '--out {folder}', 'nanoscope train {run}', 'batch_size={n}'.
_WORD = r"(?!\()(?:(?![.:;,)]+(?:[\s،؛]|$)|\.\{)[!-~])+"  # up to the punctuation of the sentence around it
CODE = re.compile(rf"(?<![\w-])(?:(?=--?[a-z{{]|\w+=)|(?:nanoscope|pip|python|zstd) ){_WORD}(?: {_WORD})*", re.ASCII)


class Language(Writer):
    """Writes messages in one language, with its plurals and units."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.right_to_left = code in RIGHT_TO_LEFT
        self._catalogue = gettext.translation("nanoscope", CATALOGUES, languages=[code], fallback=code == "en")

    @cached_property
    def _locale(self) -> "Locale":
        from babel import Locale

        return Locale.parse(self.code)

    def translate(self, message: str, other: str | None = None, n: int = 1, context: str = "") -> str:
        """Return the catalogue's entry for a message, its placeholders not filled yet."""
        if not message:  # of the header
            return ""
        if other is not None:
            return self._catalogue.ngettext(message, other, n)
        return self._catalogue.pgettext(context, message) if context else self._catalogue.gettext(message)

    def isolate(self, text: str) -> str:
        """Keep the text apart from the writing direction around it."""
        if not self.right_to_left or not text:
            return text
        # A list has no direction of its own: all its words stand in isolates already.
        is_list = text.startswith(ISOLATE) and LIST_COMMA in text
        return f"{RIGHT_TO_LEFT_ISOLATE if is_list else ISOLATE}{text}{END_ISOLATE}"

    def marked(self, template: str) -> str:
        return CODE.sub(lambda code: self.isolate(code[0]), template) if self.right_to_left else template

    def list(self, separator: str, texts: Sequence[str]) -> str:
        """Isolates give a list no direction of its own: a mark does."""
        mark = RIGHT_TO_LEFT_MARK if self.right_to_left else ""
        return mark + separator.join(map(self.isolate, texts))

    def enumerated(self, items: Sequence[str]) -> str:
        from babel.lists import format_list

        return str(format_list(items, locale=self._locale))

    def count(self, value: float) -> str:
        return super().count(value) if self.code == "en" else self.large(value)

    def compact(self, seconds: float | None, digits: int = 0) -> str:
        """The catalogues have no shorter units."""
        if self.code == "en":
            return super().compact(seconds, digits)
        return self.rough(seconds) if digits else self.duration(seconds)

    def seconds(self, seconds: float | None, digits: int = 2) -> str:
        return super().seconds(seconds, digits) if self.code == "en" else self.duration(seconds)

    def clock(self, when: datetime, now: datetime) -> str:
        """A time of day, with the weekday or the date if it is not today."""
        from babel.dates import format_date, format_skeleton

        time = f"{when:%H:%M}"
        if when.date() == now.date():
            return time
        if when - now < timedelta(days=6):
            day = format_date(when, "EEE" if self.code == "en" else "EEEE", locale=self._locale)
        else:
            day = format_skeleton("yMMMd", when, locale=self._locale)
        return self.say("{day} {time}", day=day, time=time)


def choose_language(wanted: str | None = None) -> Language:
    """Return the language asked for, or that of NANOSCOPE_LANG, or of the locale, or English."""
    wanted = wanted or os.environ.get(VARIABLE)
    if not wanted:
        return Language(language_of_locale())
    if code := language_code(wanted):
        return Language(code)
    languages = ", ".join(f"{code} ({name})" for code, name in LANGUAGES.items())
    if wanted == NO_VALUE:
        raise UsageError("--lang needs a language.\nThere are: {languages}.", languages=languages)
    hint = did_you_mean(wanted.lower(), [*LANGUAGES, *NAMES], lambda name: f"--lang {NAMES.get(name, name)}")
    raise UsageError(
        "There is no language {wanted}.{hint}\nThere are: {languages}.",
        wanted=repr(wanted), hint=hint, languages=languages,
    )  # fmt: skip
