"""Paragraphs, bullets and tables on a terminal, in either writing direction.

Right-to-left text keeps its logical order, and the terminal turns it: a mark at the beginning of each line tells it
so even where the line begins with a Latin name. Tables would be torn apart by that, so they become lists there.
"""

import io
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from nanoscope.untrusted import printable
from nanoscope.words.language import NO_BREAK_SPACE, RIGHT_TO_LEFT_MARK, Language

NARROW = 72  # columns below which a table is written as a list

# Stands for a space at which rich must not break: it would at U+00A0.
_GLUE = "\ue000"


class _PipeFriendlyConsole(Console):
    def on_broken_pipe(self) -> None:
        """'| head' has seen enough: the command line ends that quietly, where rich would exit with a failure."""
        raise BrokenPipeError


class Page:
    """Writes to standard output; coloured only where that is a terminal and NO_COLOR is not set."""

    def __init__(self, language: Language, console: Console | None = None) -> None:
        self.language = language
        if console is None and language.code != "en" and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # a Windows pipe would have no Arabic letters
        self.console = console or _PipeFriendlyConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)

    @property
    def width(self) -> int:
        return min(self.console.width, 110)

    @property
    def draws_charts(self) -> bool:
        return self.console.encoding.lower().startswith("utf")

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One line, as it is."""
        self.console.print(Text(text, style) if isinstance(text, str) else text, soft_wrap=True)

    def quote(self, text: str) -> None:
        """A line of a log, however long: past rich, which would take minutes for a million of them."""
        self.console.file.write(printable(text) + "\n")

    def heading(self, text: str) -> None:
        """The title of a section."""
        self.line()
        self.paragraph(text, style="bold")

    def section(self, title: str, texts: Sequence[str]) -> None:
        """A heading and bullets below it; nothing at all where nothing is to be said."""
        texts = [text for text in texts if text]
        if texts:
            self.heading(title)
        for text in texts:
            self.paragraph(text, bullet="- ")

    def paragraph(self, text: str, style: str = "", indent: int = 0, bullet: str = "") -> None:
        """Wrapped text; `bullet` hangs to the left of it."""
        if text:
            self.styled(Text(text, style), indent, bullet)

    def styled(self, text: Text, indent: int = 0, bullet: str = "") -> None:
        """Wrapped text that has styles of its own."""
        hang = indent + len(bullet)
        text.plain = text.plain.replace(NO_BREAK_SPACE, _GLUE)
        mark = RIGHT_TO_LEFT_MARK if self.language.right_to_left else ""
        for number, line in enumerate(text.wrap(self.console, max(20, self.width - hang))):
            line.rstrip()
            line.plain = line.plain.replace(_GLUE, " ")
            start = " " * indent + bullet if number == 0 else " " * hang
            self.line(Text.assemble(mark + start, line))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: int = 0) -> None:
        """A table whose columns after the first, `numeric` of them, are right-aligned; a list where it would break."""
        if self.language.right_to_left or self.width < NARROW:
            for row in rows:
                isolate = self.language.isolate  # a Latin header must not turn the words beside it around
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
