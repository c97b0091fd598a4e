"""What a log format is: a name, traits, and patterns of the lines that its trainer prints.

A file in this folder with a subclass of `Format` is all it takes to add one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.fields import Fields, number, read_fields, timestamp_s
from nanoscope.runs.records import Clock, Record, StepRecord
from nanoscope.runs.run import MISSING, Traits
from nanoscope.runs.text import without_prefix


def _milliseconds(text: str) -> float:
    return number(text) / 1e3


def _seconds_per_step(steps_per_second: str) -> float:
    rate = number(steps_per_second)
    return 1 / rate if rate > 0 else MISSING


_COUNT, _VALUE, _DECIMAL = r"\d{1,12}", r"\S{1,24}", r"-?\d{1,12}(?:\.\d{0,12})?"
# What {name} stands for in the pattern of a line: its text, the field of the record it fills, and how it is converted.
VALUES: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "step": (_COUNT, "step", int),
    "total": (_COUNT, "total", int),
    "epoch": (_COUNT, "epoch", int),
    "loss": (_VALUE, "loss", number),
    "time_s": (_DECIMAL, "time_s", number),
    "time_ms": (_DECIMAL, "time_s", _milliseconds),
    "steps_s": (_DECIMAL, "time_s", _seconds_per_step),
    "lr": (_VALUE, "lr", lambda text: number(text.rstrip("."))),
    "grad_norm": (_VALUE, "grad_norm", number),
    "mfu_pct": (_DECIMAL, "mfu_pct", number),
    "val": (_VALUE, "val", number),
    "train_loss": (_VALUE, "train_loss", number),
    "metric": (r"loss|bpb", "metric", str),
    "eval_ms": (_DECIMAL, "seconds", _milliseconds),
}
SERIES = ("loss_scale", "memory_gb", "data_s", "eta_s", "lr_share")  # values that a run keeps besides its columns
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Line:
    """One kind of line that a trainer prints, and the record it becomes.

    `pattern` is a regular expression in which {name} stands for a value (see VALUES). One that starts with ^ applies
    to the line without its indentation and what a logger or launcher wrote before it.
    `hint` is text that every such line contains; most lines are ruled out by it, before the pattern is even compiled.
    `rest` and `needs` name values that are found by their meaning behind the match (see runs/fields.py), or
    'timestamp': the line's own. A match without all of `needs` does not count: a terminal has cut the line.
    `check` may reject a match. Behind a record that may be `joined`, another one may follow on the same line.
    """

    def __init__(
        self,
        record: type[Record],
        pattern: str,
        hint: str,
        *,
        rest: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
        check: Callable[[re.Match[str]], bool] | None = None,
        joined: bool = False,
    ) -> None:
        self._record, self._pattern, self._hint = record, pattern, hint
        self._rest, self._needs = (*rest, *needs), needs
        self._check = check
        self._joined = joined

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], list[tuple[str, Callable[[str], Any]]]]:
        """The regular expression, and the field and conversion of each of its groups."""
        compiled = re.compile(_PLACEHOLDER.sub(lambda found: f"(?P<{found[1]}>{VALUES[found[1]][0]})", self._pattern))
        return compiled, [VALUES[name][1:] for name in compiled.groupindex]

    def parse(self, line: str) -> tuple[Sequence[Record], str]:
        """The records in a line, if it is one of this kind, and the part of the line that may hold more."""
        if self._hint not in line:
            return (), ""
        pattern, fields = self._compiled
        match = pattern.search(without_prefix(line) if self._pattern[0] == "^" else line)
        if match is None or (self._check is not None and not self._check(match)):
            return (), ""
        texts = zip(fields, match.groups(), strict=True)
        values = {field: convert(text) for (field, convert), text in texts if text is not None}
        if self._rest and not self._add_rest(values, match):
            return (), ""
        tail = line[match.end() :] if self._joined else ""
        return (self._record(**values),), tail if self._hint in tail else ""

    def _add_rest(self, values: dict[str, Any], match: re.Match[str]) -> bool:
        """Add the values behind the match; return whether all that are needed are there."""
        found = read_fields(match.string[match.end() :])
        for name in self._rest:
            if name == "timestamp":
                seconds = timestamp_s(match.string)
                values["clock"] = None if seconds is None else Clock(seconds, "timestamps")
            elif name in found:
                field, value = ("clock", Clock(found.get(name))) if name == "elapsed_s" else (name, found.get(name))
                values[field] = value
        return all(name in found for name in self._needs)


def step_record(step: int, fields: Fields, **known: Any) -> StepRecord:
    """The step that a line's fields describe; what is `known` already overrides them."""
    names = ("loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")
    values = fields.values
    extra = {name: values[name] for name in SERIES if name in values}
    return StepRecord(step, **{name: fields.get(name) for name in names} | known, extra=extra or None)


def named(same: str, **renamed: str) -> Mapping[str, str]:
    """A trainer's names of settings → nanoscope's, which are the `same` words or `renamed`."""
    return {name: name for name in same.split()} | renamed


class Format:
    """A log format; each log is read by an instance of its own."""

    name: ClassVar[str]
    traits: ClassVar[Traits] = Traits()
    lines: ClassVar[tuple[Line, ...]] = ()
    # Between formats that find equally much in a log, the one with the higher priority reads it.
    priority: ClassVar[int] = 0
    # It reads whatever it can make sense of, so it is chosen only where it finds far more than the others.
    fallback: ClassVar[bool] = False
    # If not empty, lines without any of these are ignored while the format of a log is being determined.
    signs: ClassVar[tuple[str, ...]] = ()
    # Words of its lines, where those contain none of the usual ones (loss, train, val, checkpoint).
    record_words: ClassVar[tuple[str, ...]] = ()

    # What the trainer prints around its records. This is looked for in every log: forks keep their origin's habits.
    # Settings as in `--depth=12`, `depth = 12` or `'depth': 12`.
    settings: ClassVar[Mapping[str, str]] = named("")
    # (title in lower case, setting): rows of a printed table.
    table_rows: ClassVar[tuple[tuple[str, str], ...]] = ()
    # (setting, pattern): sentences with a number, which is the pattern's one group. Letter case is ignored.
    header: ClassVar[tuple[tuple[str, str], ...]] = ()
    # How a line begins that repeats a setting given on the command line.
    override_prefix: ClassVar[str | None] = None

    def __init__(self) -> None:
        self.builder = RunBuilder(self.name, self.traits)

    def parse(self, line: str) -> Iterable[Record]:
        """The records in a clean line, the one that says what the line is first; none if it is not of this format.

        Each is placed before the next one is asked for, so `self.builder` is up to date in a generator.
        """
        for kind in self.lines:
            records, tail = kind.parse(line)
            if records:
                return (*records, *self.parse(tail)) if tail else records
        return ()

    def read(self, line: str) -> str | None:
        """Place the records of a clean line; return what kind of line it is, or None if it is not of this format."""
        kind = None
        for record in self.parse(line):
            self.builder.place(record)
            kind = kind or record.kind
        return kind

    def end(self) -> None:
        """Place what was held back: no more lines will come for now."""
