"""The lines of a log as tables: cells of lines of one make form columns. Every value is kept, in the order of the file.

Lines that are no rows are looked through for what people and programs write around them (`Event`).
"""

import math
import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import eq
from typing import Any

from nanoscope.runs.bars import read_bars
from nanoscope.runs.failures import HINTS
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
_NOTHING = re.compile(r"(?!)").match
_MAY_BE_ROW = re.compile(r"\d")
LOSSES = frozenset(("loss", "part_loss", "val_loss", "val_bpb", "bare_train", "ppl", "val_ppl"))
_TIMES = frozenset(("time_s", "bare_time", "steps_s", "elapsed_s", "bare_elapsed", "grad_norm"))


def missing(count: int) -> "array[float]":
    """Values that were not printed."""
    return array("d", [MISSING]) * count


class Column:
    """The numbers of one label in the rows of a table. NaN: not printed; +inf: printed, but not finite."""

    def __init__(self, cell: Cell) -> None:
        self.label, self.unit, self.part = cell.label, cell.unit, cell.part
        role, self.factor = role_of(cell.label, cell.unit) if cell.part in ("", "duration") else ("", 1.0)
        self.role = role or None
        if cell.label.startswith("bar"):
            self.role = f"{cell.label.replace(' ', '_')}{'_of' if cell.part == 'of' else ''}"
        self.kind = (cell.label, cell.unit, cell.part)
        self.has_point = "." in cell.text  # printed with decimals, so it is no count
        self.values = array("d")

    def sample(self) -> "array[float]":
        values = self.values
        return values if len(values) <= 2 * SAMPLE else values[:SAMPLE] + values[-SAMPLE:]

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
        return not finite or self.has_point or any(not v.is_integer() for v in finite) or max(finite) < 100

    def empty(self) -> "Column":
        """A column of the same kind without values."""
        copy = object.__new__(Column)
        copy.__dict__.update(self.__dict__)
        copy.values = array("d")
        return copy


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
        if not self._waiting:
            return
        for column, texts in zip(self.columns, zip(*self._waiting, strict=True), strict=True):
            if not column.part or column.part in ("of", "mean", "error"):
                try:
                    values = array("d", map(float, texts))
                    total = sum(values)
                    if total - total == 0:
                        column.values.extend(values)
                        continue
                except ValueError:
                    pass
            column.values.extend(value_of(text, column.part) for text in texts)
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
        if column not in self.columns:
            return None
        at = self.columns.index(column)
        behind = self.columns[at + 1 : at + 3]
        return next((other for other in behind if other.part == part and other.label == column.label), None)

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
        is_last = len(self) == 1 < len(whole) and self.at[0] > whole.at[-1]
        is_short = len(labels) <= 0.6 * len(others) or (len(labels) < len(others) and not self.get(*LOSSES))
        return is_last and is_short and others[: len(labels)] == labels

    def without_copies(self) -> "Table":
        """The table without lines that were printed twice: each next to its copy, and the same in all its numbers."""
        counter, size = self.get(*COUNTERS, "epoch"), len(self)
        if counter is not None and not any(map(eq, counter.values, islice(counter.values, 1, None))):
            return self
        texts = [column.values.tolist() for column in self.columns]
        rows = list(zip(*(map(str, values) for values in texts), strict=True))
        near = (3 << LINE_BITS) - 1
        kept = [i for i in range(size) if not i or rows[i] != rows[i - 1] or self.at[i] - self.at[i - 1] > near]
        copies = size - len(kept)
        most = len(kept) > 1 and copies >= (1 if counter else 0.4 * size)
        return self.select(kept) if most and copies else self

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
        places = array("q", (at for table in tables for at in table.at))
        order = sorted(range(len(places)), key=places.__getitem__)
        whole.at = array("q", map(places.__getitem__, order))
        kinds = {column.kind: column for table in (first, *tables) for column in table.columns}
        for kind, column in kinds.items():
            values = array("d")
            nothing = array("d", [no_loss if column.role in ("loss", "part_loss") else MISSING])
            for table in tables:
                same = next((other for other in table.columns if other.kind == kind), None)
                values.extend(same.values if same else nothing * len(table))
            whole.columns.append(column.empty())
            whole.columns[-1].values.extend(map(values.__getitem__, order))
        return whole


