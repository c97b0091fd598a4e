"""What can be printed, and shows itself in a notebook."""

import io

from rich.console import Console

from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language

TEXT_COLUMNS = 100


class Shown:
    """Something that a view prints on a page: as text with `str()`, as HTML in a notebook."""

    language: Language

    def print_to(self, page: Page) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        text = io.StringIO()
        self.print_to(Page(self.language, Console(file=text, width=TEXT_COLUMNS, color_system=None)))
        return text.getvalue().strip("\n")

    def _repr_html_(self) -> str:
        from nanoscope.views.html_page import HtmlPage

        page = HtmlPage(self.language)
        self.print_to(page)
        return page.html()
