import pytest

from nanoscope.units import short_count, short_duration


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
