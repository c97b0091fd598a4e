"""What one line says: cells, each a number with its label and unit. Nothing here remembers an earlier line.

`loss: 2.31`, `loss=2.31`, `| loss 2.31 |`, `'loss': '2.31'`, `2.31 loss`, `step 5/100` and `0.41 (0.52)` become cells.
The text around the cells is their frame: one pattern that reads every later line of the same make at once.
"""

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from nanoscope.runs.roles import CHINESE, COUNTERS, SECONDS, UNITLESS, is_validation, role_of
from nanoscope.runs.text import prefix_end

MOST_CELLS = 1200
LEFT_OUT = float("-inf")  # a value that somebody who quotes the log has left out
_DIGITS = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,18})(?:\.\d{0,24})?(?:[eE][-+]?\d{1,3})?"
    r"|[-+]?\.\d{1,24}(?:[eE][-+]?\d{1,3})?"
)
_NO_NUMBER = r"[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![A-Za-z])"
_LEFT_OUT = r"(?<=loss)\s?(?:\.{2,3}|…)"  # people who quote a log leave values out: 'train loss..., val loss...'
# In 'number of nan iterations: 0' the first is none.
_PLAIN = rf"{_LEFT_OUT}|(?<![\w.@])(?<![A-Z]-)(?=[-+.\d])(?:{_DIGITS})|(?<![\w+-])(?<!of )(?=[-+nNiI]){_NO_NUMBER}"
_HOURS, _MINUTES = r"\s?h(?:ours?|rs?)?,?\s?", r"\s?m(?:in(?:ute)?s?)?(?:,| and)?\s?"
_SECS = r"(?:\.\d{1,6})?\s?s(?:ec(?:ond)?s?)?"
_CLOCK = r"(?:\d{1,4} days?,? )?\d{1,4}:[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
_SPOKEN = (
    rf"(?:\d{{1,4}}\s?d(?:ays?)?,?\s?)?(?:\d{{1,4}}{_HOURS}\d{{1,2}}{_MINUTES}|\d{{1,4}}{_MINUTES}\d{{1,2}}{_SECS})"
    rf"(?:\d{{1,2}}{_SECS})?\b"
)
_NUMBER = re.compile(rf"(?P<clock>(?<![\w.:-]){_CLOCK}(?![\w:]))|(?P<spoken>(?<![\w.:-]){_SPOKEN})|{_PLAIN}")
_UNIT = re.compile(  # a unit is not the name of the next value: '3.52 tps=1.8e6'
    r"\s?(%|[kKmMbBG]?\s?(?:tok(?:en)?s?\s?/\s?s(?:ec(?:ond)?)?(?:/(?:device|gpu|chip))?|tps)\b"
    r"|(?:ms|us|µs|s|secs?|seconds|mins?|minutes|m|h|hours?)\b(?:\s?/\s?\w{1,12})?|(?:it|iter|step|batch(?:es)?)s?/s(?:ec)?\b"
    r"|(?:samples?|examples?|img|images|sentences?|seq)?s?\s?/\s?s(?:ec(?:ond)?)?\b"
    r"|(?:[GM]i?B)\b|[kKMBG]\b)(?!\s{0,2}[=:](?!\s{0,2}$))"
)
_NOT_WORD = re.compile(r"[^a-z0-9%/]+")
_PATH = re.compile(  # 'loss/total', 'train/epoch', but not 's/epoch'
    r"/(?! ?(?:s|sec|second|step|it|iter|batch|epoch|update|device|gpu|chip|max)\b(?! per\b))(?=\w)"
    r"|(?:(?<=\btrain)|(?<=\bval)|(?<=\bvalidation)|(?<=\beval)|(?<=\btest))/"
)
_SEPARATOR = re.compile(r"[,|;\t]")
_LABEL_BEHIND = re.compile(r"\s{0,2}([A-Za-z][\w/ ]{0,24}?)(?=\s{0,4}(?:[,|;\t)]|$)|\s{2})")
_LABEL_GLUED = re.compile(r"(?!(?:st|nd|rd|th)\b)([A-Za-z]{2,20})")
_NUMBER_BEHIND = re.compile(r"\s{1,4}[-+]?\d")
_OF = re.compile(r"\s{0,8}(?:/|of|out of)\s{0,12}")
_ERROR = re.compile(r"\s{0,2}(?:±|\+/?-)\s{0,2}")
_IN_BRACKETS = re.compile(r"\s{0,2}\(\s{0,6}")
_WHOLE = re.compile(r"[\d,]{1,16}")
_STAMP = re.compile(r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[ T:])?(?<!\d)([0-2]?\d):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?")
_VALUE_AT = re.compile(r"(.{2,40}) (?:at|after|for) (step|iter|iteration|epoch)")
_DURATION_PART = re.compile(r"([\d.]{1,16})\s?([a-z]?)", re.IGNORECASE)
_SECTION = re.compile(r"\[([a-z]{2,10})\]")  # '[train] loss=2.1, … [valid] loss=2.3, …'
_TYPED_KEYS = re.compile(r"^[a-z]{1,2}(?=(?:iter|step|epoch)$)")  # somebody pressed keys while it was printed
_has_word = re.compile(r"[^\W\d_]").search


