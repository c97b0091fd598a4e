import re
import unicodedata
from gettext import c2py
from io import BytesIO

import pytest
from babel.messages.mofile import write_mo

from catalogues import PLACEHOLDER, TRANSLATED, Entry, catalogue, entries, listed, path
from messages import messages_in_code

DURATION = r"\{\w+:(?:duration|durations|rough)\d?\}"
ARABIC_LETTER, HINDI_LETTER = "[\u0620-\u064a]", "[\u0904-\u0963]"


@pytest.mark.parametrize("code", TRANSLATED)
def test_the_catalogue_has_exactly_the_messages_of_the_code(code):
    # A message is its own key: where the English changes, the old translation falls out and the new one is missing.
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
    # Arabic says 'a step' and 'two steps' without a figure: the first forms may leave the count out. The form for one
    # needs no more than the English one has: '1 evaluation took 5 s' says nothing about 'each'.
    for_one = c2py(catalogue(code).plural_expr)(1)
    for message in catalogue(code):
        if not message.id:
            continue
        one, many = message.id if isinstance(message.id, tuple) else (message.id, message.id)
        allowed = set(PLACEHOLDER.findall(many))
        forms = message.string if isinstance(message.string, tuple) else (message.string,)
        for number, form in enumerate(forms):
            needed = set(PLACEHOLDER.findall(one)) if message.pluralizable and number == for_one else allowed
            optional = {"{n}"} if message.pluralizable and number < 3 and len(forms) > 2 else set()
            assert needed - optional <= set(PLACEHOLDER.findall(form)) <= allowed, message.id


@pytest.mark.parametrize("code", TRANSLATED)
def test_the_compiled_catalogue_is_what_the_readable_one_compiles_to(code):
    compiled = BytesIO()
    write_mo(compiled, catalogue(code))
    assert path(code).with_suffix(".mo").read_bytes() == compiled.getvalue()


@pytest.mark.parametrize("code", TRANSLATED)
def test_translations_are_in_their_own_script(code):
    script = {"ar": re.compile("[\u0600-\u06ff]"), "hi": re.compile("[\u0900-\u097f]")}[code]
    same_everywhere = {"tokens/s", "eager", "wandb: {address}"}  # and what is written in capitals: MFU, GB
    for message in catalogue(code):
        words = re.sub(rf"{PLACEHOLDER.pattern}|\W", "", message.id if isinstance(message.id, str) else message.id[0])
        if (
            len(words) > 3
            and not words.isupper()
            and message.id not in same_everywhere
            and not str(message.id).startswith("perplexity")
        ):
            forms = message.string if isinstance(message.string, tuple) else (message.string,)
            assert all(script.search(form) for form in forms), message.id


def test_arabic_has_the_six_plural_forms_of_its_grammar():
    numbers = [0, 1, 2, 3, 10, 11, 99, 100, 102, 103, 111]
    plural = c2py(catalogue("ar").plural_expr)
    assert [plural(n) for n in numbers] == [0, 1, 2, 3, 3, 4, 4, 5, 5, 3, 4]


# --- how translations are written (docs/TRANSLATING.md) ---

# Common words without the nukta that they have.
NUKTA_LEFT_OUT = (
    "ज्यादा|फाइल|फर्क|सिर्फ|फेल|फॉर्म|फोल्डर|चीज|तेज|साफ|जरूर|साइज|रिज्यूम|नॉइज|ओवरफिट|प्रिसिजन|कॉन्फिग|ब्राउजर|"
    "टोकनाइजर|ऑप्टिमाइजर|रफ्तार|काफी|डिफॉल्ट|अंदाजा|इंतजार|मजबूत|हजार"
)

