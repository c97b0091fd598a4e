"""Paragraphs, bullets and tables on a terminal, in either writing direction.

Right-to-left text keeps its logical order, and the terminal reverses it. A mark at the start of each line makes it do
so even if the line starts with a Latin name. That would break the columns of a table, so tables become lists there.
"""

import io
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

from nanoscope import messages
from nanoscope.messages import NO_BREAK_SPACE, RIGHT_TO_LEFT_MARK, printable
from nanoscope.words.language import END_ISOLATE, ISOLATE, RIGHT_TO_LEFT_ISOLATE, Language

if TYPE_CHECKING:
    from rich.table import Table

UNLIMITED = 10_000  # columns
NARROW = 72  # columns below which a table is written as a list

# What stands for other characters while rich measures and wraps: it would break a line at a no-break space, and it
# gives a spacing vowel sign (का, की) no column, where terminals draw it in one of its own.
_GLUE = "\ue000"
_VOWEL_SIGNS = [sign for sign in map(chr, range(0x900, 0x980)) if unicodedata.category(sign) == "Mc"]
_STAND_INS = {ord(sign): chr(0xE001 + number) for number, sign in enumerate(_VOWEL_SIGNS)}
_DRAWN = {ord(stand_in): sign for sign, stand_in in _STAND_INS.items()} | {ord(_GLUE): " "}

# A short value without right-to-left letters: '--max_iters N' must not be broken, it would be read in the wrong order.
_SHORT_VALUE = re.compile(f"{ISOLATE}[^{ISOLATE}{END_ISOLATE}\u0590-\u08ff]{{1,40}}{END_ISOLATE}")

# Terminals that are known not to reorder right-to-left text, by the variable that each of them sets.
_WITHOUT_BIDI = {
    "WT_SESSION": "",
    "KITTY_WINDOW_ID": "",
    "ALACRITTY_WINDOW_ID": "",
    "XTERM_VERSION": "",
    "TERM_PROGRAM": "vscode|WezTerm|ghostty",
    "TERM": "linux|xterm-kitty|alacritty.*|foot.*|xterm-ghostty|wezterm",
}


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return cell_len(text.translate(_STAND_INS))


