"""Paragraphs, bullets and tables on a terminal, in either writing direction.

Right-to-left text keeps its logical order, and the terminal reverses it. A mark at the start of each line makes it do
so even if the line starts with a Latin name. That would break the columns of a table, so tables become lists there.
"""

import io
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from nanoscope.messages import RIGHT_TO_LEFT_MARK
from nanoscope.untrusted import printable
from nanoscope.words.language import NO_BREAK_SPACE, Language

NARROW = 72  # columns below which a table is written as a list

# Stands for a no-break space while rich wraps lines: it would break them at U+00A0.
_GLUE = "\ue000"


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

    def section(self, title: str, texts: Sequence[str]) -> None:
        """Print a heading with bullets below it, or nothing if there are no texts."""
        texts = [text for text in texts if text]
        if texts:
            self.heading(title)
        for text in texts:
            self.paragraph(text, bullet="- ")

    def paragraph(self, text: str, style: str = "", indent: int = 0, bullet: str = "") -> None:
        """Print wrapped text, with `bullet` to the left of its first line."""
        if text:
            self.styled(Text(text, style), indent, bullet)

    def styled(self, text: Text, indent: int = 0, bullet: str = "") -> None:
        """Print wrapped text that has its own styles."""
        hang = indent + len(bullet)
        text.plain = text.plain.replace(NO_BREAK_SPACE, _GLUE)
        mark = RIGHT_TO_LEFT_MARK if self.language.right_to_left else ""
        for number, line in enumerate(text.wrap(self.console, max(20, self.width - hang))):
            line.rstrip()
            line.plain = line.plain.replace(_GLUE, " ")
            start = " " * indent + bullet if number == 0 else " " * hang
            self.line(Text.assemble(mark + start, line))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: int = 0) -> None:
        """Print a table, or a list if a table would break. `numeric` columns after the first are right-aligned."""
        if self.language.right_to_left or self.width < NARROW:
            for row in rows:
                isolate = self.language.isolate  # a Latin header must not reorder the words next to it
                pairs = zip(headers[1:], row[1:], strict=True)
                cells = [f"{isolate(header)}: {isolate(cell)}" for header, cell in pairs if cell]
                self.paragraph(f"{row[0]}: " + self.language.say("; ").join(cells), bullet="- ")
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, header in enumerate(headers):
            table.add_column(header, justify="right" if 0 < index <= numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell.replace(NO_BREAK_SPACE, " ")) for cell in row))
        self.console.print(table, width=self.width)