# What a translation must not have, by language: the pattern, and what is wrong with it.
NOT_ALLOWED = {
    "ar": [
        (rf"{ARABIC_LETTER}[\u064b-\u0652]?[,;?]|[,;?]\s+{ARABIC_LETTER}", "Latin punctuation: Arabic has ، ؛ ؟"),
        (r"ـ [A-Za-z{]", "a line may break after «الـ»: put a no-break space (U+00A0) there"),
        (rf"(?:قدره|قدرها|مقداره|مقدارها|هو|هي) {DURATION}", "a duration is an object or a genitive («تستغرق …»)"),
        (r"[٠-٩۰-۹]", "digits are Western"),
        (r"[±×]\{|(?<![\w-])-\{", "a sign outside its placeholder is shown on the wrong side: say it in words"),
    ],
    "hi": [
        (rf"(?:{HINDI_LETTER}|[\u093c\u093e-\u094d\u0902\u0901)}}])\.(?:\s|$)", "a full stop: Hindi has a danda (।)"),
        (rf"{DURATION} (?:का|की|के|में|से(?! \{{)|पर|को|तक|लग|ले)", "a postposition or a verb after a duration: «समय … है»"),
        ("[०-९]", "digits are Western"),
        ("[कखग]\u093c", "no nukta on क, ख, ग"),
        (f"(?:{NUKTA_LEFT_OUT})(?!\u093c)", "ज़ and फ़ have a nukta here"),
        ("[\u0958-\u095f]", "a nukta letter in one piece: write the letter and the nukta (NFC)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("code", TRANSLATED)
def test_no_translation_has_a_construction_that_is_ruled_out(code):
    problems: list[tuple[Entry, str]] = []
    for pattern, why in NOT_ALLOWED[code]:
        problems += [(entry, why) for entry in entries(code) if re.search(pattern, entry.form)]
    assert not problems, listed(problems)


@pytest.mark.parametrize("code", TRANSLATED)
def test_translations_leave_directions_to_the_program(code):
    # Values are isolated when they are put in; only U+200F (and, between letters, U+200C and U+200D) may be written.
    # U+200E keeps the dot of a suffix on its side: ‎.toml.
    marks = re.compile(r"[\u2066-\u2069\u202a-\u202e\u061c]|\u200e(?!\.)")
    problems = [(entry, "a mark of direction besides U+200F") for entry in entries(code) if marks.search(entry.form)]
    assert not problems, listed(problems)


def test_an_arabic_message_of_placeholders_alone_begins_with_a_mark_of_direction():
    problems = [
        (entry, "no letter gives it a direction: begin with U+200F")
        for entry in entries("ar")
        if len(PLACEHOLDER.findall(entry.form)) > 1
        and not re.search(r"\w", PLACEHOLDER.sub("", entry.form))
        and not entry.form.startswith("\u200f")
    ]
    assert not problems, listed(problems)


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translation_ends_as_its_english_does(code):
    # A line that ends with something to type (a command, a value) needs no mark.
    same = {".": {"ar": ".", "hi": "।"}, "?": {"ar": "؟", "hi": "?"}, ":": {"ar": ":", "hi": ":"}}
    typed = re.compile(r"[A-Za-z0-9…]$|\.\.\.$")
    problems = []
    for entry in entries(code):
        lines, english_lines = entry.form.split("\n"), entry.english.split("\n")
        pairs = zip(lines, english_lines, strict=True) if len(lines) == len(english_lines) else ()
        for line, english in pairs:
            wanted = same.get(english.strip()[-1:], {}).get(code)
            line = line.strip("\u200f ")
            if wanted and line[-1:] != wanted and not typed.search(line):
                problems.append((entry, f"the English ends with '{english.strip()[-1]}': end with '{wanted}'"))
    assert not problems, listed(problems)


@pytest.mark.parametrize("code", TRANSLATED)
def test_translations_are_in_the_normal_form_of_unicode(code):
    problems = [(e, "not in NFC") for e in entries(code) if unicodedata.normalize("NFC", e.form) != e.form]
    assert not problems, listed(problems)


def test_a_range_is_not_a_change_in_arabic():
    # «من 1.71 إلى 1.76» is a rise.
    ranges = [entry for entry in entries("ar") if re.search(r"\bbetween \{|\{low\b[^}]*\} to \{high\b", entry.english)]
    problems = [(entry, "a range is «بين … و…»") for entry in ranges if "بين {" not in entry.form]
    assert ranges
    assert not problems, listed(problems)
