"""Models on the same text: which is better, and whether that is more than noise."""

import json
import math

import pytest

from made_up_scores import EXAMPLES, measured, text
from nanoscope.findings.scores import rank, scores_json


def test_the_best_comes_first_and_the_others_are_compared_with_it() -> None:
    scores = rank(text(), [measured("a", 1.7), measured("b", 1.5), measured("c", 1.6)])
    assert [score.name for score in scores.scores] == ["b", "c", "a"]
    assert [(d.model, d.better) for d in scores.differences] == [("c", "b"), ("a", "b")]
    assert [d.difference for d in scores.differences] == pytest.approx([0.1, 0.2])


def test_pairing_sees_what_two_means_could_not() -> None:
    scores = rank(text(), [measured("a", 1.50, noise=0.01), measured("b", 1.51, noise=0.01, seed=2)])
    (difference,) = scores.differences
    assert difference.verdict == "differs"
    assert scores.scores[0].error is not None
    assert scores.scores[0].error > 0.01 > 3 * difference.error  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "verdict"), [("another differs", "differs"), ("close", "unclear"), ("noise", "within_noise")]
)
def test_a_difference_is_judged_by_its_error(name: str, verdict: str) -> None:
    assert [difference.verdict for difference in EXAMPLES[name].differences] == [verdict]


def test_bits_per_byte_are_of_the_bytes_that_the_tokens_stand_for() -> None:
    (score,) = rank(text(), [measured(level=2.0, bytes_per_window=256)]).scores
    assert score.loss is not None
    assert score.bits_per_byte == pytest.approx(score.loss / math.log(2) * 64 / 256)


def test_tokens_that_end_alike_can_be_paired() -> None:
    scores = rank(text(), [measured("a"), measured("b", 1.6, tokens="another alphabet")])
    assert scores.same_tokens
    assert scores.differences[0].paired


def test_other_tokens_are_ranked_by_bits_per_byte() -> None:
    scores = EXAMPLES["other tokens"]
    assert [score.name for score in scores.scores] == ["b", "a"]  # a higher loss per token, but of longer tokens
    assert not scores.differences[0].paired


def test_without_a_tokenizer_nothing_is_ranked() -> None:
    assert not EXAMPLES["unknown tokens"].ranked
    assert EXAMPLES["unknown tokens"].scores[1].bits_per_byte is None


def test_what_was_interrupted_comes_last_and_is_compared_where_both_were_measured() -> None:
    scores = rank(text(), [measured("a", 1.5), measured("b", 1.4, count=20, wanted=200)])
    assert [score.name for score in scores.scores] == ["a", "b"]
    assert not scores.complete
    assert (scores.differences[0].model, scores.differences[0].better) == ("a", "b")
    assert scores.differences[0].difference == pytest.approx(0.1)


def test_a_loss_that_is_not_a_number_comes_last_and_is_null() -> None:
    broken = measured("broken")
    broken.losses[3] = math.nan
    scores = rank(text(), [broken, measured("a"), measured("b", 1.6)])
    assert [score.name for score in scores.scores] == ["a", "b", "broken"]
    assert json.loads(json.dumps(scores_json(scores), allow_nan=False))["scores"][2]["loss"] is None
