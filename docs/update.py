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
from functools import cache
from pathlib import Path
from unittest import mock

from nanoscope import cli
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import RIGHT_TO_LEFT

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("docs/questions*.md")), ROOT / "README.ar.md", ROOT / "README.hi.md"]
SHOWN = re.compile(r"(<!-- run: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
COLUMNS, UNBROKEN = 88, 2000
HEADER = re.compile(r"\s+[^\s^]")  # of a table; '^' begins a note below a line of a log


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
        places = (number for number, line in enumerate(english) if phrase in " ".join(line.split()))
        found = next((number for number in places if number > last), None)
        if found is None:
            raise SystemExit(f"nanoscope {command} does not print {phrase!r}, or only before other lines of the block")
        follows = excerpt and found == last + 1
        excerpt += [] if follows or not excerpt else ["…"]
        excerpt.append(lines[found] if follows else lines[found].lstrip("\n"))
        last = found
    typed = f"$ nanoscope {command}" + ("" if language == "en" else f" --lang {language}")
    output = "\n".join(excerpt)
    if language in RIGHT_TO_LEFT:  # the page is in <div dir="rtl">; a command is not
        return f'\n</div>\n\n```\n{typed}\n```\n\n<div dir="rtl">\n\n```\n{output}\n```\n\n'
    return f"```\n{typed}\n{output}\n```\n"


@cache
def _printed(command: str, language: str) -> list[str]:
    """The sentences and rows that a command prints, each as broken on a terminal, a blank line at its beginning.

    The header of a table is one with the title above it. So there are as many in every language: from right to left a
    table is a list, which has no header.
    """
    lines = iter(_output(command, language, COLUMNS))
    printed: list[str] = []
    blank = ""
    for unbroken in _output(command, language, UNBROKEN):
        text = next(lines, "")
        while _letters(text) != _letters(unbroken):
            if (more := next(lines, None)) is None:
                raise SystemExit(f"nanoscope {command} does not print this in {COLUMNS} columns:\n{unbroken}")
            text += f"\n{more}"
        if HEADER.match(unbroken):
            printed[-1] += f"\n{text}"
        elif unbroken:
            printed.append(blank + text)
        blank = "" if unbroken else "\n"
    return printed


def _output(command: str, language: str, columns: int) -> list[str]:
    output = io.StringIO()
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(output),
        mock.patch.dict(os.environ, COLUMNS=str(columns)),
        mock.patch.multiple(Page, width=columns, draws_charts=False),
    ):
        status = cli.run([*shlex.split(command), "--lang", language])
    if status:
        raise SystemExit(f"nanoscope {command}: exit status {status}")
    return [line.rstrip() for line in output.getvalue().splitlines()]


def _letters(line: str) -> list[str]:
    """What is the same however a line, or each cell of a row, is broken; the time of day may have passed a minute."""
    return sorted(re.sub(r"\d", "0", re.sub(r"[\s\u200e\u200f\u2066-\u2069]", "", line)))


if __name__ == "__main__":
    for page in PAGES:
        text = updated(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            sys.stdout.write(f"updated {page.relative_to(ROOT)}\n")
