"""Advice with a reason in the log, and none without."""

import math

import pytest


def test_evaluating_less_often_is_advised_with_what_it_saves(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=5000, eval_s=12.0), max_iters=10_000)

    (advice,) = [a for a in analysis.advice if a.action == "raise_eval_interval"]
    assert advice.to_value > advice.from_value == 250
    assert 0 < advice.saves_s < advice.of_s == pytest.approx(analysis.eta.expected_s)
    assert advice.saves_s == pytest.approx(12.0 * (20 - 20 // (advice.to_value / 250)), rel=0.05)


def test_cheap_evaluations_are_left_alone(explain, nanogpt_log) -> None:
    assert explain(nanogpt_log(last=5000, eval_s=0.3), max_iters=10_000).advice == ()


def test_an_overfitting_run_is_told_to_stop_where_it_was_best(explain, nanogpt_log) -> None:
    analysis = explain(
        nanogpt_log(
            last=5000, eval_s=0.1, loss=lambda s: 4 * math.exp(-s / 900), val=lambda s: 1.5 + abs(s - 1500) / 9000
        )
    )

    assert analysis.advice[0].action == "stop_at_best"
    assert analysis.advice[0].step == 1500
    assert "train_longer" not in [a.action for a in analysis.advice]


def test_a_log_interval_that_hides_evaluations_is_aligned(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=4000, every=200, eval_every=500, eval_s=0.5))

    (advice,) = [a for a in analysis.advice if a.action == "align_log_interval"]
    assert (advice.from_value, advice.to_value) == (200, 125)


def test_memory_that_ran_out_is_advised_on(explain, nanogpt_log) -> None:
    text = "batch_size = 64\n" + nanogpt_log(last=500, eval_s=0.1) + "torch.OutOfMemoryError: CUDA out of memory.\n"
    actions = [a.action for a in explain(text).advice]

    assert actions[:2] == ["less_memory", "resume_from_checkpoint"]


def test_a_healthy_finished_run_that_still_improves_is_told_to_go_on(explain, nanogpt_log) -> None:
    actions = [a.action for a in explain(nanogpt_log(last=1000, eval_s=0.1), max_iters=1000).advice]

    assert actions == ["train_longer"]
