import re
from datetime import datetime

import pytest

from catalogues import entries
from nanoscope.errors import UsageError
from nanoscope.messages import NO_BREAK_SPACE, Message
from nanoscope.words.language import CODE, END_ISOLATE, ISOLATE, Language, choose_language

ENGLISH, ARABIC, HINDI = Language("en"), Language("ar"), Language("hi")


def plain(text: str) -> str:
    return text.replace(NO_BREAK_SPACE, " ").replace(ISOLATE, "").replace(END_ISOLATE, "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.03322, "33.2 ms"),
        (0.16849, "168 ms"),
        (3.99511, "4.00 s"),
        (12.543, "12.5 s"),
        (60, "1 min"),
        (88, "1 min 28 s"),
        (3599.9, "1 h"),
        (23571.149, "6 h 33 min"),
        (200_000, "2 d 8 h"),
        (0, "0 s"),
        (None, "—"),
        (float("nan"), "—"),
    ],
)
def test_a_duration_has_the_units_that_suit_its_size(seconds, text):
    assert plain(ENGLISH.duration(seconds)) == text


def test_a_duration_can_be_written_to_the_second():
    assert plain(ENGLISH.duration(23571.149, parts=3)) == "6 h 32 min 51 s"
    assert plain(ARABIC.duration(23571.149, parts=3)) == "6 ساعات و32 دقيقة و51 ثانية"
    assert plain(HINDI.duration(23571.149, parts=3)) == "6 घंटे 32 मिनट 51 सेकंड"


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "خطوة واحدة"), (2, "خطوتين"), (3, "3 خطوات"), (10, "10 خطوات"), (11, "11 خطوة"), (100, "100 خطوة"),
     (102, "102 خطوة"), (103, "103 خطوات")],
)  # fmt: skip
def test_arabic_counts_steps_in_its_own_plurals(count, text):
    assert plain(ARABIC.say("{n} step", "{n} steps", n=count)) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "سطر واحد"), (2, "سطران"), (7, "7 أسطر"), (11, "11 سطرًا"), (275, "275 سطرًا"), (300, "300 سطر")],
)
def test_arabic_counts_lines_in_its_own_plurals(count, text):
    assert plain(ARABIC.say("{n} line", "{n} lines", n=count)) == text


def test_hindi_has_one_hour_and_several_and_fractions_are_several():
    assert plain(HINDI.duration(3600)) == "1 घंटा"
    assert plain(HINDI.duration(7200)) == "2 घंटे"


def test_large_numbers_are_grouped_by_thousands_as_in_the_logs():
    assert ENGLISH.number(1234567) == "1,234,567"
    assert HINDI.number(1234567) == "1,234,567"
    assert ARABIC.number(1234567) == "1,234,567"


def test_values_inside_arabic_are_isolated_so_that_their_order_is_kept():
    message = "Raise {setting} from {from_value:typed} to {to_value:typed}."
    text = ARABIC.say(message, setting="eval_interval", from_value=500, to_value=2000)
    assert f"{ISOLATE}eval_interval{END_ISOLATE}" in text
    assert text.count(ISOLATE) == text.count(END_ISOLATE) == 3


def test_what_one_types_is_isolated_and_no_part_of_a_word():
    broken = re.compile(f"[A-Za-z0-9_-]{ISOLATE}")  # 'n-gram' would be shown as '-gramn'
    isolated = [CODE.sub(lambda code: ARABIC.isolate(code[0]), entry.form) for entry in entries("ar")]
    assert [text for text in isolated if broken.search(text)] == []
    typed = [code[0] for entry in entries("ar") for code in CODE.finditer(entry.form)]
    assert [code for code in typed if code.count("(") != code.count(")")] == []
    assert f"{ISOLATE}--keep_checkpoints=1{END_ISOLATE}" in ARABIC.render(
        Message("make room, keep fewer checkpoints (--keep_checkpoints=1), or use another disk (--out_dir=FOLDER)")
    )


