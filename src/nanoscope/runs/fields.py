"""Numbers found by meaning: each number of a line, with its label and the unit behind it.

One scanner serves every format: `loss: 2.31`, `loss=2.31`, `| loss 2.31 |`, `'loss': '2.31'`, `2.31 loss` and `2.31 ms`
all become (label, number, unit), and MEANINGS says what a label and a unit stand for. To understand another way of
writing something, add a line to that table.
"""

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from nanoscope.runs.run import NOT_FINITE

_PLAIN = (
    r"(?<![\w.])(?=[-+.\d])[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,18})(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
    r"|(?<![\w+-])(?=[-+nNiI])[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![a-z])"
)
_HOURS, _MINUTES, _SECS = r"\s?h(?:ours?|rs?)?,?\s?", r"\s?m(?:in)?,?\s?", r"\s?s(?:ec)?"
_NUMBER = re.compile(_PLAIN)
_NUMBER_OR_DURATION = re.compile(  # '1 day, 2:03:04', '0:29', '1h02m'
    r"(?P<clock>(?<![\w.:-])(?:\d{1,4} days?,? )?\d{1,4}:[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?(?![\w:]))"
    rf"|(?P<spoken>(?<![\w.:-])(?:\d{{1,4}}\s?d(?:ays?)?,?\s?)?(?:\d{{1,4}}{_HOURS}\d{{1,2}}{_MINUTES}|\d{{1,4}}{_MINUTES}\d{{1,2}}{_SECS})"
    rf"(?:\d{{1,2}}{_SECS})?\b)|{_PLAIN}"
)
_MAY_BE_DURATION = re.compile(r"\d:\d\d|\d\s?(?:h|hr|hrs|hours?|m|min),?\s?\d")
# A unit is not the name of the next value: '3.52 tps=1.8e6'.
_UNIT = re.compile(
    r"\s?(%|[kKmMbBG]?\s?(?:tok(?:en)?s?\s?/\s?s(?:ec(?:ond)?)?(?:/(?:device|gpu|chip))?|tps)\b"
    r"|(?:ms|us|µs|s|secs?|seconds|min|minutes|m|h|hours?)\b(?:\s?/\s?\w{1,12})?|(?:it|iter|step|batch(?:es)?)s?/s(?:ec)?\b"
    r"|(?:samples?|examples?|img|images|sentences?|seq)?s?\s?/\s?s(?:ec(?:ond)?)?\b"
    r"|(?:[GM]i?B)\b|[kKMBG]\b)(?!\s{0,2}[=:](?!\s{0,2}$))"
)
_NO_UNIT = frozenset(("", "|", ",", ")", "(", "]", ":", ";", "}", "'", '"'))
_NOT_WORD = re.compile(r"[^a-z0-9%/]+")
_PATH = re.compile(  # 'loss/total', 'train/epoch', but not 's/epoch'
    r"/(?! ?(?:s|sec|second|step|it|iter|batch|epoch|update|device|gpu|chip)\b)(?=\w)"
    r"|(?:(?<=\btrain)|(?<=\bval)|(?<=\bvalidation)|(?<=\beval)|(?<=\btest))/"
)
_SEPARATOR = re.compile(r"[,|;\t]")
_LABEL_AFTER = re.compile(r"\s{0,2}([A-Za-z][\w/ ]{0,24}?)(?=\s{0,4}(?:[,|;\t)]|$)|\s{2})")
_TIMESTAMP = re.compile(r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[ T])?(?<!\d)([0-2]?\d):([0-5]\d):([0-5]\d)(?:[.,](\d{1,6}))?")
_DURATION_LABEL = re.compile(
    r"\b(?:eta|left|remain\w{0,3}|remaining time|elapsed|took)\W{0,4}(?:\d{1,3} days?,? )?$", re.IGNORECASE
)
_GLUED = re.compile(r"(?:(?!x\b|e\b)[A-Za-z]){2,20}")
_TOTAL_BEHIND = re.compile(r"\s{0,4}/\s{0,4}\d")
_DATE_BEHIND = re.compile(r"/\d\d(?:/\d{2,4}|,? \d\d:\d\d)")
_TRAIN_BRACKET = re.compile(r"\bTrain(?:ing)?:?\s{0,2}\[\s{0,6}$", re.IGNORECASE)  # 'Train: [0/300][10/1251]'
_NUMBER_BEHIND = re.compile(r"\s{1,4}[-+]?\d")
_DURATION_PART = re.compile(r"(\d{1,4})\s?([dhms])", re.IGNORECASE)

