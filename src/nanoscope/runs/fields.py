"""The numbers of a line, each with the label before it and the unit behind it.

One scanner serves every format: `loss: 2.31`, `loss=2.31`, `| loss 2.31 |`, `'loss': '2.31'` and `2.31 ms` all come
out as (label, value, unit), and `read_fields` gives those that training logs share their names and base units.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

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

_LOSS = re.compile(r"loss(?: (?:train|val|curr|value|avg|mean|is|of|now))?$")
_STEP = re.compile(
    r"(?:^| )(?:global ?|train(?:ing)? |completed |optimi[sz]er |forward )?(?:steps?|iters?|iterations?|it|update)$"
)
_VALIDATION = re.compile(r"(?:^| )(?:val|valid|validation|test|eval|dev|heldout)(?: |$)")
_TIME = re.compile(
    r"(?:^| )(?:(?:step |iter |iteration |batch )?(?:time|dt)|iter dt|dt|seconds|sec|duration|took|speed|s/step|s/it)$"
)
_CUMULATIVE = re.compile(
    r"(?:^| )(?:total|elapsed|train|wall|cumulative|epoch|training)(?: (?:train(?:ing)? )?)?"
    r"(?:time|clock|runtime)?(?: so far)?$"
)
_TOKENS_S = re.compile(r"(?:tok(?:en)?s? ?/ ?s(?:ec(?:ond)?)?(?:/device)?|tps|wps|tok s|tokens per second|throughput)$")


@lru_cache(maxsize=4096)
def meaning(label: str, unit: str) -> tuple[str, float] | None:
    """What a labelled number is, and the factor to its base unit (seconds, tokens a second, per cent)."""
    words = label.rsplit(" ", 6)
    last = words[-1] if words else ""
    if unit in _SECONDS or "/" in unit:
        base = unit.split("/")[0].strip()
        if re.search(r"tok|tps", unit):
            return ("tok_s", _MULTIPLES.get(unit[0], 1.0))
        if re.match(r"(?:it|iter|step)s?$", base):
            return ("steps_s", 1.0)
        factor = _SECONDS.get(base)
        if factor is not None:
            if re.search(r"\b(?:eta|left|remaining|eval|val|validation)\b", label):
                return ("eval_s", factor) if re.search(r"\b(?:eval|val|validation)\b", label) else None
            if re.search(r"\b(?:avg|average)$", label):
                return ("mean_s", factor)
            if _CUMULATIVE.search(label):
                return ("elapsed_s", factor)
            return ("time_s", factor) if label == "" or _TIME.search(label) or "/" in unit else None
    if unit and re.search(r"tok|tps", unit):
        return ("tok_s", _MULTIPLES.get(unit[0], 1.0))
    if _STEP.search(label):
        return ("step", 1.0)
    if last == "epoch" or last == "ep":
        return ("epoch", 1.0)
    if _LOSS.search(label):
        if re.search(r"scale|aux|best|min |balanc|router| z$|std|delta|last|smooth|scaling", label):
            return None
        if _VALIDATION.search(label):
            return ("val_loss", 1.0)
        return ("loss", 1.0)
    if last in ("bpb", "bpc") and _VALIDATION.search(label):
        return ("val_bpb", 1.0)
    if _VALIDATION.search(label) and last in ("val", "valid", "validation"):
        return ("val_loss", 1.0)
    if last in ("lr", "lrate") or label.endswith("learning rate"):
        return ("lr", 1.0)
    if last == "gnorm" or label.endswith(("grad norm", "gradnorm")) or label == "norm":
        return ("grad_norm", 1.0)
    if _TOKENS_S.search(label):
        return ("tok_s", _MULTIPLES.get(unit, 1.0))
    if "mfu" in label:
        return ("mfu_pct", 1.0)
    if re.search(r"(?:^| )(?:it|iter|step)s?(?:/| per )s(?:ec(?:ond)?)?$", label):
        return ("steps_s", 1.0)
    if re.search(r"(?:dt|time)(?: per (?:iteration|step|iter))? ms$|^dt ms$", label):
        return ("time_s", 1e-3)
    if re.search(r"(?:^| )ms(?:/| per )(?:step|iter|it)$", label):
        return ("time_s", 1e-3)
    if re.search(r"(?:dt|time)(?: per (?:iteration|step|iter))? s$", label) or (_TIME.search(label) and not unit):
        return ("elapsed_s" if _CUMULATIVE.search(label) else "bare_time", 1.0)
    if _CUMULATIVE.search(label) and re.search(r"time|elapsed|clock", label):
        return ("bare_elapsed", 1.0)
    return None


@dataclass(eq=False, repr=False)
class Fields:
    """The numbers of a line that training logs share, by name; the first of a name counts."""

    values: dict[str, float]
    total: int | None  # the N of 'step 5/N'

    def get(self, name: str, default: float = float("nan")) -> float:
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values


@lru_cache(maxsize=8192)
def _meaning_of(before: str, unit: str) -> tuple[str, float] | None:
    """The meaning of a number by the raw text before it; lines of one trainer repeat it letter by letter."""
    label = _NOT_WORD.sub(" ", before.lower()).strip()
    return ("of", 1.0) if label in ("/", "of") else meaning(label, unit)


def read_fields(line: str) -> Fields:
    """The line's numbers under their common names, in seconds, tokens a second, per cent."""
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
        name_factor = _meaning_of(before, unit)
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
        if value - value != 0:  # NaN or infinite: only a loss says something by that
            if name not in ("loss", "val_loss", "val_bpb"):
                continue
            value = NOT_FINITE
        values[name] = value * factor
    return Fields(values, total)


def number(text: str) -> float:
    """A printed loss as stored: anything that is no finite number becomes +inf; 'n/a' and the like NaN."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return float("nan")
    return value if value - value == 0 else float("inf")


def timestamp_s(line: str) -> float | None:
    """Seconds of the clock time that a logger put in front of the line (of its first 80 characters)."""
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
