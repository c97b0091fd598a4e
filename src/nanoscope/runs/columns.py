"""The lines of a log as tables: cells of lines of one make form columns. Every value is kept, in the order of the file.

Lines that are no rows are looked through for what people and programs write around them (`Event`).
"""

import copy
import math
import re
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import eq
from typing import Any

from nanoscope.runs.bars import read_bars
from nanoscope.runs.roles import COUNTERS, role_of
from nanoscope.runs.run import LINE_BITS, MISSING
from nanoscope.runs.scan import Cell, cells, frame, label_of, value_of
from nanoscope.runs.surroundings import Event, Surroundings
from nanoscope.runs.tables import TableHead
from nanoscope.runs.text import prefix_end
from nanoscope.runs.trainers import vocabulary

MOST_TABLES = 2_000  # kinds of lines; a log with more names than any trainer has is text
MOST_FRAMES = 400
RECENT_FRAMES = 6
BLOCK = 4096  # rows that wait as text
SAMPLE = 1000  # rows at either end by which a column is judged
LOSSES = frozenset(("loss", "part_loss", "val_loss", "val_bpb", "bare_train", "ppl", "val_ppl"))
_TIMES = frozenset(("time_s", "bare_time", "steps_s", "elapsed_s", "bare_elapsed", "grad_norm"))


def missing(count: int) -> "array[float]":
    """Values that were not printed."""
    return array("d", [MISSING]) * count


class Column:
    """The numbers of one label in the rows of a table. NaN: not printed; +inf: printed, but not finite."""

    def __init__(self, cell: Cell) -> None:
        self.label, self.unit, self.part = self.kind = cell[:3]
        role, self.factor = role_of(cell.label, cell.unit) if cell.part in ("", "duration") else ("", 1.0)
        self.role = role or None
        if cell.label.startswith("bar"):
            self.role = f"{cell.label.replace(' ', '_')}{'_of' if cell.part == 'of' else ''}"
        self.values = array("d")

    def sample(self) -> "array[float]":
        values = self.values
        return values[:SAMPLE] + values[max(SAMPLE, len(values) - SAMPLE) :]

    def is_whole(self) -> bool:
        """Whether these are whole numbers; most neither below zero nor absurd, which is damage to the log."""
        known = [value for value in self.sample() if value == value]
        if any(math.isfinite(value) and not value.is_integer() for value in known):
            return False
        return 2 * sum(0 <= value < 2**53 for value in known) >= len(known)

    def rises(self) -> float:
        """The share of neighbours that rise."""
        values = self.sample()
        return sum(a < b for a, b in pairwise(values)) / max(1, len(values) - 1)

    def may_be_loss(self) -> bool:
        """A loss is no count: not only whole numbers, unless they are small."""
        finite = [v for v in self.sample() if math.isfinite(v)]
        return any(not v.is_integer() for v in finite) or max(finite, default=0.0) < 100

    def empty(self) -> "Column":
        """A column of the same kind without values."""
        column = copy.copy(self)
        column.values = array("d")
        return column