_SECONDS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "second": 1.0}
_SECONDS |= {"min": 60.0, "minutes": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0}
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "B": 1e9, "b": 1e9, "G": 1e9}
_GIGABYTES = {"GB": 1.0, "GiB": 1.0, "MB": 1e-3, "MiB": 1 / 1024, "G": 1.0, "M": 1e-3}

UnitKind = Literal["", "s", "s/step", "tok/s", "samples/s", "steps/s", "bytes", "multiple", "other"]

# Labels, as words in lower case between single spaces.
_STEP = (
    r"^(?!.*\bloss\b).*(?<!\S)"
    r"(?:global ?|train(?:ing)? |completed |current ?|optimi[sz]er |forward |num |trainer/global )?"
    r"(?:steps?|iters?|iterations?|it|updates?|itr)(?: number| train)?$"
)
_LOSS = (
    r"loss(?: (?:total|train|training|val|valid|validation|test|eval|curr|value|avg|mean|is|now|step|epoch|reached))*$"
)
# Words before 'loss' that do not make it one of several parts.
_WHOLE = (
    r"(?:train|training|tr|total|avg|average|mean|batch|step|epoch|lm|mlm|running|reduced|current|cur|final|global|eval"
    r"|iter|the|and|with|nll|language model|model|ce|cross entropy|rank 0|optimizer|smoothed|raw|info|in|at)"
)
_VALIDATION = r"(?:^| )(?:val|valid|validation|test|testing|eval|evaluation|dev|heldout)(?: |$)"
_TRAINING = r"(?:^| )(?:train|training|tr)(?: |$)"
_PER_STEP = r"(?:step|iter|iteration|it|batch|update|epoch)"
_TIME = (
    rf"(?:^| )(?:(?:{_PER_STEP} )?(?:time|dt)|iter dt|dt|time ?taken|seconds?|sec|secs|dur|duration|took"
    r"|takes|speed|run"
    rf"|step timing in s|s/step|s/it|(?:time|seconds?|secs?|s)(?: per | ?/ ?){_PER_STEP})$"
)
_ELAPSED = (
    r"(?:^| )(?:total|elapsed|train|wall|cumulative|running|epoch|training)(?: (?:train(?:ing)? )?)?"
    r"(?:time|clock|runtime|s|sec|seconds|wall)?(?: so far)?$"
)
_TIME_IN = r"(?:dt|time)(?: per (?:iteration|step|iter))? "  # followed by the unit
_LEFT = r"(?:^| )(?:eta|left|remaining|remain|epoch time left)(?: time)?(?: s| sec| seconds)?$"
_TOKENS_PER_SECOND = (
    r"(?:tok(?:en)?s? ?(?:/| per |p) ?s(?:ec(?:ond)?)?|tps|wps|tok s|throughput|tokens? s|total tokens per second)"
)
_EACH_DEVICE = r"(?: ?(?:/| per |per)? ?(?:device|gpu|chip|rank))$"
_MEMORY = (
    r"(?:^| )(?:(?:max |peak |gpu |cuda |vram )*(?:mem|memory|vram)(?: (?:used|allocated|reserved|usage|gb|gib))?)$"
)


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
    Meaning("tok_s_each", rf"{_EACH_DEVICE}", ("tok/s",)),
    Meaning("tok_s", unit=("tok/s",)),
    Meaning("steps_s", unit=("steps/s",)),
    Meaning("samples_s", unit=("samples/s",)),
    Meaning("eta_s", _LEFT, _DURATION),
    Meaning("data_s", r"\b(?:data|dataload(?:er|ing)?|fetch)\b", _DURATION),
    Meaning("eval_s", r"\b(?:eval|val|valid|validation|evaluation)\b", _DURATION),
    Meaning(None, r"\b(?:left|remaining)\b|\b(?:avg|average)$", _DURATION),
    Meaning("time_s", r"(?:^| )batch cost$", _DURATION),
    Meaning("elapsed_s", _ELAPSED, _DURATION),
    Meaning("time_s", rf"^$|{_TIME}", _DURATION),
    Meaning("time_s", unit=("s/step",)),
    Meaning(None, unit=_DURATION),
    Meaning("memory_gb", rf"{_MEMORY}|(?:^| )(?:used|allocated|reserved)$", ("bytes", "multiple")),
    Meaning(None, unit=("bytes",)),
    # The label decides.
    Meaning(
        "total", r"(?:^| )(?:total|max|num(?:ber of)?) (?:train(?:ing)? |optimi[sz]ation )?(?:steps|iters|iterations)$"
    ),
    Meaning("global_step", r"(?:^| )(?:num updates|global ?step|trainer/global step|current ?steps?)$"),
    Meaning("step", _STEP),
    Meaning("batch", r"(?:^| )(?:batch|mini ?batch|batch idx)$"),
    Meaning("epoch", r"^(?!.*\bloss\b).*(?<!\S)(?:epoch|epochs|ep)(?: train)?$"),
    Meaning("loss_scale", r"(?:^| )(?:loss scal(?:e|ing)|grad scale)$"),
    Meaning(None, rf"(?:scal(?:e|ing)|aux|best|min |lowest|balanc|router|std|delta|last|smooth|total train).*{_LOSS}"),
    Meaning(None, _LOSS, unit=("other",)),  # a percentage is not a loss
    Meaning("val_loss", rf"{_VALIDATION}.*{_LOSS}|{_LOSS}", also=_VALIDATION),
    Meaning("loss", rf"^(?:{_WHOLE} )*{_LOSS}"),
    Meaning("part_loss", rf"^(?:\S+ ){{0,3}}\S{{0,24}}{_LOSS}"),
    Meaning("part_loss", r"^loss [dg]$"),
    Meaning("loss", r"(?:^| )(?:nll|xent|cross entropy)$"),
    Meaning("val_bpb", r"(?:^| )bp[bc]$", also=_VALIDATION),
    Meaning("bpb", r"(?:^| )bp[bc]$"),
    Meaning("val_loss", r"(?:^| )(?:val|valid|validation)$"),
    Meaning("bare_train", r"(?:^| )train$"),
    Meaning("ppl", r"(?:^| )(?:ppl|perplexity)$"),
    Meaning("lr", r"(?:^| )(?:lr|lrate)(?: 0)?$|learning ?rate$"),
    Meaning("lr_share", r"(?:^| )lrm$"),  # of its full value
    Meaning("grad_norm", r"(?:^| )gnorm$|grad(?:ient)? ?norm$|^norm$"),
    Meaning("tok_s_each", rf"{_TOKENS_PER_SECOND}{_EACH_DEVICE}"),
    Meaning("tok_s", rf"{_TOKENS_PER_SECOND}$"),
    Meaning("tok_s", r"(?:^| )kt/s$", factor=1e3),
    Meaning("mfu_pct", r"mfu"),
    Meaning("steps_s", rf"(?:^| )(?:{_PER_STEP}(?:e?s)?(?:/| per )s(?:ec(?:ond)?)?|ups|train steps per second)$"),
    Meaning("samples_s", r"(?:samples?|examples?|images?|sentences?|seqs?|sequences?)(?: ?/ ?| per )s(?:ec(?:ond)?)?$"),
    Meaning(None, r"(?: ?/ ?| per )s(?:ec(?:ond)?)?$"),
    Meaning("bare_time", r"^time/(?:batch|step|iter)$"),
    Meaning(None, r"\btime/(?:epoch|batch|sample|token)"),  # Composer's counters
    Meaning("bare_time", r"(?:^| )batch (?:t|cost)$"),
    Meaning("data_s", r"(?:^| )(?:data(?: time| t| cost)?|data ?load(?:ing)?(?: time)?|fetch data)$"),
    Meaning("time_s", rf"{_TIME_IN}ms$|(?:^| )ms(?:/| per ){_PER_STEP}$", factor=1e-3),
    Meaning("bare_time", rf"{_TIME_IN}s(?:ec)?$"),
    Meaning("elapsed_s", _TIME, unit=("",), also=_ELAPSED),
    Meaning("eta_s", r"(?:^| )(?:remaining|eta) s(?:ec(?:onds)?)?$"),
    Meaning("bare_time", _TIME, unit=("",)),
    Meaning("bare_elapsed", _ELAPSED, also=r"time|elapsed|clock|wall"),
    Meaning("memory_gb", rf"{_MEMORY}", also=r"gi?b$"),
    Meaning("memory_mb", _MEMORY),
)
# Names whose values other trainers print as a fraction would be misread; they are counts.
_COUNTS = frozenset(("step", "global_step", "total", "batch"))
# What never has a unit: in 'norm 1.31 tok/s 5200', the unit is the name of the next value.
_WITHOUT_UNIT = frozenset(
    ("loss", "val_loss", "part_loss", "grad_norm", "lr", "loss_scale", "ppl", "tok_s", "tok_s_each", "steps_s", "step")
)
_LOSSES = frozenset(("loss", "part_loss", "val_loss", "val_bpb", "bpb"))
_UNUSED = frozenset(("samples_s", "bpb"))  # understood, but nothing is made of them


