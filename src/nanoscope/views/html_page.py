"""The page of terminal_page.py as HTML, for notebooks. It has no script, and whatever comes from a log is escaped."""

import io
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language

COLUMNS = 72  # of the charts
COLORS = {"red": "#c0392b", "yellow": "#b7791f", "green": "#2e8b57"}  # readable on white and on black


class HtmlPage(Page):
    """Collects what a view prints: headings, paragraphs, lists and tables; bare lines are preformatted."""

    def __init__(self, language: Language) -> None:
        super().__init__(language, Console(file=io.StringIO(), width=COLUMNS))
        self._parts: list[str] = []
        self._open = ""  # the element that the next part may continue

    def html(self) -> str:
        self._enter("")
        direction = "rtl" if self.language.right_to_left else "ltr"
        style = "max-width: 50em; line-height: 1.4"
        return (
            f'<div lang="{self.language.code}" dir="{direction}" style="{style}">\n'
            + "\n".join(self._parts)
            + "\n</div>"
        )

    def line(self, text: str | Text = "", style: str = "") -> None:
        if not text:
            self._enter("")
            return
        self._enter("pre")
        self._parts.append(self._markup(Text(text, style) if isinstance(text, str) else text))

    def heading(self, text: str) -> None:
        self._enter("")
        self._parts.append(f'<h4 style="margin: 1em 0 0.3em">{escape(text)}</h4>')

    def styled(self, text: Text, indent: int = 0, bullet: str = "") -> None:
        element = "ol" if bullet[:1].isdigit() else "ul" if bullet else ""
        self._enter(element)
        tag = "li" if element else "p"
        self._parts.append(f'<{tag} style="margin: 0.2em 0">{self._markup(text)}</{tag}>')

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: int = 0) -> None:
        self._enter("table")
        self._parts.append(_row("th", headers, numeric))
        self._parts += [_row("td", row, numeric) for row in rows]
        self._enter("")

    def _enter(self, element: str) -> None:
        if element != self._open:
            self._parts += [f"</{self._open}>"] if self._open else []
            left_to_right = ' dir="ltr" style="line-height: 1.1"' if element == "pre" else ""
            self._parts += [f"<{element}{left_to_right}>"] if element else []
        self._open = element

    def _markup(self, text: Text) -> str:
        """The text with its styles; a newline inside would break a list of lines."""
        segments = text.render(self.console)
        return "".join(_span(part, style) for part, style, _ in segments).rstrip("\n")


def _span(text: str, style: Style | None) -> str:
    rules = []
    if style is not None:
        rules += ["font-weight: bold"] if style.bold else []
        rules += ["opacity: 0.7"] if style.dim else []
        rules += [f"color: {COLORS[style.color.name]}"] if style.color and style.color.name in COLORS else []
    return f'<span style="{"; ".join(rules)}">{escape(text)}</span>' if rules else escape(text)


def _row(tag: str, cells: Sequence[str], numeric: int) -> str:
    aligned = ["end" if 0 < place <= numeric else "start" for place in range(len(cells))]
    marked = zip(cells, aligned, strict=True)
    return (
        "<tr>"
        + "".join(f'<{tag} style="text-align: {a}; padding: 0.1em 0.8em">{escape(cell)}</{tag}>' for cell, a in marked)
        + "</tr>"
    )