class Table:
    """The rows of one make."""

    def __init__(self, bar: str | None, head: str, kept: list[Cell], unused: list[str], width: int) -> None:
        self.bar = bar  # the name of a progress bar
        self.head = head  # the words that its lines begin with
        self.width = width  # of its first line
        self.columns = [Column(cell) for cell in kept]
        self.unused = unused  # labels of numbers that are not kept
        self.at = array("q")  # where each row stands in the file; >> LINE_BITS: its line
        self._waiting: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        return len(self.at)

    def take(self, at: int, texts: tuple[str, ...]) -> None:
        self.at.append(at)
        self._waiting.append(texts)
        if len(self._waiting) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Turn the rows that wait into numbers."""
        for column, texts in zip(self.columns, zip(*self._waiting, strict=True), strict=False):
            column.values.extend(_numbers(texts, column.part))
        self._waiting.clear()

    def get(self, *roles: str) -> Column | None:
        """The first column with one of these roles."""
        return next((column for role in roles for column in self.columns if column.role == role), None)

    def stamp(self) -> Column | None:
        """The clock of the logger."""
        return next((column for column in self.columns if column.part == "stamp"), None)

    @property
    def is_record(self) -> bool:
        """Whether these are lines of a trainer, not sentences with numbers."""
        roles = {column.role for column in self.columns}
        return bool(roles & LOSSES) or bool(roles & _TIMES and roles & {*COUNTERS, "epoch"})

    def part_of(self, column: Column, part: str) -> Column | None:
        """The 'of' or 'mean' behind a column."""
        at = self.columns.index(column) if column in self.columns else len(self.columns)
        return next((other for other in self.columns[at + 1 : at + 3] if other.kind == (*column.kind[:2], part)), None)

    def names(self) -> list[str]:
        """The labels of its numbers, in order."""
        return [column.label for column in self.columns if column.part in ("", "duration")] or [""]

    def signs(self) -> set[str]:
        """What a trainer may be known by: labels, and the units of numbers without one."""
        named = {c.label or (c.unit and f"# {c.unit}") for c in self.columns if c.part != "stamp"}
        return named | set(map(label_of, self.unused))

    def is_cut(self, whole: "Table") -> bool:
        """Whether its only row is the last line of the log, and the first half of another table's line."""
        labels, others = [c.label for c in self.columns], [c.label for c in whole.columns]
        is_last = len(self) == 1 and self.at[0] > whole.at[-1]
        counted = self.get(*COUNTERS, "epoch") or not whole.get(*COUNTERS, "epoch")
        is_short = len(labels) <= (0.6 if self.get(*LOSSES) and counted else 0.9) * len(others)
        return is_last and is_short and others[: len(labels)] == labels

    def without_copies(self) -> "Table":
        """The table without lines that were printed twice: each next to its copy, and the same in all its numbers."""
        counter, size = self.get(*COUNTERS, "epoch"), len(self)
        if counter is not None and not any(map(eq, counter.values, islice(counter.values, 1, None))):
            return self
        rows = list(zip(*(map(str, column.values) for column in self.columns), strict=True))
        far = 3 << LINE_BITS
        kept = [i for i in range(size) if not i or rows[i] != rows[i - 1] or self.at[i] - self.at[i - 1] >= far]
        return self.select(kept) if 1 < len(kept) <= size - (1 if counter else 0.4 * size) else self

    def select(self, rows: list[int]) -> "Table":
        """Some of its rows."""
        table = Table(self.bar, self.head, [], self.unused, self.width)
        table.at = array("q", map(self.at.__getitem__, rows))
        for column in self.columns:
            table.columns.append(column.empty())
            table.columns[-1].values.extend(map(column.values.__getitem__, rows))
        return table

    @staticmethod
    def joined(tables: "list[Table]", no_loss: float = MISSING) -> "Table":
        """One table with all their rows, in the order of the file. `no_loss` stands where a line names no loss."""
        if len(tables) == 1:
            return tables[0]
        first = max(tables, key=lambda table: len(table.columns))
        whole = Table(first.bar, first.head, [], list(dict.fromkeys(n for t in tables for n in t.unused)), first.width)
        kinds = {column.kind: column for table in (first, *tables) for column in table.columns}
        whole.columns = [column.empty() for column in kinds.values()]
        for table in tables:
            whole.at.extend(table.at)
            there = {column.kind: column.values for column in table.columns}
            for column in whole.columns:
                nothing = no_loss if column.role in ("loss", "part_loss") else MISSING
                column.values.extend(there.get(column.kind) or array("d", [nothing]) * len(table))
        return whole.select(sorted(range(len(whole)), key=whole.at.__getitem__))


def _numbers(texts: tuple[str, ...], part: str) -> "array[float]":
    with suppress(ValueError):
        values = array("d", map(float, texts))
        if math.isfinite(sum(values)):
            return values  # nearly always, and much faster
    return array("d", (value_of(text, part) for text in texts))


@dataclass(eq=False, repr=False)
class Tables:
    """All that the lines of a log hold."""

    tables: list[Table] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    lines: int = 0
    rejoined: int = 0


