"""Texts in the user's language: an English template, and the values that fill it when it is shown.

    Message("{path} is not a run", path=path)
    Message("{n} run", "{n} runs", n=len(runs))
    joined(", ", messages)

Any room makes messages; only the command line knows the language, and sets `current`. `str(message)` is English, for
files and for programs; `to_print(message)` is for people.

A value may itself be a message. What follows the colon of a placeholder is a method of `Writer` with a digit for its
second argument (`{loss:number2}`), a noun (`{evaluations:#evaluation}` is '1 evaluation' or '3 evaluations'), or a
format of Python's own; without one, a value is written by `str`, and the number that chooses the form by thousands.
"""

import locale
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

from nanoscope.units import MISSING, exact_seconds, short_count, short_duration

LANGUAGES: Mapping[str, str] = {"en": "English", "ar": "العربية", "hi": "हिन्दी"}
NAMES: Mapping[str, str] = {"english": "en", "arabic": "ar", "hindi": "hi"}
VARIABLE = "NANOSCOPE_LANG"
NO_VALUE = "?"  # of --lang at the end of a command line
RIGHT_TO_LEFT_MARK = "\u200f"


class Message:
    """A template, perhaps one for several, and what fills it: these values, or fields of what it is about.

    `context` tells short labels apart that are spelled alike. Without values braces stay as they are.
    """

    def __init__(self, template: str, other: str | None = None, context: str = "", /, **values: object) -> None:
        self.template, self.other, self.context, self.values = template, other, context, values

    def render(self, writer: "Writer", about: object = None, trusted: bool = False) -> str:
        n = self.values["n"] if self.other else 1
        assert isinstance(n, int)
        template = writer.marked(writer.translate(self.template, self.other, n, self.context))
        if not self.values and about is None:
            return template
        values = {**self.values, "n": _Count(n)} if self.other else self.values
        return _Filler(writer, values, about, trusted).format(template)

    def __str__(self) -> str:
        return ENGLISH.render(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class _Joined(Message):
    """Messages, and texts from anywhere, with a separator between them that is looked up as a message is."""

    def __init__(self, separator: str, parts: Iterable[object]) -> None:
        super().__init__(separator)
        self.parts = [part for part in parts if part and not isinstance(part, bool)]

    def __bool__(self) -> bool:
        return bool(self.parts)

    def render(self, writer: "Writer", about: object = None, trusted: bool = False) -> str:
        texts = [writer.write(part, about=about) for part in self.parts]
        if not self.template.strip(" \n"):  # sentences, lines
            return self.template.join(texts)
        return writer.list(writer.translate(self.template), texts)


def verbatim(template: str, /, **values: object) -> Message:
    """Values side by side, the same in every language: 'ln(65) = 4.17'."""
    return Message(template, **values)


def label(context: str, template: str, /, **values: object) -> Message:
    """A short label, told apart by its context from others that are spelled alike."""
    return Message(template, None, context, **values)


def joined(separator: str, parts: Iterable[object]) -> _Joined:
    """The parts that there are, with a separator between them: a blank one, or a message such as ', '."""
    return _Joined(separator, parts)


def sentences(*parts: "Part") -> _Joined:
    """Sentences side by side, those that there are: `self.clipped and Message(…)`."""
    return _Joined(" ", parts)


def clauses(first: "Part", *more: "Part") -> _Joined:
    """One sentence of several pieces; without the first there is none."""
    return _Joined("", [first, *more] if first else [])


def bracketed(*parts: "Part") -> "Said":
    """' (a, b, c)': the parts that there are."""
    inside = joined(", ", parts)
    return _Joined("", [" (", inside, ")"]) if inside else None


Said = Message | None
Shown = str | Message
Part = Message | None | bool


class Epoch(int):
    """The number of an epoch, where a run is counted in epochs: it is written so."""


class _Count(int):
    """The number that chooses a form of a message."""


class _Filler(Formatter):
    """Fills a template with values, or with fields of what it is about; each stays apart from the text around it."""

    def __init__(
        self, writer: "Writer", values: Mapping[str, object], about: object = None, trusted: bool = False
    ) -> None:
        self._writer, self._values, self._about, self._trusted = writer, values, about, trusted

    def get_value(self, key: int | str, args: object, kwargs: object) -> object:
        name = str(key)
        return (
            getattr(self._about, name) if name not in self._values and self._about is not None else self._values[name]
        )

    def format_field(self, value: object, format_spec: str) -> str:
        return self._writer.isolate(self._writer.write(value, format_spec, self._about, self._trusted))


NOTHING = "—"  # a value that is missing or not finite
NO_BREAK_SPACE = "\u00a0"  # between a number and its unit
# Any count whose plural is the one used with fractions ('3.5 hours') in our languages.
FRACTION_PLURAL = 100

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
UNITS = {
    "d": Message("{n} d", "{n} d"),
    "h": Message("{n} h", "{n} h"),
    "min": Message("{n} min", "{n} min"),
    "s": Message("{n} s", "{n} s"),
    "ms": Message("{n} ms", "{n} ms"),
}
TWO_UNITS = Message("{longer} {shorter}")
NOUNS = {
    "step": Message("{n} step", "{n} steps"),
    "evaluation": Message("{n} evaluation", "{n} evaluations"),
}
# The methods of Writer that may follow the colon of a placeholder.
FORMATS = (
    "at compact count duration durations large line listed loss measured number percent plain rate rough seconds "
    "signed significant steps typed with_error"
)
MOST_STEPS_LISTED = 4
LINE_LIMIT = 160  # characters of a text that a log printed


class Writer:
    """Writes messages in English, and the numbers in them; `words.language` has the other languages."""

    code = "en"
    right_to_left = False

    def translate(self, message: str, other: str | None = None, n: int = 1, context: str = "") -> str:
        """The template in this language, in the form that goes with `n`."""
        return message if other is None or n == 1 else other

    def isolate(self, text: str) -> str:
        """Keep the text apart from the writing direction around it."""
        return text

    def marked(self, template: str) -> str:
        """The template with what it quotes kept apart from the writing direction around it."""
        return template

    def render(self, message: Said, about: object = None) -> str:
        """A message as text, filled by its own values and by the fields of what it is about."""
        return "" if message is None else message.render(self, about)

    def say(self, message: str, other: str | None = None, /, **values: object) -> str:
        """A message with values that are safe to print, or written already."""
        return Message(message, other, **values).render(self, trusted=True)

    def fill(self, template: str, values: Mapping[str, object]) -> str:
        """Fill the placeholders of a template, each value in its own direction."""
        return _Filler(self, values, trusted=True).format(template)

    def write(self, value: object, spec: str = "", about: object = None, trusted: bool = False) -> str:
        """Write a value as the format of a placeholder asks."""
        name = spec.rstrip("0123456789")
        if isinstance(value, Message):
            return value.render(self, about)
        if name.startswith("#"):
            noun = NOUNS[name[1:]]
            return Message(noun.template, noun.other, n=value).render(self)
        if name in FORMATS.split():
            arguments = [int(spec[len(name) :])] if len(spec) > len(name) else []
            return str(getattr(self, name)(value, *arguments))
        if isinstance(value, _Count) and not spec:
            return self.number(value)
        text = NOTHING if value is None else format(value, spec)
        return text if trusted else printable(text)

    def list(self, separator: str, texts: Sequence[str]) -> str:
        """Texts with a separator between them."""
        return separator.join(texts)

    def steps(self, steps: Sequence[int]) -> str:
        """'250, 500, and 750': the first few steps of a list."""
        items = [str(step) for step in steps[:MOST_STEPS_LISTED]]
        if len(items) < 2:
            return "".join(items)
        return self.enumerated([self.isolate(item) for item in items])

    def enumerated(self, items: Sequence[str]) -> str:
        """'250, 500, and 750'."""
        return f"{', '.join(items[:-1])}{',' * (len(items) > 2)} and {items[-1]}"

    def listed(self, items: Iterable[object]) -> str:
        """Texts with commas between them, each in its own direction."""
        return joined(", ", items).render(self)

    def line(self, text: str) -> str:
        """The beginning of a text from a log, on one line, safe to print."""
        return printable(" ".join(text.split())[:LINE_LIMIT])

    def plain(self, value: object) -> str:
        """A value as logs print it: steps are not grouped."""
        return str(value)

    def at(self, number: int) -> str:
        """A place in a run: 'step 500', or 'epoch 3' for a number that counts epochs."""
        if isinstance(number, Epoch):
            return self.say("epoch {n:plain}", n=int(number))
        return self.say("step {n:plain}", n=number)

    def typed(self, value: float) -> str:
        """A value as one types it into a command line."""
        return str(int(value)) if value == int(value) else f"{value:g}"

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
        return short_count(value)

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

    def compact(self, seconds: float | None, digits: int = 0) -> str:
        """A duration as console lines print it: '2h05m'; a short one with so many digits."""
        if seconds is None:
            return MISSING
        return f"{seconds:.{digits}g}s" if digits and seconds < 99.5 else short_duration(seconds)

    def seconds(self, seconds: float | None, digits: int = 2) -> str:
        """A duration in seconds, as console lines print it."""
        return exact_seconds(seconds, digits)

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
        return self.translate(pattern.template, pattern.other, n).format(n=text).replace(" ", NO_BREAK_SPACE)

    def between(self, low: str, high: str) -> str:
        """A range, or one value where both ends look the same."""
        return low if low == high else self.say("{low} to {high}", low=low, high=high)


ENGLISH = Writer()
current = ENGLISH
"""The language that messages are shown in; the command line sets it."""


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
    """Return a message in the user's language that is safe to print."""
    if isinstance(text, Message):
        return current.render(text)  # has made the values safe; escaping all of it would hit the isolates around them
    isolates = "\u2068\u2069" if current.right_to_left else ""  # of another process
    return _UNSAFE.sub(lambda match: match[0] if match[0] in isolates else _symbol(match), str(text))


def on_terminal(text: object) -> str:
    """Return the same, where lines that go from right to left begin with a mark that says so."""
    written = to_print(text)
    marked = current.right_to_left and isinstance(text, Message)
    return re.sub("^(?=.)", RIGHT_TO_LEFT_MARK, written, flags=re.MULTILINE) if marked else written


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd"