def _unit(text: str) -> tuple[UnitKind, float]:
    """What kind of unit this is, and the factor to the base unit."""
    base, slash, _ = text.partition("/")
    base = base.strip()
    if "tok" in text or "tps" in text:
        return "tok/s", _MULTIPLES.get(text[0], 1.0)
    if base in _SECONDS:
        return "s/step" if slash else "s", _SECONDS[base]
    if slash:
        return ("steps/s" if base.startswith(("it", "step", "batch")) else "samples/s"), 1.0
    if text.endswith("B") and text in _GIGABYTES:
        return "bytes", _GIGABYTES[text]
    if text in _MULTIPLES:
        return "multiple", _MULTIPLES[text]
    return "other" if text else "", 1.0


@lru_cache(maxsize=1)
def _compiled_meanings() -> list[tuple[Meaning, re.Pattern[str], re.Pattern[str]]]:
    return [(meaning, re.compile(meaning.label), re.compile(meaning.also)) for meaning in MEANINGS]


@cache
def _any_meaning(kind: UnitKind) -> re.Pattern[str]:
    """What every label of a number with such a unit matches, if it has a meaning: a log may have very many others."""
    labels = (meaning.label for meaning in MEANINGS if not meaning.unit or kind in meaning.unit)
    return re.compile("|".join(f"(?:{label})" for label in labels))


