import re
from pathlib import Path

import pytest

from catalogues import PLACEHOLDER, TRANSLATED, Entry, entries, listed, without_marks

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
COLUMN = {"ar": 1, "hi": 2}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, patterns without their backticks."""
    section = GLOSSARY.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [
        [cell.strip().replace("\\|", "|").strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    ]
    assert cells, heading
    return cells


def words_of(text: str) -> str:
    """What people read of a message: neither placeholders nor code (`…`, --option=value, key=value, step-000500)."""
    return re.sub(r"`[^`]*`|-+[\w-]+|\b[\w.]+(?:=\S*|_\w+|-\d+)|torch\.\w+", " ", PLACEHOLDER.sub(" ", text))


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translation_uses_the_terms_of_the_glossary(code):
    problems: list[tuple[Entry, str]] = []
    for row in rows("What the test looks for"):
        english, wanted = re.compile(row[0], re.I), re.compile(without_marks(row[COLUMN[code]]))
        for entry in entries(code):
            term = english.search(words_of(entry.english))
            if not term or re.search(
                rf"(?<![A-Za-z]){term[0]}", words_of(entry.form), re.I
            ):  # a name may stay as it is
                continue
            if not wanted.search(without_marks(words_of(entry.form))):
                problems.append((entry, f"'{term[0]}' is not translated as {row[COLUMN[code]]}"))
    assert not problems, listed(problems)


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translation_has_none_of_the_words_that_the_glossary_rules_out(code):
    problems: list[tuple[Entry, str]] = []
    for language, word, english, instead in rows("Not to be used"):
        for entry in entries(code):
            if language == code and re.search(english, entry.english, re.I):
                found = re.search(without_marks(word), without_marks(entry.form))
                problems += [(entry, f"not {found[0]} but {instead}")] if found else []
    assert not problems, listed(problems)


@pytest.mark.parametrize("code", TRANSLATED)
def test_no_document_has_a_word_that_the_glossary_rules_out(code):
    for page in (ROOT / f"README.{code}.md", ROOT / "docs" / f"questions.{code}.md"):
        text = without_marks(page.read_text("utf-8"))
        for language, word, english, instead in rows("Not to be used"):
            found = re.search(without_marks(word), text) if language == code and not english else None
            assert not found, f"{page.name}: not {found[0]} but {instead}"


def test_every_term_is_there_in_both_languages():
    for english, arabic, hindi, _ in rows("Terms"):
        assert all((english, arabic, hindi))
