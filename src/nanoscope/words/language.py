"""One language of the output: gettext for messages, Babel for numbers, isolates for right-to-left text.

English messages are the keys of the catalogues, so English needs none. A placeholder says how its value is written:
`{each:duration}` is the value of `each` as a duration. Digits are Western in every language, as in the logs.
"""

import gettext
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

from nanoscope.errors import UsageError
from nanoscope.findings.declared.base import Epoch
from nanoscope.messages import (
    LANGUAGES,
    NAMES,
    NO_VALUE,
    RIGHT_TO_LEFT_MARK,
    VARIABLE,
    Joined,
    Message,
    Phrases,
    Plural,
    Said,
    Text,
    Verbatim,
    language_code,
    language_of_locale,
    printable,
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

NOTHING = "—"  # a value that is missing or not finite
NO_BREAK_SPACE = "\u00a0"  # between a number and its unit
# Any count whose plural is the one used with fractions ('3.5 hours') in our languages.
FRACTION_PLURAL = 100

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
UNITS = {
    "d": Plural("{n} d", "{n} d", 1),
    "h": Plural("{n} h", "{n} h", 1),
    "min": Plural("{n} min", "{n} min", 1),
    "s": Plural("{n} s", "{n} s", 1),
    "ms": Plural("{n} ms", "{n} ms", 1),
}
TWO_UNITS = Message("{longer} {shorter}")
MOST_STEPS_LISTED = 4
LINE_LIMIT = 160  # characters of a text that a log printed

# What may follow the colon in a placeholder, with a digit after it for the second argument: `{share:percent}`,
# `{loss:number2}`. Each is a method of Language.
FORMATS = {
    "number", "significant", "loss", "percent", "large", "duration", "durations", "rough", "steps", "line", "plain",
    "typed", "measured", "signed", "with_error", "rate", "at", "count", "seconds", "listed",
}  # fmt: skip


STEP, EPOCH = Message("step {n:plain}"), Message("epoch {n:plain}")


class _Filler(Formatter):
    """Fills a template with values that are looked up by name and written in a language."""

    def __init__(
        self,
        language: "Language",
        value_of: Callable[[str], object],
        isolated: bool,
        grouped: bool = True,
        about: object = None,
    ) -> None:
        self._language, self._value_of, self._isolated, self._grouped = language, value_of, isolated, grouped
        self._about = about

    def get_value(self, key: int | str, args: object, kwargs: object) -> object:
        return self._value_of(str(key))

    def format_field(self, value: object, format_spec: str) -> str:
        if isinstance(value, Message | Phrases):
            text = self._language.render(value, self._about)
            return self._language.isolate(text) if self._isolated else text
        as_it_is = not (format_spec or self._grouped or isinstance(value, Text))
        text = str(value) if as_it_is else self._language.write(value, format_spec)
        return self._language.isolate(text) if self._isolated else text


class Language:
    """Writes messages in one language, with its plurals, numbers and units."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.right_to_left = code in RIGHT_TO_LEFT
        self._catalogue = gettext.translation("nanoscope", CATALOGUES, languages=[code], fallback=code == "en")

    @cached_property
    def _locale(self) -> "Locale":
        from babel import Locale

        return Locale.parse(self.code)

    def say(self, message: str, /, **values: object) -> str:
        """Return the message in this language, filled with the values."""
        return self.fill(self.translate(message), values.__getitem__)

    def plural(self, one: str, many: str, n: int, /, **values: object) -> str:
        """Return the form of the message that goes with `n`, which also fills the placeholder {n}."""
        return self.fill(self.translate(one, many, n), {"n": n, **values}.__getitem__)

    def text(self, text: Text) -> str:
        """A text of any room in this language. Its values may be from anywhere: they are made safe to print."""
        if isinstance(text, Joined):
            joined = [self.isolate(self.write(_safe(part))) for part in text.parts]
            if not self.right_to_left:
                return text.template.join(joined)
            # Isolates give it no direction of its own.
            return RIGHT_TO_LEFT_MARK + text.template.translate({ord(","): "،", ord(";"): "؛"}).join(joined)
        template = self.translate(text.template, text.many, text.n) if text.template else ""
        if self.right_to_left:
            template = CODE.sub(lambda code: self.isolate(code[0]), template)
        filler = _Filler(self, lambda name: _safe(text.values[name]), True, grouped=False)
        return filler.format(template) if text.values else template

    def render(self, said: Said, about: object = None) -> str:
        """A message in this language, filled by its own values and by the fields of what it is about."""
        if said is None:
            return ""
        if isinstance(said, Phrases):
            separator = said.separator if isinstance(said.separator, str) else self.render(said.separator)
            return separator.join(self.render(part, about) for part in said.parts)

        def value_of(name: str) -> object:
            return said.values[name] if name in said.values else getattr(about, name)

        if isinstance(said, Verbatim):
            return _Filler(self, value_of, isolated=False, about=about).format(said.template)
        template = self.translate(said.template, said.many, said.n)
        return _Filler(self, value_of, isolated=True, about=about).format(template)

    def translate(self, message: str, many: str | None = None, n: int = 1) -> str:
        """Return the catalogue's entry for a message, its placeholders not filled yet."""
        if many is None:
            return self._catalogue.gettext(message)
        return self._catalogue.ngettext(message, many, n)

    def fill(self, template: str, value_of: Callable[[str], object], isolated: bool = True) -> str:
        """Fill the placeholders of a template, each value in its own direction unless `isolated` is false."""
        return _Filler(self, value_of, isolated).format(template)

    def write(self, value: object, spec: str = "") -> str:
        """Write a value as the format of a placeholder asks: text as it is and numbers grouped if there is none."""
        if isinstance(value, Text):
            return self.text(value)
        if not spec:
            return value if isinstance(value, str) else self.number(value)  # type: ignore[arg-type]
        name = spec.rstrip("0123456789")
        if name not in FORMATS:
            return format(value, spec)
        arguments = [int(spec[len(name) :])] if len(spec) > len(name) else []
        return str(getattr(self, name)(value, *arguments))

    def isolate(self, text: str) -> str:
        """Keep the text apart from the writing direction around it."""
        if not self.right_to_left or not text:
            return text
        # A list has no direction of its own: all its words stand in isolates already.
        is_list = text.startswith(ISOLATE) and LIST_COMMA in text
        return f"{RIGHT_TO_LEFT_ISOLATE if is_list else ISOLATE}{text}{END_ISOLATE}"

    def steps(self, steps: Sequence[int]) -> str:
        """'250, 500, and 750': the first few steps of a list."""
        items = [str(step) for step in steps[:MOST_STEPS_LISTED]]
        if len(items) < 2:
            return "".join(items)
        from babel.lists import format_list

        return str(format_list([self.isolate(item) for item in items], locale=self._locale))

    def listed(self, items: Iterable[str | Message]) -> str:
        """Texts with commas between them, each in its own direction."""
        texts = (self.render(item) if isinstance(item, Message) else item for item in items)
        return self.say(", ").join(map(self.isolate, texts))

    def line(self, text: str) -> str:
        """The beginning of a text from a log, on one line, safe to print."""
        return printable(" ".join(text.split())[:LINE_LIMIT])

    def plain(self, value: object) -> str:
        """A value as logs print it: steps are not grouped."""
        return str(value)

    def at(self, number: int) -> str:
        """A place in a run: 'step 500', or 'epoch 3' for a number that counts epochs."""
        return self.say((EPOCH if isinstance(number, Epoch) else STEP).template, n=int(number))

    def typed(self, value: float) -> str:
        """A value as one types it into a command line."""
        return str(int(value)) if value == int(value) else f"{value:g}"

    # --- numbers ---

    def number(self, value: float | None, decimals: int = 0) -> str:
        """A grouped number."""
        if value is None or not math.isfinite(value):
            return NOTHING
        return f"{value:,.{decimals}f}"  # by thousands in every language, as in the logs

    def significant(self, value: float | None, digits: int = 3) -> str:
        """A number with as many decimals as `digits` significant digits need."""
        if value is None or not math.isfinite(value):
            return NOTHING
        if abs(value) >= 1 and math.isclose(value, round(value), rel_tol=1e-9):
            return self.number(value)
        magnitude = math.floor(math.log10(abs(value))) if value else 0
        return self.number(value, max(0, min(8, digits - 1 - magnitude)))

    def loss(self, value: float | None) -> str:
        """A loss as trainers print it, with four decimals."""
        return self.number(value, 4)

    def percent(self, share: float | None) -> str:
        """A share of 1 as a percentage, with a decimal where it is small."""
        if share is None or not math.isfinite(share):
            return NOTHING
        decimals = 0 if abs(share) >= 0.1995 else 1 if abs(share) >= 0.00995 else 2
        return self.number(share * 100, decimals) + "%"

    def large(self, value: float | None) -> str:
        """A count of tokens or parameters: 33.2k, 1.10M."""
        if value is None or not math.isfinite(value):
            return NOTHING
        for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size * 0.9995:
                return self.significant(value / size) + letter
        return self.number(value)

    def count(self, value: float) -> str:
        """A count as console lines print it."""
        return self.large(value)

    def measured(self, measured: tuple[float, float]) -> str:
        """A value and its error: '0.124 ± 0.023'."""
        value, error = measured
        if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
            return self.significant(value)
        decimals = max(0, min(8, 1 - math.floor(math.log10(error))))
        space = NO_BREAK_SPACE if self.right_to_left else " "  # broken there, both parts would change places
        return f"{self.number(value, decimals)}{space}±{space}{self.number(error, decimals)}"

    def signed(self, measured: tuple[float, float]) -> str:
        """A change and its error: '+0.012 ± 0.004'."""
        text = self.measured(measured)
        return text if text.startswith("-") or not measured[0] else f"+{text}"

    def with_error(self, measured: tuple[float, float | None], digits: int = 1) -> str:
        """'0.43 ± 0.05': a value with as many decimals as its error has; without one, with two digits."""
        value, error = measured
        if error is None:
            return self.significant(value, 2)
        digits += abs(value) < 2 * error  # where little is left, one digit would say '0.0 ± 0.1'
        decimals = max(0, min(4, digits - 1 - math.floor(math.log10(error)))) if error > 0 else 4
        return f"{self.number(value, decimals)} ± {self.number(error, decimals)}"

    def rate(self, value: float | None) -> str:
        """A learning rate, as one types it."""
        return NOTHING if value is None or not math.isfinite(value) else f"{value:.3g}"

    # --- time ---

    def duration(self, seconds: float | None, parts: int = 2) -> str:
        """A time in at most `parts` units: '33.2 ms', '12.5 s', '6 h 33 min'."""
        if seconds is None or not math.isfinite(seconds):
            return NOTHING
        if 0 < abs(seconds) < 0.9995:
            return self._unit("ms", seconds * 1e3, self.significant(seconds * 1e3))
        if 0 < abs(seconds) < 59.95 and seconds != round(seconds):
            return self._unit("s", seconds, self.significant(seconds))
        units = ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min"), (1, "s"))
        first = next((i for i, (size, _) in enumerate(units) if seconds >= size), len(units) - 1)
        kept = units[first : first + parts]
        left = round(seconds / kept[-1][0]) * kept[-1][0]
        if first and left >= units[first - 1][0]:  # 59 min 59.8 s, rounded, is an hour
            kept = units[first - 1 : first - 1 + parts]
        texts: list[str] = []
        for size, unit in kept:
            count, left = divmod(left, size)
            if count:
                texts.append(self._unit(unit, count, self.number(count)))
        text = texts[0] if texts else self._unit("s", 0, "0")
        for shorter in texts[1:]:
            text = self.translate(TWO_UNITS.template).format(longer=text, shorter=shorter)
        return text

    def seconds(self, seconds: float | None, digits: int = 2) -> str:
        """A duration that English console lines print in seconds."""
        return self.duration(seconds)

    def rough(self, seconds: float | None) -> str:
        """A duration that is only supposed: '20 min' says enough."""
        return self.duration(seconds, parts=1 if (seconds or 0.0) < HOUR_S else 2)

    def durations(self, ends: tuple[float, float]) -> str:
        """A range of durations."""
        return self.between(self.duration(ends[0]), self.duration(ends[1]))

    def unit(self, name: str, n: float = FRACTION_PLURAL + 0.5) -> str:
        """'{n} min' in the form that goes with `n`: a pattern for the page's scripts to fill."""
        return self._unit(name, n, "{n}")

    def _unit(self, unit: str, value: float, text: str) -> str:
        n = int(value) if value == round(value) else FRACTION_PLURAL
        pattern = UNITS[unit]
        return self.translate(pattern.template, pattern.many, n).format(n=text).replace(" ", NO_BREAK_SPACE)

    def between(self, low: str, high: str) -> str:
        """A range, or one value where both ends look the same."""
        return low if low == high else self.say("{low} to {high}", low=low, high=high)

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


def _safe(value: object) -> object:
    return value if isinstance(value, Text | int | float) else printable(str(value))


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