class Cell(NamedTuple):
    """A number of a line. `part` says which: the value itself, the 'of' in a/b, the 'mean' in brackets, the 'error'
    behind ±, a time written with colons or letters ('duration'), or a logger's time of day ('stamp')."""

    label: str
    unit: str
    part: str
    text: str
    start: int
    end: int

    @property
    def value(self) -> float:
        return value_of(self.text, self.part)


@lru_cache(maxsize=8192)
def label_of(text: str) -> str:
    """A label as words in lower case, from the text before a number, which a trainer repeats letter by letter."""
    if not text.isascii():
        for theirs, ours in CHINESE.items():
            text = text.replace(theirs, f" {ours} ")
    label = _PATH.sub(" ", _NOT_WORD.sub(" ", text.lower()).strip()).removesuffix(" tensor")
    return _TYPED_KEYS.sub("", label)


def cells(line: str) -> list[Cell]:
    """The numbers of a clean line, with labels and units."""
    end = prefix_end(line)
    found: list[Cell] = []
    section = ""
    stamp = _stamp(line, end)
    if stamp:
        found.append(Cell("", "", "stamp", stamp.group(), *stamp.span()))
        end = max(end, stamp.end())
    for match in islice(_NUMBER.finditer(line, end), MOST_CELLS):
        if match.start() < end:
            continue  # part of a label
        before, begin, part = line[end : match.start()], end, "duration" if match.lastgroup else ""
        previous = found[-1] if found and not found[-1].part and found[-1].end == begin else None
        if previous and not part and (inner := _inside(line, match, before, previous)):
            found.append(inner)
            end = inner.end
            continue
        piece = _SEPARATOR.split(before)[-1]
        label = label_of(piece) if _has_word(piece) else ""
        if "[" in before:
            section = (_SECTION.findall(before) or [section])[-1]
        if section and label and is_validation(section) and not is_validation(label):
            label = f"{section} {label}"
        unit = None if part else _UNIT.match(line, match.end())
        role = role_of(label, "")[0] if unit and _NUMBER_BEHIND.match(line, unit.end()) else ""
        if role in UNITLESS and not (role == "step" and "." in match.group()):  # but 'step 812.1 ms 10087 tok/s'
            unit = None  # in 'norm 1.31 tok/s 5200' it is the name of the next value
        end = (unit or match).end()
        behind = None if label else _LABEL_BEHIND.match(line, end)
        if not part and not unit and (glued := _LABEL_GLUED.match(line, end)):  # '50batch', but not '33iter 7800'
            if role_of(label_of(glued[1]), "")[0] not in (*COUNTERS, "epoch") or _NUMBER_BEHIND.match(
                line, glued.end()
            ):
                continue
            behind = glued
        if behind:
            label, end = label_of(behind[1]), behind.end()
        if not label and not part and not unit and len(found) > 3:
            continue
        if found and (at := _VALUE_AT.fullmatch(found[-1].label)) and label in ("", "is"):  # 'Loss at step 100 is 1.39'
            found[-1] = found[-1]._replace(label=at[2])
            label = at[1]
        found.append(Cell(label, "s" if part else unit[1] if unit else "", part, match.group(), *match.span()))
    return found


