import re
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from messages import messages_in_code
from nanoscope.words.language import CATALOGUES, LANGUAGES

PLACEHOLDER = re.compile(r"\{[^{}]*\}")
TRANSLATED = [code for code in LANGUAGES if code != "en"]


def path(code: str) -> Path:
    return CATALOGUES / code / "LC_MESSAGES" / "nanoscope.po"


def catalogue(code: str) -> Catalog:
    with path(code).open("rb") as file:
        return read_po(file, locale=code)


@pytest.mark.parametrize("code", TRANSLATED)
def test_the_catalogue_has_exactly_the_messages_of_the_code(code):
    translated = {message.id for message in catalogue(code) if message.id}
    assert translated == messages_in_code()


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_message_is_translated_in_all_its_forms_and_none_is_fuzzy(code):
    known = catalogue(code)
    for message in known:
        forms = message.string if isinstance(message.string, tuple) else (message.string,)
        assert not message.fuzzy, message.id
        assert all(forms), message.id
        if message.pluralizable:
            assert len(forms) == known.num_plurals, message.id


@pytest.mark.parametrize("code", TRANSLATED)
def test_no_translation_has_lost_or_invented_a_placeholder(code):
    # Arabic says 'a step' and 'two steps' without a figure: the first forms may leave the count out.
    for message in catalogue(code):
        if not message.id:
            continue
        wanted = set(PLACEHOLDER.findall(message.id if isinstance(message.id, str) else message.id[1]))
        forms = message.string if isinstance(message.string, tuple) else (message.string,)
        for number, form in enumerate(forms):
            optional = {"{n}"} if message.pluralizable and number < 3 and len(forms) > 2 else set()
            assert wanted - optional <= set(PLACEHOLDER.findall(form)) <= wanted, message.id


@pytest.mark.parametrize("code", TRANSLATED)
def test_the_compiled_catalogue_is_what_the_readable_one_compiles_to(code):
    compiled = BytesIO()
    write_mo(compiled, catalogue(code))
    assert path(code).with_suffix(".mo").read_bytes() == compiled.getvalue()


@pytest.mark.parametrize("code", TRANSLATED)
def test_translations_are_in_their_own_script(code):
    script = {"ar": re.compile("[\u0600-\u06ff]"), "hi": re.compile("[\u0900-\u097f]")}[code]
    same_everywhere = {"MFU", "tokens/s"}
    for message in catalogue(code):
        words = re.sub(rf"{PLACEHOLDER.pattern}|\W", "", message.id if isinstance(message.id, str) else message.id[0])
        if len(words) > 3 and message.id not in same_everywhere and not str(message.id).startswith("perplexity"):
            forms = message.string if isinstance(message.string, tuple) else (message.string,)
            assert all(script.search(form) for form in forms), message.id


def test_arabic_has_the_six_plural_forms_of_its_grammar():
    numbers = [0, 1, 2, 3, 10, 11, 99, 100, 102, 103, 111]
    from gettext import c2py

    plural = c2py(catalogue("ar").plural_expr)
    assert [plural(n) for n in numbers] == [0, 1, 2, 3, 3, 4, 4, 5, 5, 3, 4]
