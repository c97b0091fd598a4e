"""A language to speak: gettext for sentences, Babel for numbers, isolates for right-to-left text.

English sentences stand in the code and are the catalogues' keys: the code reads as what it prints, English
needs no catalogue, and a translator always sees the whole sentence with its named placeholders. `say` and `plural`
are the two names that pybabel looks for. Digits are Western in every language, as in the logs talked about.
"""

import gettext
import locale
import math
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nanoscope.errors import UsageError

if TYPE_CHECKING:
    from babel import Locale

LANGUAGES: Mapping[str, str] = {"en": "English", "ar": "العربية", "hi": "हिन्दी"}
NAMES: Mapping[str, str] = {"english": "en", "arabic": "ar", "hindi": "hi"}
RIGHT_TO_LEFT = frozenset({"ar"})
CATALOGUES = Path(__file__).parent / "locale"

# First-strong isolate … pop: what is between is laid out on its own, so that '0.62 / 1.70' or '--max_iters'
# keeps its order inside an Arabic sentence.
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
RIGHT_TO_LEFT_MARK = "\u200f"

NOTHING = "—"
NO_BREAK_SPACE = "\u00a0"  # between a number and its unit
# Any count whose plural is the one used with fractions ('3.5 hours') in our languages.
FRACTION_PLURAL = 100

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


class Language:
    """Says messages in one language, with its plurals, numbers and units."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.right_to_left = code in RIGHT_TO_LEFT
        self._catalogue = gettext.translation("nanoscope", CATALOGUES, languages=[code], fallback=code == "en")

    @cached_property
    def _locale(self) -> "Locale":
        from babel import Locale

        return Locale.parse(self.code)

    def say(self, message: str, /, **values: str | int) -> str:
        """The message in this language; whole numbers are grouped, other values come ready as text."""
        return self._fill(self._catalogue.gettext(message), values)

    def plural(self, one: str, many: str, n: int, /, **values: str | int) -> str:
        """The form of the message that goes with `n`, which is also its placeholder {n}."""
        return self._fill(self._catalogue.ngettext(one, many, n), {"n": n, **values})

    def _fill(self, message: str, values: Mapping[str, str | int]) -> str:
        texts = {k: v if isinstance(v, str) else self.number(v) for k, v in values.items()}
        if self.right_to_left:
            texts = {k: self.isolate(v) for k, v in texts.items()}
        return message.format_map(texts)

    def isolate(self, text: str) -> str:
        """The text, kept apart from the direction of what is around it."""
        return f"{ISOLATE}{text}{END_ISOLATE}" if self.right_to_left and text else text

    def both(self, items: list[str]) -> str:
        """'a, b and c'."""
        if len(items) < 2:
            return "".join(items)
        from babel.lists import format_list

        return str(format_list([self.isolate(item) for item in items], locale=self._locale))

    # --- numbers ---

    def number(self, value: float | None, decimals: int = 0) -> str:
        """A grouped number; a dash for one that is missing or not finite."""
        if value is None or not math.isfinite(value):
            return NOTHING
        if self.code == "en":  # Python groups as English does; loading Babel takes 50 ms
            return f"{value:,.{decimals}f}"
        from decimal import Decimal

        from babel.numbers import format_decimal

        grouping = self._locale.decimal_formats[None].pattern.split(".")[0]  # '#,##,##0' in Hindi
        pattern = grouping + ("." + "0" * decimals if decimals else "")
        rounded = Decimal(f"{value:.{decimals}f}")  # as English is rounded: Babel alone rounds halves to even
        return str(format_decimal(rounded, format=pattern, locale=self._locale))

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
        if value is not None and not math.isfinite(value):
            return self.say("not a number")
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
        said: list[str] = []
        for size, unit in kept:
            count, left = divmod(left, size)
            if count:
                said.append(self._unit(unit, count, self.number(count)))
        text = said[0] if said else self._unit("s", 0, "0")
        for part in said[1:]:
            text = self._catalogue.gettext("{longer} {shorter}").format(longer=text, shorter=part)
        return text

    def unit(self, name: str) -> str:
        """'{n} min': a pattern for times that something else counts."""
        return self._unit(name, FRACTION_PLURAL + 0.5, "{n}")

    def _unit(self, unit: str, value: float, text: str) -> str:
        n = int(value) if value == round(value) else FRACTION_PLURAL
        ngettext = self._catalogue.ngettext
        match unit:
            case "d":
                message = ngettext("{n} d", "{n} d", n)
            case "h":
                message = ngettext("{n} h", "{n} h", n)
            case "min":
                message = ngettext("{n} min", "{n} min", n)
            case "s":
                message = ngettext("{n} s", "{n} s", n)
            case _:
                message = ngettext("{n} ms", "{n} ms", n)
        return message.format(n=text).replace(" ", NO_BREAK_SPACE)

    def between(self, low: str, high: str) -> str:
        """A range of two values; one value where both look the same."""
        return low if low == high else self.say("{low} to {high}", low=low, high=high)

    def clock(self, when: datetime, now: datetime) -> str:
        """A time of day, with the weekday or date where it is not today's."""
        from babel.dates import format_skeleton

        def part(skeleton: str) -> str:
            return str(format_skeleton(skeleton, when, locale=self._locale))

        if when.date() == now.date():
            return part("Hm")
        return part("EHm") if when - now < timedelta(days=6) else f"{part('yMMMd')} {part('Hm')}"


def choose_language(wanted: str | None = None) -> Language:
    """The language asked for, or the locale's, or English."""
    if wanted:
        code = wanted.lower().replace("-", "_").split("_")[0]
        code = NAMES.get(code, code)
        if code in LANGUAGES:
            return Language(code)
        close = get_close_matches(wanted.lower(), [*LANGUAGES, *NAMES], n=1)
        hint = f" Did you mean --lang {NAMES.get(close[0], close[0])}?" if close else ""
        raise UsageError(
            f"There is no language {wanted!r}.{hint}\n"
            f"There are: {', '.join(f'{code} ({name})' for code, name in LANGUAGES.items())}."
        )
    return Language(_of_locale())


def _of_locale() -> str:
    """The language of the environment, as gettext looks it up; Windows and macOS say it through `locale`."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            break
    else:
        value = locale.getlocale()[0] or ""
    code = value.lower().split("_")[0].split(".")[0].split("-")[0]
    code = NAMES.get(code, code)  # Windows says 'Arabic_Egypt'
    return code if code in LANGUAGES else "en"
