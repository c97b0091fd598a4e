"""What can be printed, and shows itself in a notebook."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.console import Console

from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language

TEXT_COLUMNS = 100
HTML = '<pre lang="{language}" dir="{direction}" style="white-space: pre-wrap; line-height: 1.4">{{code}}</pre>'
Found = TypeVar("Found")


class Shown:
    """Something that a view prints on a page: as text with `str()`, as HTML in a notebook."""

    language: Language

    def print_to(self, page: Page) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._console().export_text().strip("\n")

    def _repr_html_(self) -> str:
        direction = "rtl" if self.language.right_to_left else "ltr"
        code = HTML.format(language=self.language.code, direction=direction)
        return self._console().export_html(inline_styles=True, code_format=code)

    def _console(self) -> Console:
        """What it is printed on, which remembers that."""
        console = Console(file=io.StringIO(), width=TEXT_COLUMNS, record=True)
        self.print_to(Page(self.language, console))
        return console


@dataclass(frozen=True, repr=False)
class Answer(Shown, Generic[Found]):
    """What a command found. `found` has the numbers; `notes` say what was left out, or used instead."""

    found: Found
    notes: Sequence[str]
    language: Language
    view: Callable[[Found, Page], None]
    json: Callable[[], dict[str, Any]]
    """The document that the command prints with --json."""

    def print_to(self, page: Page) -> None:
        self.view(self.found, page)