def test_values_from_a_log_are_not_taken_for_placeholders():
    text = ENGLISH.say("Line {line:plain}: memory ran out. {message:line}", line=3, message="{line} {x}")
    assert text == "Line 3: memory ran out. {line} {x}"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("spec", ["number", "number2", "significant", "loss", "percent", "large", "duration"])
def test_a_value_that_is_missing_or_not_finite_is_a_dash(value, spec):
    assert ENGLISH.say("{value:" + spec + "}", value=value) == "—"


@pytest.mark.parametrize(
    ("spec", "value", "text"),
    [
        ("", 12345, "12345"),
        ("", "text", "text"),
        ("plain", 12345, "12345"),
        ("number2", 1.005, "1.00"),
        ("loss", 1.4697, "1.4697"),
        ("percent", 0.1107, "11.1%"),
        ("large", 33_200, "33.2k"),
        ("significant2", 133.9, "134"),
        ("duration", 4.44683, "4.45 s"),
        ("duration3", 23571.149, "6 h 32 min 51 s"),
        ("durations", (0.1, 0.2), "100 ms to 200 ms"),
        ("with_error", (0.4321, 0.0512), "0.43 ± 0.05"),
        ("with_error2", (0.4321, 0.0512), "0.432 ± 0.051"),
        ("with_error", (0.03, 0.0512), "0.030 ± 0.051"),
        ("with_error", (0.4321, None), "0.43"),
        ("listed", ["a", "b=1"], "a, b=1"),
        ("rough", 1180.0, "20 min"),
        ("steps", (250, 500, 750), "250, 500, and 750"),
        ("typed", 0.0006, "0.0006"),
        ("typed", 2000.0, "2000"),
        ("line", "a\nb  c", "a b c"),
    ],
)
def test_a_placeholder_says_how_its_value_is_written(spec, value, text):
    assert plain(ENGLISH.say("{value:" + spec + "}", value=value)) == text


def test_a_placeholder_with_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="Invalid format specifier 'fill'"):
        ENGLISH.say("{value:fill}", value=1)


def test_a_range_whose_ends_look_the_same_is_one_value():
    assert ENGLISH.between("33 ms", "33 ms") == "33 ms"
    assert ENGLISH.between("33 ms", "34 ms") == "33 ms to 34 ms"


def test_the_clock_names_the_day_only_when_it_is_another():
    now = datetime(2026, 11, 15, 20, 0)
    assert ENGLISH.clock(datetime(2026, 11, 15, 21, 5), now) == "21:05"
    assert ENGLISH.clock(datetime(2026, 11, 16, 3, 5), now) == "Mon 03:05"
    assert "2027" in ENGLISH.clock(datetime(2027, 1, 16, 3, 5), now)


def test_the_clock_of_another_day_reads_well_in_every_language():
    now, tomorrow, later = datetime(2026, 11, 15, 20, 0), datetime(2026, 11, 16, 3, 5), datetime(2027, 1, 19, 11, 44)
    assert HINDI.clock(tomorrow, now) == "सोमवार 03:05"
    assert plain(ARABIC.clock(tomorrow, now)) == "الاثنين، الساعة 03:05"
    assert plain(ARABIC.clock(later, now)) == "19 يناير 2027، الساعة 11:44"


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"LANG": "hi_IN.UTF-8"}, "hi"),
        ({"LANG": "hi_IN.UTF-8", "LC_ALL": "ar_EG.UTF-8"}, "ar"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LC_ALL": "Arabic_Egypt.1256"}, "ar"),
    ],
)
def test_the_language_is_that_of_the_locale_or_english(environment, code, monkeypatch):
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert choose_language().code == code


@pytest.mark.parametrize("wanted", ["hi", "HI", "hi_IN", "hi-IN", "hindi"])
def test_a_language_may_be_asked_for_in_several_spellings(wanted):
    assert choose_language(wanted).code == "hi"


def test_an_unknown_language_is_answered_with_those_there_are():
    with pytest.raises(UsageError, match=r"Did you mean --lang ar\?") as error:
        choose_language("arabc")
    assert "hi (हिन्दी)" in str(error.value)