class Collector:
    """Takes the clean lines of a log, one by one."""

    def __init__(self) -> None:
        self.found = Tables()
        self._by_key: dict[Any, Table] = {}
        # Patterns for further lines of a table, the most recent first.
        self._frames: list[tuple[Callable[[str], re.Match[str] | None], Table]] = []
        self._frames_made = 0
        self._head = TableHead()
        self._surroundings = Surroundings()
        self._at = 0

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        """Take all the lines. Most are of the same make as one of the last few: these are read by its frame."""
        frames, number = self._frames, 0
        for number, line in lines:
            for index, (match, table) in enumerate(frames):
                row = match(line)
                if row is not None:
                    table.take(self._next_place(number), row.groups())
                    if index:
                        frames.insert(0, frames.pop(index))
                    break
            else:
                self._take(number, line)
        self.found.lines = max(number, self.found.lines)

    def count_rejoined(self) -> None:
        """Note that a line was broken."""
        self.found.rejoined += 1

    def finish(self) -> Tables:
        """All that was found."""
        self._note(self._surroundings.finish())
        for table in self.found.tables:
            table.flush()
        return self.found

    def _take(self, number: int, line: str) -> None:
        if not line.strip():
            return
        bars = read_bars(line)
        for bar in bars:
            self._add_cells(number, bar.name, bar.cells, line)
        rest = line[bars[-1].end :] if bars else line
        is_record = self._take_row(number, rest) or bool(bars)
        self._note(self._surroundings.read(number, line, is_record))

    def _take_row(self, number: int, line: str) -> bool:
        """Add the rows of a line; whether it is a record of training, not a sentence with numbers."""
        named = self._head.row(line[prefix_end(line) :])
        text = named or line
        rows = _split(cells(text))
        is_whole = named is None and len(rows) == 1
        tables = [self._add_cells(number, None, row, text, is_whole) for row in rows]
        return any(table is not None and table.is_record for table in tables)

    def _add_cells(
        self, number: int, bar: str | None, found: list[Cell], line: str, is_whole: bool = False
    ) -> Table | None:
        """Add a row. Like a whole line others may look: from the third one of a table on, its frame reads them."""
        kept = _kept(found)
        key = (bar, *(cell[:3] for cell in kept))
        table = self._by_key.get(key)
        if table is None:
            if not kept or len(self._by_key) >= MOST_TABLES:
                return None
            first = next((cell.start for cell in kept if cell.part != "stamp"), 0)
            head = label_of(line[prefix_end(line) : first]) if bar is None else ""
            table = self._by_key[key] = Table(bar, head, kept, _unused(line, found, kept), len(line))
            self.found.tables.append(table)
        elif is_whole and table.is_record and self._frames_made < MOST_FRAMES:
            self._frames_made += 1
            self._frames.insert(0, (frame(line, kept).fullmatch, table))
            del self._frames[RECENT_FRAMES:]
        table.take(self._next_place(number), tuple(cell.text for cell in kept))
        return table

    def _next_place(self, number: int) -> int:
        place = number << LINE_BITS
        self._at = place if place > self._at else self._at + 1
        return self._at

    def _note(self, events: Iterable[Event]) -> None:
        self.found.events += [event._replace(at=self._next_place(event.line)) for event in events]


_NAME = re.compile(
    r"(?<!\w)([A-Za-z_][\w./@%-]{0,40}(?: [A-Za-z_][\w./@%-]{0,24}){0,3})['\"]?\s{0,8}[:=]?\s{0,16}['\"]?[\[(]?$"
)


def _unused(line: str, found: list[Cell], kept: list[Cell]) -> list[str]:
    """The labels, letter by letter, of numbers that say nothing about a run: beside a loss, those it is the sum of."""
    roles = {cell: role_of(cell.label, cell.unit)[0] for cell in found if not cell.part}
    idle = {"samples_s", "bpb", "part_loss"} if "loss" in roles.values() else {"samples_s", "bpb"}
    names, end = [], 0
    for cell in found:
        if cell.label and cell in roles and (cell not in kept or roles[cell] in idle):
            names += _NAME.findall(line[max(end, cell.start - 100) : cell.start])
        end = cell.end
    return names


def _kept(found: list[Cell]) -> list[Cell]:
    """The cells that become columns: those that may mean something, and what may be a counter."""
    roles = [role_of(cell.label, cell.unit)[0] for cell in found]
    counted = any(role in COUNTERS for role in roles)
    kept = []
    for cell, role in zip(found, roles, strict=True):
        whole = cell.part in ("", "of") and cell.text.isdigit() and (not cell.label or not counted)
        if cell.part == "stamp" or role or whole or cell.label.startswith("bar") or cell.label in vocabulary().labels:
            kept.append(cell)
    return kept if any(cell.part != "stamp" for cell in kept) else []


def _split(found: list[Cell]) -> list[list[Cell]]:
    """The rows of a line that a web page joined from several: each begins with the same label, and has a loss."""
    first = next((cell.label for cell in found if cell.label), "")
    starts = [at for at, cell in enumerate(found) if first and cell.label == first and not cell.part]
    rows = [found[a:b] for a, b in pairwise([*starts, len(found)])]
    return rows if len(rows) > 2 and all(any("loss" in cell.label for cell in row) for row in rows) else [found]
