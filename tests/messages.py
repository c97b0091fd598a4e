"""The messages of the source code, as pybabel finds them."""

from pathlib import Path

import nanoscope
from nanoscope.cli.extraction import MAKERS, messages_in, pieces
from nanoscope.views.labels import table

SOURCES = Path(nanoscope.__file__).parent
FINDINGS = ("findings", "words", "views")

Messages = set[str | tuple[str, ...]]
__all__ = ["FINDINGS", "MAKERS", "SOURCES", "messages_about_findings", "messages_in_code"]


def _extract(*paths: Path, makers: tuple[str, ...] = MAKERS) -> Messages:
    """Every message of these files; one with a plural as both of its forms."""
    found = (each for path in paths for each in messages_in(path.read_text("utf-8"), makers))
    return {texts if function == "ngettext" else texts[-1] for _, function, texts in found}


def messages_about_findings() -> Messages:
    """Every message of findings, `words` and `views` that is no error and not about the terminal or the server."""
    about_commands = (
        "closing.py",
        "html_page.py",
        "terminal_page.py",
        "notify.py",
        "reports.py",
        "samples.py",
        "serve.py",
    )
    paths = (path for room in FINDINGS for path in (SOURCES / room).rglob("*.py") if path.name not in about_commands)
    elsewhere = {
        "There is no concept {name}.{hint}\nAll of them: {command}",
        "knowing {what}",
    }  # tests of the CLI, of pages
    return _extract(*paths, makers=("Message", "say", "label")) - elsewhere


def messages_in_code() -> Messages:
    """All that the catalogues translate."""
    return _extract(*SOURCES.rglob("*.py")) | set(pieces()) | set(table("say").values())
