"""Help in the user's language and at the terminal's width.

The English is where it is read best: in docstrings, in the settings of `config.py`, in the comments of presets. What
is shown of it is looked up here, a paragraph or the description of an option at a time; `extraction.py` takes down
what is looked up.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from nanoscope import messages

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel

# With None, its default: where pydantic is loaded, cyclopts has it check defaults too.
LANGUAGE_HELP = "The language of the output: en, ar or hi; default: NANOSCOPE_LANG, or that of your locale."
LANGUAGE = Annotated[Literal["en", "ar", "hi"] | None, Parameter(help=LANGUAGE_HELP)]
INDENT = "  "
COLUMNS = 24  # of the names of options
NARROW = 72  # columns below which a description stands below its option
EXAMPLE = re.compile(r"( *)(.+?)(?:( {3,})(\S.*))?")  # a command, and what is said about it behind some spaces
# Latin words side by side, without brackets, and without the punctuation of the sentence around them.
LATIN = re.compile(r"(?![,.:;!?=×]+ )X+(?:(?<![.:;!?]) X+)*(?<![,.:;!?])".replace("X", r"[!-'*-Z\\^-~×±…]"))
GLUE = "\ue000"  # stands for a space where no line is broken
NOT_SHOWN = ("False", "''", "()", None)  # defaults that say nothing


class Help:
    """Lays out English help in the user's language. cyclopts calls it, too, to show the help of a command."""

    def __init__(self) -> None:
        self.language = messages.current
        self.isolate = self.language.isolate
        self.mark = messages.RIGHT_TO_LEFT_MARK if self.language.right_to_left else ""
        self.width = max(shutil.get_terminal_size((100, 24)).columns, 40)

    def translated(self, english: str) -> str:
        """One piece, with the Latin names and commands in it kept together and in their own direction."""
        piece = " ".join(english.split())
        if self.language is messages.ENGLISH or not piece:
            return piece
        translation = LATIN.sub(lambda latin: self.isolate(latin[0].replace(" ", GLUE)), self.language.translate(piece))
        return translation.replace("ـ ", f"ـ{GLUE}")  # 'الـ tokens' is one word

    def text(self, english: str) -> str:
        """Paragraphs, and examples: indented lines whose commands stay as they are."""
        lines: list[str] = []
        for kind, group in groupby(english.strip("\n").splitlines(), _kind):
            if kind == "example":
                lines += [line for example in group for line in self._example(example)]
            else:
                lines += self._wrapped("", self.translated(" ".join(group)), 0)
        return "\n".join(lines)

    def entry(self, label: str, description: str, columns: int = COLUMNS, indent: str = INDENT) -> str:
        """A label, and its description in a column of its own, or below it where there is no room."""
        start, hang = indent + self.isolate(label), len(indent) + columns + 1
        if self.width < NARROW or len(label) > columns:
            return "\n".join([self.mark + start, *self._wrapped(" " * 6, description, 6)])
        return "\n".join(self._wrapped(start + " " * (columns - len(label) + 1), description, hang))

    def _example(self, line: str) -> list[str]:
        found = EXAMPLE.fullmatch(line)
        assert found
        indent, command, space, explanation = found.groups()
        said = self.translated(explanation or "")
        if not said or (not self.mark and len(line) <= self.width):
            return [f"{indent}{command}{space or ''}{said}".replace(GLUE, " ")]
        said += "" if said.endswith(("?", "؟")) else ":"  # from a line of its own, a command can be copied
        return [*self._wrapped(indent, said, len(indent)), indent * 2 + command]

    def _wrapped(self, start: str, text: str, hang: int) -> list[str]:
        lines = textwrap.wrap(
            start.replace(" ", GLUE) + text,
            self.width,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [self.mark + line.replace(GLUE, " ") for line in lines] or [""]

    # --- what cyclopts calls ---

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Print the line that shows how a command is called."""
        print(f"{self.mark}{self.translated('Usage:')} {self.isolate(_plain(usage).removeprefix('Usage: '))}\n")

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Print what a command does, and its examples."""
        print(self.text(_plain(description)) + "\n")

    def __call__(self, console: Any, options: Any, panel: "HelpPanel") -> None:
        """Print commands or options."""
        if not panel.entries:
            return
        print(self.text(f"{panel.title}:"))
        for each in panel.entries:
            text = self.translated(_plain(each.description))
            if each.default not in NOT_SHOWN:
                text += f" [{self.translated('default')}:{GLUE}{self.isolate(each.default)}]"
            print(self.entry(", ".join(each.display_labels), text))
        print()


def _kind(line: str) -> str:
    return "example" if line.startswith(INDENT) else "paragraph" if line else ""


def _plain(text: Any) -> str:
    """The text of what cyclopts prepared for a terminal."""
    return str(getattr(text, "primary_renderable", text) or "").strip("\n")


def with_options(command: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The command with options that it does not parse itself: only for help and completion."""

    @wraps(command)
    def shown() -> None: ...

    signature = inspect.signature(command)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=options[name], default=None)
        for name in options
    ]
    shown.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return shown


def other_languages() -> str:
    """How to get the other languages, each in its own script, for those who do not read the one they see."""
    current = messages.current.code
    others = {code: name for code, name in messages.LANGUAGES.items() if code != current}
    lines = [f"{INDENT}{f'nanoscope --lang {code}':<36} {name}" for code, name in others.items()]
    if messages.current is not messages.ENGLISH:
        lines.append(Help().text(f"{INDENT}{f'export {messages.VARIABLE}={current}':<36}   always in this language"))
    return "\n".join(lines)
