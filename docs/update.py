"""Puts what nanoscope prints into the pages that show it: python docs/update.py

In a page, `<!-- run: explain some.log | A normal step | Raise eval_interval -->` … `<!-- end -->` holds a command, and
of its output the lines that have these words in English. Pages in other languages (`README.hi.md`) name the same
English words, and show the same lines in their language.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import textwrap
from functools import cache
from pathlib import Path
from unittest import mock

from nanoscope import cli
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import RIGHT_TO_LEFT, RIGHT_TO_LEFT_MARK

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("docs/questions*.md")), ROOT / "README.ar.md", ROOT / "README.hi.md"]
SHOWN = re.compile(r"(<!-- run: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
COLUMNS, UNBROKEN = 88, 2000
HEADER = re.compile(r"\s+[^\s^]")  # of a table; '^' begins a note below a line of a log
BULLET = re.compile(r"(?: *\^ | *- |\d+\. )?")


def language_of(page: Path) -> str:
    """The language in the name of a page: README.hi.md."""
    return (page.suffixes[-2:-1] or [".en"])[0][1:]


def updated(page: Path) -> str:
    """The text of a page with what its commands print today."""
    language = language_of(page)

    def block(found: re.Match[str]) -> str:
        command, *wanted = found[2].split(" | ")
        return found[1] + _block(command, wanted, language) + found[3]

    return SHOWN.sub(block, page.read_text("utf-8"))


def _block(command: str, wanted: list[str], language: str) -> str:
    english, lines = _printed(command, "en"), _printed(command, language)
    if len(english) != len(lines):
        raise SystemExit(f"nanoscope {command} prints {len(english)} lines in English, {len(lines)} in {language!r}")
    excerpt: list[str] = []
    last = -1
    for phrase in wanted:
        found = next((number for number, line in enumerate(english) if phrase in line and number > last), None)
        if found is None:
            raise SystemExit(f"nanoscope {command} does not print {phrase!r}, or only before other lines of the block")
        follows = excerpt and found == last + 1
        excerpt += [] if follows or not excerpt else ["…"]
        excerpt.append(_wrapped(lines[found] if follows else lines[found].lstrip("\n")))
        last = found
    typed = f"$ nanoscope {command}" + ("" if language == "en" else f" --lang {language}")
    output = "\n".join(excerpt)
    if language in RIGHT_TO_LEFT:  # the page is in <div dir="rtl">; a command is not
        return f'\n</div>\n\n```\n{typed}\n```\n\n<div dir="rtl">\n\n```\n{output}\n```\n\n'
    return f"```\n{typed}\n{output}\n```\n"


@cache
def _printed(command: str, language: str) -> list[str]:
    """The lines that a command prints, unbroken and without charts; one that follows a blank line begins with it.

    The header of a table is one with the title above it. So there are as many lines in every language: from right to
    left a table is a list, which has no header.
    """
    output = io.StringIO()
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(output),
        mock.patch.dict(os.environ, COLUMNS=str(UNBROKEN)),
        mock.patch.multiple(Page, width=UNBROKEN, draws_charts=False),
    ):
        status = cli.run([*shlex.split(command), "--lang", language])
    if status:
        raise SystemExit(f"nanoscope {command}: exit status {status}")
    lines: list[str] = []
    blank = ""
    for line in map(str.rstrip, output.getvalue().splitlines()):
        if HEADER.match(line):
            lines[-1] += f"\n{line}"
        elif line:
            lines.append(blank + line)
        blank = "" if line else "\n"
    return lines


def _wrapped(line: str) -> str:
    """The line broken as on a terminal; the rows of a table stay as they are."""
    text = line.lstrip("\n")
    mark = RIGHT_TO_LEFT_MARK if text.startswith(RIGHT_TO_LEFT_MARK) else ""
    bullet = BULLET.match(text.removeprefix(mark))
    if bullet is None or "  " in text[len(mark + bullet[0]) :]:
        return line
    indent = mark + " " * len(bullet[0])
    filled = textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return line[: len(line) - len(text)] + filled


if __name__ == "__main__":
    for page in PAGES:
        text = updated(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            sys.stdout.write(f"updated {page.relative_to(ROOT)}\n")
