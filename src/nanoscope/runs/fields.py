"""Numbers found by meaning: each number of a line, with the label before it and the unit behind it.

One scanner serves every format: `loss: 2.31`, `loss=2.31`, `| loss 2.31 |`, `'loss': '2.31'` and `2.31 ms` all become
(label, number, unit), and MEANINGS says what a label and a unit stand for. To understand another way of writing
something, add a line to that table.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from nanoscope.runs.run import NOT_FINITE

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,18})(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
    r"|(?<![\w+-])[-+]?(?:nan|inf(?:inity)?)(?![a-z])",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s?(%|[kKmMbBG]?\s?(?:tok(?:en)?s?\s?/\s?s(?:ec(?:ond)?)?|tps)\b"
    r"|(?:ms|us|µs|s|secs?|seconds|min|m|h|hours?)\b(?:\s?/\s?\w{1,12})?|(?:it|iter|step)s?/s(?:ec)?\b|[kKMBG](?:iB)?\b)"
)
_NO_UNIT = frozenset(("", "|", ",", ")", "(", "]", "/", ":", ";", "}", "'", '"'))
_NOT_WORD = re.compile(r"[^a-z0-9%/]+")
_TIMESTAMP = re.compile(r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[ T])?(?<!\d)([0-2]?\d):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?")

_SECONDS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0}
_SECONDS |= {"min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0}
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "B": 1e9, "b": 1e9, "G": 1e9}

UnitKind = Literal["", "s", "s/step", "tok/s", "steps/s", "multiple", "other"]

# Labels, as words in lower case between single spaces.
_STEP = r"(?:^| )(?:global ?|train(?:ing)? |completed |optimi[sz]er |forward )?(?:steps?|iters?|iterations?|it|update)$"
_LOSS = r"loss(?: (?:train|val|curr|value|avg|mean|is|of|now))?$"
_VALIDATION = r"(?:^| )(?:val|valid|validation|test|eval|dev|heldout)(?: |$)"
_TIME = (
    r"(?:^| )(?:(?:step |iter |iteration |batch )?(?:time|dt)|iter dt|dt|seconds|sec|duration|took|speed|s/step|s/it)$"
)
_ELAPSED = (
    r"(?:^| )(?:total|elapsed|train|wall|cumulative|epoch|training)(?: (?:train(?:ing)? )?)?"
    r"(?:time|clock|runtime)?(?: so far)?$"
)
_TIME_IN = r"(?:dt|time)(?: per (?:iteration|step|iter))? "  # followed by the unit
_TOKENS_PER_SECOND = r"(?:tok(?:en)?s? ?/ ?s(?:ec(?:ond)?)?(?:/device)?|tps|wps|tok s|tokens per second|throughput)$"


class Meaning(NamedTuple):
    """What a number is if its label and unit match; None for numbers that only look like one of the others."""

    name: str | None
    label: str = ""  # a pattern; the empty one matches every label
    unit: tuple[UnitKind, ...] = ()  # none: any unit
    also: str = ""  # another pattern that the label must match
    factor: float = 1.0  # to the base unit, where the label names a unit


_DURATION: tuple[UnitKind, ...] = ("s", "s/step")
MEANINGS = (  # the first that matches counts
    # The unit decides, with the help of the label.
    Meaning("tok_s", unit=("tok/s",)),
    Meaning("steps_s", unit=("steps/s",)),
    Meaning("eval_s", r"\b(?:eval|val|validation)\b", _DURATION),
    Meaning(None, r"\b(?:eta|left|remaining)\b|\b(?:avg|average)$", _DURATION),
    Meaning("elapsed_s", _ELAPSED, _DURATION),
    Meaning("time_s", rf"^$|{_TIME}", _DURATION),
    Meaning("time_s", unit=("s/step",)),
    Meaning(None, unit=_DURATION),
    # The label decides.
    Meaning("step", _STEP),
    Meaning("epoch", r"(?:^| )(?:epoch|ep)$"),
    Meaning(None, rf"(?:scal(?:e|ing)|aux|best|min |balanc|router|std|delta|last|smooth).*{_LOSS}"),
    Meaning("val_loss", _LOSS, also=_VALIDATION),
    Meaning("loss", _LOSS),
    Meaning("val_bpb", r"(?:^| )bp[bc]$", also=_VALIDATION),
    Meaning("val_loss", r"(?:^| )(?:val|valid|validation)$"),
    Meaning("lr", r"(?:^| )(?:lr|lrate)$|learning rate$"),
    Meaning("grad_norm", r"(?:^| )gnorm$|grad ?norm$|^norm$"),
    Meaning("tok_s", _TOKENS_PER_SECOND),
    Meaning("mfu_pct", r"mfu"),
    Meaning("steps_s", r"(?:^| )(?:it|iter|step)s?(?:/| per )s(?:ec(?:ond)?)?$"),
    Meaning("time_s", rf"{_TIME_IN}ms$|(?:^| )ms(?:/| per )(?:step|iter|it)$", factor=1e-3),
    Meaning("bare_time", rf"{_TIME_IN}s$"),
    Meaning("elapsed_s", _TIME, unit=("",), also=_ELAPSED),
    Meaning("bare_time", _TIME, unit=("",)),
    Meaning("bare_elapsed", _ELAPSED, also=r"time|elapsed|clock"),
)


def _unit(text: str) -> tuple[UnitKind, float]:
    """What kind of unit this is, and the factor to the base unit."""
    base, slash, _ = text.partition("/")
    base = base.strip()
    if "tok" in text or "tps" in text:
        return "tok/s", _MULTIPLES.get(text[0], 1.0)
    if base in _SECONDS:
        return "s/step" if slash else "s", _SECONDS[base]
    if slash:
        return "steps/s", 1.0
    if text in _MULTIPLES:
        return "multiple", _MULTIPLES[text]
    return "other" if text else "", 1.0


@lru_cache(maxsize=1)
def _compiled_meanings() -> list[tuple[Meaning, re.Pattern[str], re.Pattern[str]]]:
    return [(meaning, re.compile(meaning.label), re.compile(meaning.also)) for meaning in MEANINGS]


@lru_cache(maxsize=4096)
def meaning_of(label: str, unit: str) -> tuple[str, float] | None:
    """What a labelled number is, and the factor to its base unit (seconds, tokens per second, per cent)."""
    kind, unit_factor = _unit(unit)
    for meaning, pattern, also in _compiled_meanings():
        if (not meaning.unit or kind in meaning.unit) and pattern.search(label) and also.search(label):
            if meaning.name is None:
                return None
            scales = kind != "multiple" or meaning.name == "tok_s"  # '32k' tokens per second, but not a loss of '2.1 M'
            return meaning.name, meaning.factor * (unit_factor if scales else 1.0)
    return None


@dataclass(eq=False, repr=False)
class Fields:
    """The values of a line by name; the first of a name counts."""

    values: dict[str, float]
    total: int | None  # the N of 'step 5/N'

    def get(self, name: str, default: float = float("nan")) -> float:
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values


@lru_cache(maxsize=8192)
def _meaning_after(text: str, unit: str) -> tuple[str, float] | None:
    """The meaning of a number by the raw text before it, which a trainer repeats letter by letter."""
    label = _NOT_WORD.sub(" ", text.lower()).strip()
    return ("of", 1.0) if label in ("/", "of") else meaning_of(label, unit)


def read_fields(line: str) -> Fields:
    """The line's values by name, in seconds, tokens per second, per cent."""
    values: dict[str, float] = {}
    total = None
    previous = ""
    end = 0
    for match in _NUMBER.finditer(line):
        before = line[end : match.start()]
        text = match.group()
        end = match.end()
        unit = ""
        found = _UNIT.match(line, end) if line[end : end + 1] not in _NO_UNIT else None
        if found:
            unit, end = found.group(1), found.end()
        name_factor = _meaning_after(before, unit)
        if name_factor is None:
            previous = ""
            continue
        name, factor = name_factor
        if name == "of":
            digits = text.replace(",", "")
            if previous == "step" and digits.isdigit():
                total = int(digits)
            continue
        previous = name
        if name in values:
            continue
        value = float(text.replace(",", ""))
        if value - value != 0:  # NaN or infinite: worth knowing only of a loss
            if name not in ("loss", "val_loss", "val_bpb"):
                continue
            value = NOT_FINITE
        values[name] = value * factor
    return Fields(values, total)


def number(text: str) -> float:
    """A printed loss as it is stored: +inf if it is not finite, NaN if it is not a number ('n/a')."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return float("nan")
    return value if value - value == 0 else float("inf")


def timestamp_s(line: str) -> float | None:
    """The time that a logger wrote into the first 80 characters of the line, in seconds from some midnight."""
    match = _TIMESTAMP.search(line, 0, 80)
    if match is None:
        return None
    year, month, day, hours, minutes, seconds, fraction = match.groups()
    at = int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")
    if year:
        from datetime import date

        try:
            at += date(int(year), int(month), int(day)).toordinal() * 86400.0
        except ValueError:
            return None
    return at
