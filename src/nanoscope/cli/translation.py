"""Help in the user's language: the English help, piece by piece from the catalogues.

The English is where it is read best: in docstrings, in the settings of `config.py`, in the comments of presets. What
is shown of it is looked up here, a paragraph or the description of an option at a time; `extraction.py` gives pybabel
the same pieces.
"""

import io
import re
import shutil
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nanoscope.messages import RIGHT_TO_LEFT_MARK
from nanoscope.words.language import Language

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import ConsoleOptions

INDENT = "  "
EXAMPLE = re.compile(r"( *)(.+?)(?:( {3,})(\S.*))?")  # a command, and what is said about it behind some spaces
# Latin words side by side, without brackets, and without the punctuation of the sentence around them.
LATIN = re.compile(r"(?![,.:;!?=×]+ )X+(?:(?<![.:;!?]) X+)*(?<![,.:;!?])".replace("X", r"[!-'*-Z\\^-~×±…]"))
LONGEST_UNBROKEN = 64  # characters of Latin text that stay on one line
_GLUE = "\ue000"  # stands for a space where no line is broken


class Help:
    """Writes English help in one language. Also cyclopts calls it, to show a command's help."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._mark = RIGHT_TO_LEFT_MARK if language.right_to_left else ""
        self._width = min(max(shutil.get_terminal_size((100, 24)).columns, 60), 110)

    def text(self, english: str) -> str:
        """Paragraphs, and examples: indented lines whose commands stay as they are."""
        lines: list[str] = []
        for part in _parts(english):
            lines += self._example(part) if part.startswith(INDENT) else self._wrapped("", self.translated(part), 0)
        return "\n".join(lines)

    def entry(self, label: str, description: str, columns: int = 0, indent: str = INDENT) -> str:
        """An option and its description, which stands in a column of its own if the label has a number of columns."""
        start = indent + self._language.isolate(label)
        start += " " * (columns - len(label) + 1) if columns else ": "
        return "\n".join(self._wrapped(start, description, len(indent) + columns + 1 if columns else 4))

    def translated(self, english: str) -> str:
        """One piece, with the Latin names and commands in it kept in their own direction."""
        piece = " ".join(english.split())
        return LATIN.sub(
            lambda latin: self._language.isolate(latin[0]), self._language.translate(piece) if piece else ""
        )

    def _wrapped(self, start: str, text: str, hang: int) -> list[str]:
        def glue(latin: re.Match[str]) -> str:
            return latin[0] if len(latin[0]) > LONGEST_UNBROKEN else latin[0].replace(" ", _GLUE)

        text = LATIN.sub(glue, text).replace("ـ ", f"ـ{_GLUE}")  # 'الـ tokens' is one word
        lines = textwrap.wrap(
            start.replace(" ", _GLUE) + text, self._width, subsequent_indent=" " * hang,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return [self._mark + line.replace(_GLUE, " ") for line in lines] or [""]

    def _example(self, line: str) -> list[str]:
        found = EXAMPLE.fullmatch(line)
        assert found
        indent, command, space, explanation = found.groups()
        if not explanation:
            return [line]
        translation = self.translated(explanation)
        if not self._mark:
            return [indent + command + space + translation]
        # One can copy a command from a line of its own, without marks.
        translation += "" if translation.endswith("؟") else ":"
        return [*self._wrapped(indent, translation, len(indent)), indent * 2 + command]

    # --- what cyclopts calls ---

    def render_usage(self, console: Console, options: "ConsoleOptions", usage: Any) -> None:
        """Print the line that shows how a command is called."""
        self._print(console, self.usage(_plain(usage).removeprefix("Usage: ")) + "\n")

    def usage(self, command: str) -> str:
        return f"{self._mark}{self.translated('Usage:')} {self._language.isolate(command)}"

    def render_description(self, console: Console, options: "ConsoleOptions", description: Any) -> None:
        """Print what a command does, and its examples."""
        self._print(console, self.text(_plain(description)) + "\n")

    def __call__(self, console: Console, options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print commands or options."""
        if not panel.entries:
            return
        self._print(console, self.text(f"{panel.title}:"))
        for each in panel.entries:
            facts = [
                f"[{self.translated(name)}: {self._language.isolate(value)}]"
                for name, value in (("choices", ", ".join(each.choices or ())), ("default", each.default))
                if value
            ]
            facts += [f"[{self.translated('required')}]"] * each.required
            labels = each.display_labels_with_metavar if panel.format == "parameter" else each.display_labels
            description = " ".join([self.translated(_plain(each.description)), *facts])
            self._print(console, self.entry(", ".join(labels), description))
        self._print(console, "")

    def _print(self, console: Console, text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def _parts(text: str) -> Iterator[str]:
    """The paragraphs and the example lines of a text, and empty lines, of which examples need none between them."""
    paragraph: list[str] = []
    last = gap = ""
    for line in [*text.strip("\n").splitlines(), ""]:
        example = line.startswith(INDENT)
        if paragraph and (example or not line or (paragraph[-1].endswith(".") and line[0].isupper())):
            yield (last := " ".join(paragraph))
            paragraph = []
        if not line:
            gap = "\n"
            continue
        if gap and last and not (example and last.startswith(INDENT)) and not paragraph:
            yield ""
        gap = ""
        if example:
            yield (last := line)
        else:
            paragraph.append(line)


def _plain(renderable: Any) -> str:
    """The text of what cyclopts prepared for a terminal."""
    console = Console(file=io.StringIO(), width=1000, no_color=True)
    console.print(renderable or "", highlight=False, markup=False)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()).strip("\n")  # type: ignore[attr-defined]
