"""The option --lang, and what writes help in the user's language."""

import inspect
import shutil
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from nanoscope import messages

if TYPE_CHECKING:
    from nanoscope.cli.translation import Help

LANGUAGE_HELP = "The language of the output; default: NANOSCOPE_LANG, or that of your locale."
# With None, its default: where pydantic is loaded, cyclopts has it check defaults too.
LANGUAGE = Annotated[Literal[tuple(messages.LANGUAGES)] | None, Parameter(help=LANGUAGE_HELP)]  # type: ignore[valid-type]


def with_language(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the option --lang, for help and completion: `cli.run` takes it out of the words."""

    @wraps(command)
    def called(*words: Any, lang: str | None = None, **options: Any) -> Any:
        return command(*words, **options)

    signature = inspect.signature(command)
    lang = inspect.Parameter("lang", inspect.Parameter.KEYWORD_ONLY, annotation=LANGUAGE, default=None)
    called.__annotations__ = {**command.__annotations__, "lang": LANGUAGE}
    called.__signature__ = signature.replace(parameters=[*signature.parameters.values(), lang])  # type: ignore[attr-defined]
    return called


class EnglishHelp:
    """Leaves help as it is, and lays out entries; `translation.Help` writes it in other languages."""

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


def help_writer() -> "Help | EnglishHelp":
    """What writes help in the user's language."""
    if (language := messages.writer()) is None:
        return EnglishHelp()
    from nanoscope.cli.translation import Help

    return Help(language)  # type: ignore[arg-type]


def other_languages() -> str:
    """How to get the other languages, each in its own script, for those who do not read the one they see."""
    language = messages.writer()
    current = language.code if language else "en"
    lines = [
        f"  {f'nanoscope --lang {code}':<49} {name}" for code, name in messages.LANGUAGES.items() if code != current
    ]
    if language:
        lines.append(help_writer().text(f"  {f'export {messages.VARIABLE}={current}':<49}   always in this language"))
    return "\n".join(lines)