def _inside(line: str, match: "re.Match[str]", before: str, previous: Cell) -> Cell | None:
    """The N of 'a/N', a mean in brackets behind its value, or an error."""
    part = ""
    if _OF.fullmatch(before):
        part = "of" if _WHOLE.fullmatch(previous.text) and _WHOLE.fullmatch(match.group()) else ""
    elif _IN_BRACKETS.fullmatch(before):
        part = "mean" if line[match.end() :].lstrip()[:1] == ")" else ""
    elif _ERROR.fullmatch(before):
        part = "error"
    return Cell(previous.label, previous.unit, part, match.group(), *match.span()) if part else None


def _stamp(line: str, prefix: int) -> "re.Match[str] | None":
    """The time that a logger wrote into the beginning of the line."""
    found = _STAMP.search(line, 0, 80)
    is_loggers = found and (found[1] or found.end() <= prefix or not _has_word(line[: found.start()]))
    return found if is_loggers else None


def value_of(text: str, part: str) -> float:
    """The number of a cell; +inf if it is printed but not finite."""
    if part == "stamp":
        return _stamp_seconds(text)
    if part == "duration":
        return _seconds(text)
    return number(text)


def number(text: str) -> float:
    """A printed number as it is stored: +inf if it is not finite, NaN if it is none ('n/a')."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return LEFT_OUT if text[-1:] in (".", "…") else float("nan")
    return value if value - value == 0 else float("inf")


def _seconds(text: str) -> float:
    """Of '1 day, 2:03:04' or '1h 2m 3s'; NaN for what is none."""
    parts = _DURATION_PART.findall(text)
    if ":" in text:
        units = (1.0, 60.0, 3600.0, 86400.0)
        seconds = sum(float(count) * unit for (count, _), unit in zip(reversed(parts), units, strict=False))
    else:
        seconds = sum(float(count) * SECONDS[unit.lower()] for count, unit in parts)
    return seconds if parts else float("nan")


def _stamp_seconds(text: str) -> float:
    """Seconds since midnight, or since the year 1 if there is a date."""
    from datetime import datetime  # loaded only where it is needed

    dated = text[4:5] in ("-", "/")
    date, time = (text[:10].replace("/", "-"), text[11:]) if dated else ("0001-01-01", text)
    try:
        return (datetime.fromisoformat(f"{date} {time:0>8}") - datetime.min).total_seconds()
    except ValueError:
        return float("nan")


# --- frames ---

# The usual ones first. Atomic: numbers that follow each other at once would be divided in every possible way.
_ANY_NUMBER = rf"(?>-?\d{{1,18}}(?:\.\d{{1,18}})?(?![\d.eE]|,\d)|{_DIGITS}|{_NO_NUMBER}|\.{{2,3}}|…)"
_VARIES = re.compile(rf"(?P<number>{_PLAIN})|(?P<digits>\d+)|(?P<space>\s+)|.")
_GROUPS = {
    "stamp": _STAMP.pattern.replace("(\\d", "(?:\\d").replace("([0", "(?:[0"),
    "duration": rf"(?:{_CLOCK}|{_SPOKEN})",
    "number": _ANY_NUMBER,
    "digits": r"\d{1,18}+",
    "space": r"\s{1,60}+",
}


def frame(line: str, kept: list[Cell]) -> "re.Pattern[str]":
    """A pattern for lines that differ from this one in their numbers only, with a group for each of the cells."""

    def fixed(start: int, end: int) -> str:
        varying = _VARIES.finditer(line, start, end)
        return "".join(_GROUPS.get(each.lastgroup or "") or re.escape(each.group()) for each in varying)

    parts, end = [], 0
    for cell in kept:
        parts += [fixed(end, cell.start), f"({_GROUPS.get(cell.part, _ANY_NUMBER)})"]
        end = cell.end
    return re.compile("".join([*parts, fixed(end, len(line))]), re.ASCII)
