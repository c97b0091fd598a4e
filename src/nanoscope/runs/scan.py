"""What one line says: cells, each a number with its label and unit. Nothing here remembers an earlier line.

`loss: 2.31`, `loss=2.31`, `| loss 2.31 |`, `'loss': '2.31'`, `2.31 loss`, `step 5/100` and `0.41 (0.52)` become cells.
The text around the cells is their frame: one pattern that reads every later line of the same make at once.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from nanoscope.runs.roles import COUNTERS, SECONDS, WITHOUT_UNIT, role_of
from nanoscope.runs.text import prefix_end

MOST_CELLS = 1200
LEFT_OUT = float("-inf")  # a value that somebody who quotes the log has left out
_DIGITS = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,18})(?:\.\d{0,24})?(?:[eE][-+]?\d{1,3})?"
    r"|[-+]?\.\d{1,24}(?:[eE][-+]?\d{1,3})?"
)
_NO_NUMBER = r"[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![A-Za-z])"
_LEFT_OUT = r"(?<=loss)\s?(?:\.{2,3}|…)"  # people who quote a log leave values out: 'train loss..., val loss...'
_PLAIN = rf"{_LEFT_OUT}|(?<![\w.@])(?<![A-Z]-)(?=[-+.\d])(?:{_DIGITS})|(?<![\w+-])(?=[-+nNiI]){_NO_NUMBER}"
_HOURS, _MINUTES, _SECS = r"\s?h(?:ours?|rs?)?,?\s?", r"\s?m(?:in)?,?\s?", r"\s?s(?:ec)?"
_CLOCK = r"(?:\d{1,4} days?,? )?\d{1,4}:[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
_SPOKEN = (
    rf"(?:\d{{1,4}}\s?d(?:ays?)?,?\s?)?(?:\d{{1,4}}{_HOURS}\d{{1,2}}{_MINUTES}|\d{{1,4}}{_MINUTES}\d{{1,2}}{_SECS})"
    rf"(?:\d{{1,2}}{_SECS})?\b"
)
_NUMBER = re.compile(_PLAIN)
_NUMBER_OR_DURATION = re.compile(
    rf"(?P<clock>(?<![\w.:-]){_CLOCK}(?![\w:]))|(?P<spoken>(?<![\w.:-]){_SPOKEN})|{_PLAIN}"
)
_MAY_BE_DURATION = re.compile(r"\d:\d\d|\d\s?(?:h|hr|hrs|hours?|m|min),?\s?\d")
_UNIT = re.compile(  # a unit is not the name of the next value: '3.52 tps=1.8e6'
    r"\s?(%|[kKmMbBG]?\s?(?:tok(?:en)?s?\s?/\s?s(?:ec(?:ond)?)?(?:/(?:device|gpu|chip))?|tps)\b"
    r"|(?:ms|us|µs|s|secs?|seconds|mins?|minutes|m|h|hours?)\b(?:\s?/\s?\w{1,12})?|(?:it|iter|step|batch(?:es)?)s?/s(?:ec)?\b"
    r"|(?:samples?|examples?|img|images|sentences?|seq)?s?\s?/\s?s(?:ec(?:ond)?)?\b"
    r"|(?:[GM]i?B)\b|[kKMBG]\b)(?!\s{0,2}[=:](?!\s{0,2}$))"
)
_NO_UNIT = frozenset(("", "|", ",", ")", "(", "]", ":", ";", "}", "'", '"'))
_NOT_WORD = re.compile(r"[^a-z0-9%/]+")
WORDS = {  # what trainers print in Chinese
    "验证": "val",
    "训练": "train",
    "测试": "test",
    "损失": "loss",
    "步": "step",
    "迭代": "iter",
    "批次": "batch",
    "轮次": "epoch",
    "学习率": "lr",
    "剩余": "remaining",
    "耗时": "time",
    "用时": "time",
}
_PATH = re.compile(  # 'loss/total', 'train/epoch', but not 's/epoch'
    r"/(?! ?(?:s|sec|second|step|it|iter|batch|epoch|update|device|gpu|chip|max)\b(?! per\b))(?=\w)"
    r"|(?:(?<=\btrain)|(?<=\bval)|(?<=\bvalidation)|(?<=\beval)|(?<=\btest))/"
)
_SEPARATOR = re.compile(r"[,|;\t]")
_LABEL_AFTER = re.compile(r"\s{0,2}([A-Za-z][\w/ ]{0,24}?)(?=\s{0,4}(?:[,|;\t)]|$)|\s{2})")
_GLUED = re.compile(r"(?!(?:st|nd|rd|th)\b)(?:(?!x\b|e\b)[A-Za-z]){2,20}")
_OF = re.compile(r"\s{0,8}(?:/|of|out of)\s{0,12}")
_ERROR = re.compile(r"\s{0,2}(?:±|\+/?-)\s{0,2}")
_IN_BRACKETS = re.compile(r"\s{0,2}\(\s{0,6}")
_NUMBER_BEHIND = re.compile(r"\s{1,4}[-+]?\d")
_DATE_BEHIND = re.compile(r"/\d\d(?:/\d{2,4}|,? \d\d:\d\d)")
_TOTAL_BEHIND = re.compile(r"\s{0,4}/\s{0,4}\d")
_STAMP = re.compile(r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[ T:])?(?<!\d)([0-2]?\d):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?")
_VALUE_AT = re.compile(r"(.{2,40}) (?:at|after|for) (step|iter|iteration|epoch)")
_DURATION_PART = re.compile(r"(\d{1,4})\s?([dhms])", re.IGNORECASE)
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
        for theirs, ours in WORDS.items():
            text = text.replace(theirs, f" {ours} ")
    label = _PATH.sub(" ", _NOT_WORD.sub(" ", text.lower()).strip()).removesuffix(" tensor")
    return _TYPED_KEYS.sub("", label)


def cells(line: str) -> list[Cell]:
    """The numbers of a clean line, with labels and units."""
    start = prefix_end(line)
    found: list[Cell] = []
    stamp = _stamp(line, start)
    if stamp:
        found.append(Cell("", "", "stamp", stamp.group(), *stamp.span()))
        start = max(start, stamp.end())
    first, end, numbers = start, start, 0
    durations = _MAY_BE_DURATION.search(line, start) is not None
    for match in (_NUMBER_OR_DURATION if durations else _NUMBER).finditer(line, start):
        if match.start() < end:
            continue  # part of a label
        before, begin, behind = line[end : match.start()], end, match.end()
        part = "duration" if durations and match.lastgroup else ""
        previous = found[-1] if found and numbers else None
        if previous and previous.end == begin and not part and (inner := _inside(line, match, before, previous)):
            found.append(inner)
            end = inner.end
            continue
        unit, end = ("s", behind) if part else _unit_at(line, behind, before)
        label, end = _label(line, before, unit, begin == first, end)
        if not unit and (glued := _GLUED.match(line, end)):  # '1epoch', '2nd'; but '33iter 7800' is a key and a label
            label = label_of(glued.group())
            if _NUMBER_BEHIND.match(line, glued.end()) or (role_of(label, "") or ("",))[0] not in (*COUNTERS, "epoch"):
                continue
            end = glued.end()
        numbers += 1
        if found and (at := _VALUE_AT.fullmatch(found[-1].label)) and label in ("", "is"):  # 'Loss at step 100 is 1.39'
            found[-1] = found[-1]._replace(label=at[2])
            label = at[1]
        if not label and not unit and (numbers > 3 or not match.group().isdigit() or _DATE_BEHIND.match(line, behind)):
            continue
        found.append(Cell(label, unit, part, match.group(), match.start(), behind))
        if len(found) >= MOST_CELLS:
            break
    return found


def _inside(line: str, match: "re.Match[str]", before: str, previous: Cell) -> Cell | None:
    """The N of 'a/N', or a mean in brackets behind its value."""
    text, part = match.group(), ""
    if previous.part == "" and _OF.fullmatch(before) and text.replace(",", "").isdigit():
        part = "of" if previous.text.replace(",", "").isdigit() and len(text) < 13 else ""
    elif previous.part == "" and _IN_BRACKETS.fullmatch(before) and line[match.end() :].lstrip()[:1] == ")":
        part = "mean"
    elif previous.part == "" and _ERROR.fullmatch(before):
        part = "error"
    return Cell(previous.label, previous.unit, part, text, *match.span()) if part else None


def _unit_at(line: str, end: int, before: str) -> tuple[str, int]:
    if line[end : end + 1] in _NO_UNIT:
        return "", end
    found = _UNIT.match(line, end)
    if found is None or (found[1].startswith("/") and _TOTAL_BEHIND.match(line, end)):
        return "", end
    if found[1] != "%" and _NUMBER_BEHIND.match(line, found.end()):
        role = role_of(label_of(_piece(before)), "")
        if role and role[0] in WITHOUT_UNIT:
            return "", end
    return found[1], found.end()


def _label(line: str, before: str, unit: str, at_start: bool, end: int) -> tuple[str, int]:
    """The label of a number: the phrase before it, or behind it; and where what belongs to the number ends."""
    piece = _piece(before)
    if _has_word(piece):
        return label_of(piece), end
    after = _LABEL_AFTER.match(line, end)
    if after and "/" not in before and role_of(label_of(after[1]), unit):
        return label_of(after[1]), after.end()
    return ("" if at_start or _SEPARATOR.search(before) else label_of(before)), end


def _piece(before: str) -> str:
    return _SEPARATOR.split(before)[-1]


def _stamp(line: str, prefix: int) -> "re.Match[str] | None":
    """The time that a logger wrote into the beginning of the line."""
    found = _STAMP.search(line, 0, 80) if ":" in line[:80] else None
    if found and (found[1] or found.end() <= prefix or not _has_word(line[: found.start()])):
        return found
    return None


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
    if not text[:1].isdigit():
        return float("nan")
    if ":" not in text:
        units = SECONDS | {"d": 86400.0}
        return sum(int(count) * units[unit.lower()] for count, unit in _DURATION_PART.findall(text))
    days, _, clock = text.rpartition(" ")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds + (86400 * int(days.split()[0]) if days else 0)


def _stamp_seconds(text: str) -> float:
    """Seconds from some midnight."""
    found = _STAMP.match(text)
    if found is None:
        return float("nan")
    year, month, day, hours, minutes, seconds, fraction = found.groups()
    at = int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")
    return at + (_day(int(year), int(month), int(day)) if year else 0.0)


@lru_cache(maxsize=64)
def _day(year: int, month: int, day: int) -> float:
    from datetime import date

    try:
        return date(year, month, day).toordinal() * 86400.0
    except ValueError:
        return float("nan")


# --- frames ---

# The usual ones first. Atomic: numbers that follow each other at once would be divided in every possible way.
_ANY_NUMBER = rf"(?>-?\d{{1,18}}(?:\.\d{{1,18}})?(?![\d.eE]|,\d)|{_DIGITS}|{_NO_NUMBER}|\.{{2,3}}|…)"
_GROUPS = {
    "stamp": _STAMP.pattern.replace("(\\d", "(?:\\d").replace("([0", "(?:[0"),
    "duration": rf"(?:{_CLOCK}|{_SPOKEN})",
}
_RUN = re.compile(r"\d+|\s+|[^\d\s]+")


def frame(line: str, kept: list[Cell]) -> "re.Pattern[str]":
    """A pattern for lines that differ from this one in their numbers only, with a group for each of the cells."""
    parts, end = [], 0
    for cell in kept:
        parts += [_literal(line, end, cell.start), f"({_GROUPS.get(cell.part, _ANY_NUMBER)})"]
        end = cell.end
    return re.compile("".join([*parts, _literal(line, end, len(line))]), re.ASCII)


def _literal(line: str, start: int, end: int) -> str:
    parts, at = [], start
    for match in _NUMBER.finditer(line, start, end):
        parts += [_fixed(line[at : match.start()]), _ANY_NUMBER]
        at = match.end()
    return "".join([*parts, _fixed(line[at:end])])


def _fixed(text: str) -> str:
    return "".join(
        r"\d{1,18}+" if run[0].isdigit() else r"\s{1,60}+" if run[0].isspace() else re.escape(run)
        for run in _RUN.findall(text)
    )