@lru_cache(maxsize=4096)
def meaning_of(label: str, unit: str) -> tuple[str, float] | None:
    """What a labelled number is, and the factor to its base unit (seconds, tokens per second, per cent, GB)."""
    kind, factor = _unit(unit)
    if not _any_meaning(kind).search(label):
        return None
    for meaning, pattern, also in _compiled_meanings():
        if (not meaning.unit or kind in meaning.unit) and pattern.search(label) and also.search(label):
            name = meaning.name
            if name is None:
                return None
            if name == "val_loss" and _nearest_is_training(label):
                name = "loss"  # 'eval: train loss'
            if kind == "multiple":  # '32k' tokens per second and '8 G' of memory, but not a loss of '2.1 M'
                factor = _GIGABYTES.get(unit, 1.0) if name == "memory_gb" else factor if name == "tok_s" else 1.0
            return name, meaning.factor * factor
    return None


def _nearest_is_training(label: str) -> bool:
    """Whether the last word before 'loss' that says which loss it is says training."""
    head = label[: label.rfind("loss")]
    training = [match.end() for match in re.finditer(_TRAINING, head)]
    validation = [match.end() for match in re.finditer(_VALIDATION, head)]
    return bool(training) and max(training) > max(validation, default=-1)


@dataclass(eq=False, repr=False)
class Fields:
    """The values of a line by name; the first of a name counts."""

    values: dict[str, float] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # by name: the N of 'step 5/N', 'epoch 1/N'
    pair: tuple[int, int] | None = None  # 'a/b' that no word names
    first: int | None = None  # a whole number at the very beginning that no word names
    epoch_first: bool = False  # the epoch stands before the step

    @property
    def total(self) -> int | None:
        """The number of steps in all."""
        return self.totals.get("step")

    def get(self, name: str, default: float = float("nan")) -> float:
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values


@lru_cache(maxsize=8192)
def meaning_after(text: str, unit: str) -> tuple[str, float] | None:
    """The meaning of a number by the raw text before it, which a trainer repeats letter by letter."""
    label = _PATH.sub(" ", _NOT_WORD.sub(" ", text.lower()).strip()).removesuffix(" tensor")
    return ("of", 1.0) if label in ("/", "of") else meaning_of(label, unit)


_has_word = re.compile(r"[^\W\d_]").search


