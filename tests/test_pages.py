"""The pages that show commands tell the truth, in every language."""

import re
import runpy
import unicodedata
from pathlib import Path

import pytest

from nanoscope import cli
from nanoscope.config import KEYS

ROOT = Path(__file__).parents[1]
UPDATE = runpy.run_path(str(ROOT / "docs/update.py"))
PAGES = UPDATE["PAGES"]
ENGLISH, TRANSLATED = ROOT / "README.md", [ROOT / "README.ar.md", ROOT / "README.hi.md"]
ARABIC = [page for page in PAGES if UPDATE["language_of"](page) == "ar"]

FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
INSTALLS = re.compile(r"(?:make|pip install) .+")


def name(page: Path) -> str:
    return page.name


def typed(page: Path) -> list[str]:
    """What a page says to type: the lines of its blocks, and code in its sentences."""
    text = page.read_text("utf-8")
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    return [
        line.removeprefix("$ ").partition(" #")[0].strip() for line in [*lines, *INLINE.findall(FENCED.sub("", text))]
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_output_in_a_page_is_what_its_commands_print(page: Path) -> None:
    assert UPDATE["updated"](page) == page.read_text("utf-8"), "to update the pages: python docs/update.py"


@pytest.mark.parametrize("page", [ENGLISH, *PAGES], ids=name)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    app = cli.app(cli.COMMANDS, everything=True)
    shown = [line for line in typed(page) if line.startswith("nanoscope ") and not line.startswith("nanoscope 0.")]
    assert shown
    for line in shown:
        command = line.split()[1]
        if command.startswith("--lang"):
            continue  # the first screen
        assert command in cli.COMMANDS, line
        known = {
            option.replace("-", "_") for one in app[command].assemble_argument_collection() for option in one.names
        }
        settings = {f"__{key}" for key in KEYS} if command in ("train", "sweep", "plan", "tune") else set()
        known |= {"__lang", "__help"} | settings
        for option in re.findall(r"(?<!\S)--[\w-]+", line):
            assert option.replace("-", "_") in known, line


@pytest.mark.parametrize("page", TRANSLATED, ids=name)
def test_a_translated_readme_installs_as_the_english_one(page: Path) -> None:
    install, ours = (set(filter(INSTALLS.fullmatch, typed(one))) for one in (ENGLISH, page))
    assert {"make demo", 'pip install ".[train]"'} <= ours <= install


@pytest.mark.parametrize("page", ARABIC, ids=name)
def test_each_arabic_paragraph_begins_in_arabic_because_its_first_letter_decides_the_direction(page: Path) -> None:
    text = re.sub(r"<!--.*?-->|<code.*?</code>|</?div[^>]*>|\]\([^)]*\)", "", FENCED.sub("", page.read_text("utf-8")))
    for part in re.split(r"\n\n|\n(?=[|-])| \| ", text):
        strong = [kind for kind in map(unicodedata.bidirectional, part) if kind in ("L", "R", "AL")]
        assert strong[:1] != ["L"], part


@pytest.mark.parametrize("page", ARABIC, ids=name)
def test_code_with_a_sign_at_its_edge_has_its_own_direction_in_arabic(page: Path) -> None:
    """`--lang` would be shown as 'lang--'; <code dir="ltr"> keeps it."""
    code = INLINE.findall(FENCED.sub("", page.read_text("utf-8")))
    assert code
    assert [text for text in code if not (text[0].isalnum() and text[-1].isalnum())] == []