@dataclass(eq=False, repr=False)
class Frame:
    """A pattern for further lines of a table."""

    pattern: "re.Pattern[str]"
    table: Table

    def __post_init__(self) -> None:
        self.match = self.pattern.fullmatch


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
        self._frames: list[Frame] = []  # the most recent first
        self._count = 0
        self._seen: dict[Table, int] = {}
        self._head = TableHead()
        self._surroundings = Surroundings()
        self._at = 0

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        """Take all the lines. Most are of the same make as one of the last few: these are read by its frame."""
        number, at = 0, self._at
        match, take = self._fastest()
        for number, line in lines:
            found = match(line)
            if found is not None:
                place = number << LINE_BITS
                at = place if place > at else at + 1
                take(at, found.groups())
                continue
            self._at = at
            if not self._take_framed(number, line):
                self._take(number, line)
            at = self._at
            match, take = self._fastest()
        self._at = at
        self.found.lines = max(number, self.found.lines)

    def _fastest(self) -> "tuple[Callable[[str], re.Match[str] | None], Callable[[int, tuple[str, ...]], None]]":
        frame = self._frames[0] if self._frames else None
        return (frame.match, frame.table.take) if frame else (_NOTHING, self.found.tables.append)  # type: ignore[return-value]

    def _take_framed(self, number: int, line: str) -> bool:
        """Read a line by the frame of another than the last one."""
        for at, each in enumerate(self._frames[1:], start=1):
            found = each.match(line)
            if found is not None:
                self._add(each.table, number, found.groups())
                self._frames.insert(0, self._frames.pop(at))
                return True
        return False

    def count_rejoined(self) -> None:
        """Note that a line was broken."""
        self.found.rejoined += 1

    def finish(self) -> Tables:
        """All that was found."""
        for event in self._surroundings.finish():
            self._note(event)
        for table in self.found.tables:
            table.flush()
        return self.found

    # --- one line ---

    def _take(self, number: int, line: str) -> None:
        if not line or line.isspace():
            return
        is_record = False
        bars = read_bars(line) if "/" in line else None
        rest, start = line, 0
        for bar in bars or ():
            self._add_cells(number, bar.name, bar.cells, line, 0)
            start = bar.end
        if bars:
            rest = line[start:].strip() if "{" in line[start:] or "loss" in line[start:] else ""
            is_record = True
        if rest and bars != []:
            if _MAY_BE_ROW.search(rest):
                is_record = self._take_row(number, rest) or is_record
            else:
                self._head.row(rest)
        if not is_record or "aving" in line or "aved" in line or HINTS.search(line):
            for event in self._surroundings.read(number, line, is_record):
                self._note(event)

    def _take_row(self, number: int, line: str) -> bool:
        """Add the rows of a line; whether it is a record of training, not a sentence with numbers."""
        row = self._head.row(line[prefix_end(line) :])
        if row is not None:
            line = row
        found = cells(line)
        rows = _split(found)
        is_record = False
        for each in rows:
            table = self._add_cells(number, None, each, line, 0 if row is not None or len(rows) > 1 else 1)
            is_record = is_record or (table is not None and table.is_record)
        return is_record

    def _add_cells(self, number: int, bar: str | None, found: list[Cell], line: str, framed: int) -> Table | None:
        kept = _kept(found)
        if not kept:
            return None
        key = (bar, tuple((cell.label, cell.unit, cell.part) for cell in kept))
        table = self._by_key.get(key)
        if table is None:
            if len(self._by_key) >= MOST_TABLES:
                return None
            first = next((cell.start for cell in kept if cell.part != "stamp"), 0)
            head = label_of(line[prefix_end(line) : first]) if bar is None else ""
            whole = any(
                _role(cell) == "loss" for cell in kept
            )  # beside it, the losses that it is the sum of are not used
            idle = {"samples_s", "bpb", "part_loss"} if whole else {"samples_s", "bpb"}
            unused = [_name(line, c) for c in found if c.part == "" and (c not in kept or _role(c) in idle)]
            unused = [name for name in unused if name]
            table = self._by_key[key] = Table(bar, head, kept, unused, len(line))
            self.found.tables.append(table)
        self._add(table, number, tuple(cell.text for cell in kept))
        if framed and bar is None and table.is_record:
            self._make_frame(table, line, kept)
        return table

    def _make_frame(self, table: Table, line: str, kept: list[Cell]) -> None:
        """Read further lines like this one at once, from the third line of a table on."""
        self._seen[table] = self._seen.get(table, 0) + 1
        if self._seen[table] < 2 or self._count >= MOST_FRAMES:
            return
        self._count += 1
        pattern = frame(line, kept)
        self._frames.insert(0, Frame(pattern, table))
        del self._frames[RECENT_FRAMES:]

    def _add(self, table: Table, number: int, texts: tuple[str, ...]) -> None:
        self._at = at = max(self._at + 1, number << LINE_BITS)
        table.take(at, texts)

    def _note(self, event: Event) -> None:
        self._at = max(self._at + 1, event.line << LINE_BITS)
        self.found.events.append(event._replace(at=self._at))


_NAME = re.compile(
    r"(?<!\w)([A-Za-z_][\w./@%-]{0,40}(?: [A-Za-z_][\w./@%-]{0,24}){0,3})['\"]?\s{0,8}[:=]?\s{0,16}['\"]?[\[(]?$"
)


def _name(line: str, cell: Cell) -> str:
    """The label of a number, letter by letter."""
    found = _NAME.search(line[max(0, cell.start - 100) : cell.start])
    return found[1] if found and cell.label else ""


def _role(cell: Cell) -> str:
    return role_of(cell.label, cell.unit)[0]


def _kept(found: list[Cell]) -> list[Cell]:
    """The cells that become columns: those that may mean something, and what may be a counter."""
    roles = [_role(cell) for cell in found]
    counted = any(role in COUNTERS for role in roles)
    kept = []
    for cell, role in zip(found, roles, strict=True):
        whole = cell.part in ("", "of") and cell.text.isdigit() and (not cell.label or not counted)
        if cell.part == "stamp" or role or whole or cell.label.startswith("bar") or cell.label in vocabulary().labels:
            kept.append(cell)
    return kept if len(kept) > (kept[:1] != [] and kept[0].part == "stamp") else []


def _split(found: list[Cell]) -> list[list[Cell]]:
    """The rows of a line that a web page joined from several."""
    if len(found) < 9:
        return [found]
    first = next((cell for cell in found if cell.label), None)
    starts = [at for at, cell in enumerate(found) if first and cell.label == first.label and cell.part == ""]
    if len(starts) < 3:
        return [found]
    rows = [found[a:b] for a, b in pairwise([*starts, len(found)])]
    return rows if all("loss" in " ".join(cell.label for cell in row) for row in rows) else [found]
