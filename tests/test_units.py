import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoscope.units import parse_count, parse_duration, short_count, short_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0s"), (41, "41s"), (59.6, "1m00s"), (200, "3m20s"), (7500, "2h05m"), (273600, "3d04h"), (2e9, "63y153d")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(864, "864"), (33_200, "33.2k"), (999_600, "1M"), (1_260_000, "1.26M"), (2e9, "2B")],
)
def test_counts_are_short(number: float, text: str) -> None:
    assert short_count(number) == text


@given(st.floats(0, 1e11))
def test_a_printed_duration_reads_back_to_what_was_printed(seconds: float) -> None:
    text = short_duration(seconds)
    assert short_duration(parse_duration(text)) == text
    smallest = 86400 if "y" in text else 3600 if "d" in text else 60 if "h" in text else 1
    assert abs(parse_duration(text) - seconds) <= smallest


@given(st.floats(0, 9.99e11))
def test_a_printed_count_reads_back_to_what_was_printed(number: float) -> None:
    text = short_count(number)
    assert short_count(parse_count(text)) == text
    assert parse_count(text) == pytest.approx(number, rel=0.005, abs=0.5)


@pytest.mark.parametrize("text", ["", "s", "41", "3m20", "1.5s", "-3s", "1d2h3m"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "k", "33.2x", "1 k k"])
def test_a_text_that_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_count(text)