def read_fields(line: str, unused: list[str] | None = None) -> Fields:
    """The line's values by name, in seconds, tokens per second, per cent.

    `unused` gets the text before each number that has no meaning here, or one that an earlier number has.
    """
    fields = Fields()
    values = fields.values
    previous = part = ""
    end = 0
    durations = _MAY_BE_DURATION.search(line) is not None
    for match in (_NUMBER_OR_DURATION if durations else _NUMBER).finditer(line):
        start = match.start()
        if start < end:
            continue  # part of a label
        before = line[end:start]
        text = match.group()
        beginning, end = end, match.end()
        unit = ""
        duration = durations and match.lastgroup is not None
        if duration:
            unit = "s"
        elif line[end : end + 1] not in _NO_UNIT:
            found = _UNIT.match(line, end)
            if found and not (found.group(1).startswith("/") and _TOTAL_BEHIND.match(line, end)):
                unit, end = found.group(1), found.end()
            if (
                unit
                and unit != "%"
                and _NUMBER_BEHIND.match(line, end)
                and (meant := meaning_after(_piece(before), ""))
            ):
                unit, end = ("", match.end()) if meant[0] in _WITHOUT_UNIT else (unit, end)
        if _SEPARATOR.search(before):
            piece = _piece(before)
            if _has_word(piece):
                before = piece
            else:
                after = _LABEL_AFTER.match(line, end)
                meant = meaning_after(after[1], unit) if after else None
                if after and meant:
                    before, end = after[1], after.end()
        elif beginning == 0 or not _has_word(before):
            after = _LABEL_AFTER.match(line, end) if not _has_word(before) else None
            if after and (previous or beginning == 0) and meaning_after(after[1], unit) and "/" not in before:
                before, end = after[1], after.end()
        if not unit and (glued := _GLUED.match(line, end)):
            end, previous = glued.end(), ""  # '1epoch', '2nd': no value, and its letters are no label
            continue
        name_factor = meaning_after(before, unit)
        if name_factor and name_factor[0] == "bare_train" and _TRAIN_BRACKET.search(before):
            name_factor = None
        if name_factor is None or (duration and not _has_word(before)):
            named = _has_word(before) and not _TRAIN_BRACKET.search(before)
            if text.isdigit() and not named and not unit and len(text) < 13:
                behind = _TOTAL_BEHIND.match(line, end)
                if behind and fields.pair and before.strip() == "][":  # '[0/25][50/1583]'
                    _take_epoch(fields, *fields.pair)
                if fields.pair is None and behind and not _DATE_BEHIND.match(line, end):
                    fields.pair = (int(text), 0)
                    previous = "pair"
                    continue
                if beginning == 0 and not before.strip(" [(#*|>") and fields.first is None:
                    fields.first = int(text)
            previous = ""
            if unused is not None:
                unused.append(before)
            continue
        name, factor = name_factor
        if name == "of":
            digits = text.replace(",", "")
            if previous and digits.isdigit() and len(digits) < 13:
                if previous == "pair" and fields.pair:
                    fields.pair = (fields.pair[0], int(digits))
                else:
                    fields.totals.setdefault("step" if previous == "global_step" else previous, int(digits))
            continue
        if name in _COUNTS and not text.replace(",", "").isdigit():
            continue
        previous = name
        if name in values or name in _UNUSED:
            if unused is not None and name not in _COUNTS:
                unused.append(before)
            continue
        value = _seconds(match) if duration else float(text.replace(",", ""))
        if value - value != 0:  # NaN or infinite: worth knowing only of losses and gradients
            if name not in _LOSSES and name != "grad_norm":
                continue
            value = NOT_FINITE
        if name == "epoch" and "step" not in values and "global_step" not in values:
            fields.epoch_first = True
        values[name] = value * factor
        if name == "part_loss":
            part = before
    if unused is not None and "loss" in values and "part_loss" in values:
        unused.append(part)
    _settle(fields)
    return fields


def _piece(before: str) -> str:
    """The label of a number, from all that stands between it and the number before it."""
    return _SEPARATOR.split(before)[-1]


def _take_epoch(fields: Fields, epoch: int, epochs: int) -> None:
    """What seemed to be the position is that of the epoch; the batch of it follows."""
    if "epoch" not in fields and epochs > 0:
        fields.values["epoch"], fields.totals["epoch"] = float(epoch), epochs
        fields.epoch_first, fields.pair = True, None


def _settle(fields: Fields) -> None:
    """Give each thing one name, whichever way it was printed."""
    values = fields.values
    if "global_step" in values:  # where steps of the epoch are printed too, these are the ones to count by
        values["step"] = values.pop("global_step")
    if "total" in values:
        fields.totals.setdefault("step", int(values.pop("total")))
    bare_train = values.pop("bare_train", None)
    if bare_train is not None and "val_loss" in values:  # 'train 2.31 val 2.40'
        values.setdefault("loss", bare_train)
    if "part_loss" in values:
        values.setdefault("loss", values.pop("part_loss"))
    if "memory_mb" in values:
        megabytes = values.pop("memory_mb")
        values.setdefault("memory_gb", megabytes / 1e3)
    if fields.pair is not None and fields.pair[1] == 0:
        fields.pair = None


def _seconds(match: re.Match[str]) -> float:
    text = match.group()
    if match["spoken"]:
        return sum(int(n) * _SECONDS[unit.lower()] for n, unit in _DURATION_PART.findall(text))
    days, _, clock = text.rpartition(" ")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds + (86400 * int(days.split()[0]) if days else 0)


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
    if match is None or _DURATION_LABEL.search(line, 0, match.start()):
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