def lacks_bidi(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is known to show Arabic in the wrong order; one that isn't known may well show it right."""
    if any(map(environment.get, ("TMUX", "STY", "VTE_VERSION", "KONSOLE_VERSION", "MLTERM"))):
        return False  # it reorders; or the terminal around it may be another one
    known = (re.fullmatch(names or ".+", environment.get(name, "")) for name, names in _WITHOUT_BIDI.items())
    return any(known)


class _PipeFriendlyConsole(Console):
    def on_broken_pipe(self) -> None:
        """Leave this to the command line, which exits quietly ('| head'); rich would exit with a failure."""
        raise BrokenPipeError


class Page:
    """Writes to standard output, in color only if that is a terminal and NO_COLOR is not set."""

    def __init__(self, language: Language, console: Console | None = None) -> None:
        self.language = language
        if console is None and language.code != "en" and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # a pipe on Windows may not encode Arabic
        self.console = console or _PipeFriendlyConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
        if language.right_to_left and self.console.file.isatty() and lacks_bidi(os.environ):
            hint = messages.Message(
                "This terminal doesn't show right-to-left text properly. To read it in a browser: {command}",
                command=f"nanoscope report LOG --lang {language.code}",
            )
            self.paragraph(language.render(hint), style="dim")
            self.line()

    @property
    def width(self) -> int:
        return min(self.console.width, 110)

    @property
    def draws_charts(self) -> bool:
        return self.console.encoding.lower().startswith("utf")

    def line(self, text: str | Text = "", style: str = "") -> None:
        """Print one line without wrapping it."""
        self.console.print(Text(text, style) if isinstance(text, str) else text, soft_wrap=True)

    def quote(self, text: str) -> None:
        """Print a line of a log. Not through rich, which would take minutes for a million of them."""
        self.console.file.write(printable(text) + "\n")

    def heading(self, text: str) -> None:
        """Print the title of a section."""
        self.line()
        self.paragraph(text, style="bold")

    def section(self, title: str, texts: Sequence[str], style: str = "", numbered: bool = False) -> None:
        """Print a heading with bullets or numbers below it, or nothing if there are no texts."""
        texts = [text for text in texts if text]
        if texts:
            self.heading(title)
        for number, text in enumerate(texts, start=1):
            self.paragraph(text, style, bullet=f"{number}. " if numbered else "- ")

    def paragraph(self, text: str | Text, style: str = "", indent: int = 0, bullet: str = "") -> None:
        """Print wrapped text, with `bullet` to the left of its first line; a `Text` has its own styles."""
        if not text:
            return
        text = Text(text, style) if isinstance(text, str) else text
        hang = indent + len(bullet)
        whole = _SHORT_VALUE.sub(lambda value: value[0].replace(" ", _GLUE), text.plain)
        text.plain = whole.replace(NO_BREAK_SPACE, _GLUE).translate(_STAND_INS)
        mark = RIGHT_TO_LEFT_MARK if self.language.right_to_left else ""
        open_isolates = 0
        for number, line in enumerate(text.wrap(self.console, max(20, self.width - hang))):
            line.rstrip()
            line.plain = line.plain.translate(_DRAWN)
            start = " " * indent + bullet if number == 0 else " " * hang
            # Each line is laid out by itself: what a line leaves open begins anew in the next.
            reopened = ISOLATE * open_isolates
            opened = line.plain.count(ISOLATE) + line.plain.count(RIGHT_TO_LEFT_ISOLATE)
            open_isolates += opened - line.plain.count(END_ISOLATE)
            self.line(Text.assemble(mark + start + reopened, line, END_ISOLATE * open_isolates))

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        numeric: range = range(0),
        optional: int = 0,
    ) -> None:
        """Print a table, or a list if a table would break.

        The `numeric` columns are right-aligned. The last `optional` ones are left out where a terminal is too narrow;
        in a pipe, such a table is as wide as it needs to be.
        """
        if self.language.right_to_left or (self.width < NARROW and not optional):
            for row in rows:
                isolate = self.language.isolate  # a Latin header must not reorder the words next to it
                pairs = zip(headers[1:], map(str, row[1:]), strict=True)
                cells = [f"{isolate(header)}: {isolate(cell)}" for header, cell in pairs if cell]
                self.paragraph(f"{row[0]}: " + self.language.say("; ").join(cells), bullet="- ")
            return
        unlimited = self.console.options.update(width=UNLIMITED)
        limit = self.console.width if self.console.is_terminal else UNLIMITED
        for count in range(len(headers), len(headers) - optional - 1, -1):
            table = self._table(headers[:count], rows, numeric)
            if self.console.measure(table, options=unlimited).maximum <= limit:
                break
        parts = self.console.render(table, unlimited if optional else unlimited.update(width=self.width))
        drawn = [Segment(part.text.translate(_DRAWN), part.style, part.control) for part in parts]
        self.console.print(Segments(drawn), end="", soft_wrap=bool(optional))

    def _table(self, headers: Sequence[str], rows: Sequence[Sequence[str | Text]], numeric: range) -> "Table":
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, header in enumerate(headers):
            longest = 0 if index else max((columns(str(row[0])) for row in rows), default=0)  # names are not broken
            table.add_column(
                header.translate(_STAND_INS),
                justify="right" if index in numeric else "left",
                overflow="fold",
                min_width=min(longest, self.width // 2),
            )
        for row in rows:
            texts = [Text(cell) if isinstance(cell, str) else cell.copy() for cell in row[: len(headers)]]
            for text in texts:
                text.plain = text.plain.replace(NO_BREAK_SPACE, " ").translate(_STAND_INS)
            table.add_row(*texts)
        return table
