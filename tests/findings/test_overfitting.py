"""Overfitting is decided in one place: what it needs, what is not enough, and that every view says the same."""

import random

import pytest

from nanoscope import cli
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence

SMALL_TEXT = ("dataset = 'shakespeare_char'", "batch_size = 12", "block_size = 64")  # 1307 steps read it once
ENGLISH = Language("en")


def own_run(evaluations: list[tuple[int, float, float, float]]) -> str:
    """The console log of a run of nanoscope: step, training loss, validation loss and its error."""
    lines = ["nanoscope 0.1.0: runs/novel"]
    for step in range(0, evaluations[-1][0] + 1, 10):
        lines += [
            f"step {at}: train loss {train:.4f}, val loss {val:.4f} ± {error:.4f}, eval 0.40s"
            for at, train, val, error in evaluations if at == step
        ]  # fmt: skip
        near = min(evaluations, key=lambda evaluation: abs(evaluation[0] - step))[1]
        lines.append(f"iter {step}: loss {near:.4f}, time 44.89ms, mfu 30.62%, tok/s 20.4k, eta 3s")
    return "\n".join(lines)


FLAT = own_run([
    (60, 1.31, 1.43, 0.027), (120, 1.19, 1.35, 0.026), (180, 1.08, 1.29, 0.026), (240, 1.01, 1.27, 0.026),
    (300, 0.96, 1.2575, 0.025), (360, 0.91, 1.2641, 0.026), (420, 0.86, 1.2588, 0.025), (480, 0.81, 1.2620, 0.026),
    (540, 0.76, 1.2583, 0.027), (600, 0.72, 1.2596, 0.027),
])  # fmt: skip


def codes(analysis):
    return [verdict.code for verdict in analysis.verdicts]


@pytest.mark.parametrize(("last", "code"), [(1000, "improving"), (5000, "overfitting")])
def test_a_text_read_less_than_once_is_not_known_by_heart(explain, nanogpt_log, last, code):
    text = nanogpt_log(last=last, eval_every=last, val=lambda step: 3 * (1.5 + 2.7 * 2.7 ** (-step / 600)),
                       header=SMALL_TEXT)  # fmt: skip
    text = text.replace(text[text.index("step 0") : text.index("iter 0")], "")
    assert codes(explain(text)) == [code]


def test_a_very_low_loss_on_a_text_read_less_than_once_is_not_memorising(explain, nanogpt_log):
    def loss(step: int) -> float:
        return 4.2 * 0.99**step + 0.1

    for last, memorises in ((1000, False), (3000, True)):
        text = nanogpt_log(last=last, eval_every=None, loss=loss, header=SMALL_TEXT)
        assert ("memorising" in codes(explain(text))) is memorises


def test_a_validation_loss_of_whole_sentences_is_not_compared_with_that_of_a_token(explain):
    assert "overfitting" not in codes(explain(own_run([(60, 1.10, 61.5, 0.03)])))


def test_one_evaluation_with_a_gap_of_ordinary_size_is_not_overfitting(explain):
    text = own_run([(60, 1.10, 1.8112, 0.03)])
    assert "overfitting" not in codes(explain(text))


def test_a_gap_that_no_healthy_run_has_is_severe_overfitting_whose_best_lay_earlier(explain):
    (verdict,) = explain(
        "iter 4980: loss 0.8010, time 33.22ms, mfu 11.07%\niter 4990: loss 0.8212, time 33.23ms, mfu 11.09%\n"
        "step 5000: train loss 0.6224, val loss 1.7044\niter 5000: loss 0.8236, time 4446.83ms, mfu 9.99%\n"
    ).verdicts
    assert (verdict.code, verdict.severity) == ("overfitting", "severe")
    assert "was very likely lower before" in sentence(verdict, ENGLISH)


@pytest.mark.parametrize(("error", "is_one"), [(0.002, True), (0.05, False)])
def test_a_last_evaluation_above_the_best_by_less_than_its_error_is_not_overfitting(explain, error, is_one):
    rising = [(step, 1.3 - step / 1500, 1.30 + abs(step - 200) / 20_000, error) for step in range(50, 1000, 50)]
    assert ("overfitting" in codes(explain(own_run(rising)))) is is_one


def test_a_flat_validation_loss_under_which_training_loss_falls_is_said_and_gets_advice(explain):
    analysis = explain(FLAT)
    (verdict,) = analysis.verdicts
    assert verdict.code == "stalled"
    assert "the gap between them was 0.12 at step 60 and is 0.54 now" in sentence(verdict, ENGLISH).lower()
    assert [advice.action for advice in analysis.advice][:2] == ["use_best_checkpoint", "regularise"]
    assert analysis.advice[0].step == 300
    assert analysis.gap is None  # the verdict has it


def test_what_says_word_for_word_what_the_verdict_says(explain, tmp_path, capsys):
    rising = own_run([(step, 1.3 - step / 1500, 1.30 + abs(step - 200) / 2000, 0.002) for step in range(50, 1000, 50)])
    for text, opening in ((rising, "It shows here. "), (FLAT, "It does not show here yet. ")):
        (tmp_path / "run.log").write_text(text, "utf-8")
        assert cli.run(["what", "overfitting", str(tmp_path / "run.log"), "--lang", "en"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert opening + sentence(explain(text).verdicts[0], ENGLISH) in told


def test_what_does_not_see_a_turn_in_a_single_evaluation(tmp_path, capsys):
    (tmp_path / "run.log").write_text(own_run([(60, 1.10, 1.8112, 0.03)]), "utf-8")
    assert cli.run(["what", "overfitting", str(tmp_path / "run.log"), "--lang", "en"]) == 0
    told = capsys.readouterr().out
    assert "one evaluation, which can't show" in told
    assert "1.8112" not in told


def test_correlated_noise_around_a_flat_validation_loss_is_hardly_ever_a_turn(explain):
    rng, alarms = random.Random(5), 0
    for _ in range(150):
        noise, evaluations = 0.0, []
        for step in range(50, 1001, 50):
            noise = 0.5 * noise + rng.gauss(0, 0.005)
            evaluations.append((step, 1.4 - 0.05 * step / 1000, 1.5 + noise, 0.006))
        alarms += bool({"overfitting", "worsening"} & set(codes(explain(own_run(evaluations)))))
    assert alarms <= 11  # of 150; less, and overfitting by 4 standard errors would be missed (benchmarks/LOG.md)
