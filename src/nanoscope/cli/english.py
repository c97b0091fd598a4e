"""Help as it is written, in English; `translation.py` writes it in other languages."""

import shutil
import textwrap


class EnglishHelp:
    """Leaves help as it is, and lays out entries."""

    def usage(self, command: str) -> str:
        return f"Usage: {command}"

    def text(self, text: str) -> str:
        return text

    translated = text

    def entry(self, label: str, description: str, columns: int, indent: str = "  ") -> str:
        """A label, and its description in a column of its own."""
        width = max(shutil.get_terminal_size((110, 24)).columns, 60)
        start = f"{indent}{label:<{columns}} "
        return textwrap.fill(description, width, initial_indent=start, subsequent_indent=" " * len(start))
