"""Where a loss stands among guessing and n-gram models, and what is said of it."""

import pytest

from nanoscope.ladder import Ladder, in_words, place_of
from nanoscope.runs.events import decode

LADDER = Ladder("character", 4.17, [3.35, 2.48, 2.04, 1.72, 1.73, 1.71], train_tokens=1000, val_tokens=100)
BETWEEN = "better than knowing the last 2 characters (2.04), worse than knowing the last 3 characters (1.72)"


@pytest.mark.parametrize(
    ("loss", "stderr", "said"),
    [
        (1.9, 0.01, BETWEEN),
        (1.9, None, BETWEEN),
        (2.3, 0.01, "better than knowing the last character (2.48), worse than knowing the last 2 characters (2.04)"),
        (3.0, 0.01, "better than knowing how frequent each character is (3.35), worse than knowing the last character "
                    "(2.48)"),
        (4.0, 0.01, "better than guessing (4.17), worse than knowing how frequent each character is (3.35)"),
        (5.0, 0.01, "worse than guessing (4.17)"),
        (4.18, 0.01, "about as good as guessing (4.17)"),
        (2.05, 0.01, "about as good as knowing the last 2 characters (2.04)"),
        (1.47, 0.01, "better than any n-gram model; the best knows the last 5 characters (1.71)"),
    ],
)  # fmt: skip
def test_a_loss_is_placed(loss: float, stderr: float | None, said: str) -> None:
    assert str(in_words(place_of(loss, stderr, LADDER))) == said


def test_a_model_that_knows_more_and_is_no_better_is_no_rung() -> None:
    assert [rung.known for rung in LADDER.rungs()] == [None, 0, 1, 2, 3, 5]


def test_the_error_of_a_sampled_ladder_counts_too() -> None:
    sampled = Ladder("token", 8.0, [6.0, 4.0], train_tokens=1000, val_tokens=100, sampled=True, stderr=0.05)
    place = place_of(4.08, 0.01, sampled)
    assert str(in_words(place)) == "about as good as knowing the last token (4.00)"


@pytest.mark.parametrize(("unit", "said"), [("byte", "the last 2 bytes"), ("token", "the last 2 tokens")])
def test_a_token_is_called_what_it_is(unit: str, said: str) -> None:
    ladder = Ladder(unit, 8.0, [6.0, 4.0, 3.0], train_tokens=1000, val_tokens=100)  # type: ignore[arg-type]
    assert said in str(in_words(place_of(3.5, 0.01, ladder)))


@pytest.mark.parametrize("damage", ['"losses":[NaN]', '"losses":[-1]', '"stderr":1e300', f'"losses":[{"1," * 40}1]'])
def test_an_event_with_numbers_that_no_ladder_has_is_damaged(damage: str) -> None:
    fields = '"unit":"byte","guessing":4.1,"losses":[3.0],"train_tokens":9,"val_tokens":9'
    assert decode(f'{{"event":"start","ladder":{{{fields}}}}}') is not None
    assert decode(f'{{"event":"start","ladder":{{{fields},{damage}}}}}') is None
