# ruff: noqa: E501 (a log line is as long as it is)
"""Advice with a reason in the log, and none without."""

import math

import pytest

from nanoscope.findings.analyse import analyse
from nanoscope.findings.declared import Advice
from nanoscope.runs.events import Iter, Start
from nanoscope.runs.own import EventReader
from nanoscope.words.language import Language


def test_evaluating_less_often_is_advised_with_what_it_saves(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=5000, eval_s=3.0), max_iters=10_000)

    (advice,) = [a for a in analysis.advice if a.action == "raise_eval_interval"]
    assert advice.to_value > advice.from_value == 250
    assert 0 < advice.saves_s < advice.of_s == pytest.approx(analysis.eta.expected_s)
    assert advice.saves_s == pytest.approx(3.0 * (20 - 20 // (advice.to_value / 250)), rel=0.05)


def test_evaluations_that_take_a_third_of_the_time_should_use_fewer_batches(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=5000, eval_s=12.0, header=["eval_iters = 200"]), max_iters=10_000)

    (advice,) = [a for a in analysis.advice if a.action == "lower_eval_iters"]
    assert (advice.from_value, advice.to_value, advice.factor) == (200, 50, 4)
    assert advice.saves_s == pytest.approx(12.0 * 20 * 3 / 4, rel=0.05)
    assert "raise_eval_interval" not in [a.action for a in analysis.advice]


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
    assert (advice.from_value, advice.to_value) == (200, 100)


def test_memory_that_ran_out_is_advised_on(explain, nanogpt_log) -> None:
    text = "batch_size = 64\n" + nanogpt_log(last=500, eval_s=0.1) + "torch.OutOfMemoryError: CUDA out of memory.\n"
    actions = [a.action for a in explain(text).advice]

    assert actions[:2] == ["less_memory", "resume_from_checkpoint"]


def test_a_healthy_finished_run_that_still_improves_is_told_to_go_on(explain, nanogpt_log) -> None:
    (advice,) = explain(nanogpt_log(last=1000, eval_s=0.1), max_iters=1000).advice

    assert (advice.action, advice.from_value, advice.to_value) == ("train_longer", 1000, 2000)


def test_a_short_run_that_improves_and_is_done_is_completed(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=500, eval_s=0.1), max_iters=500)

    assert [v.code for v in analysis.verdicts] == ["completed", "improving"]


def test_a_loss_that_was_not_finite_for_a_moment_needs_no_checkpoint(explain, nanogpt_log) -> None:
    lines = nanogpt_log(last=1500, eval_s=0.1).replace("iter 700: loss ", "iter 700: loss nan, was ")
    analysis = explain(lines, max_iters=3000)

    assert [v.code for v in analysis.verdicts] == ["non_finite", "improving"]
    assert "resume_from_checkpoint" not in [a.action for a in analysis.advice]
    assert analysis.eta.expected_s > 0


def test_a_loss_that_is_not_finite_to_the_end_leads_back_to_the_last_good_checkpoint(explain, nanogpt_log) -> None:
    lines = nanogpt_log(last=1500, eval_s=0.1, loss=lambda s: math.nan if s in (700, 710) or s > 1000 else 2.0)
    analysis = explain(lines, max_iters=3000)

    assert analysis.eta.reason == "not_finite"
    assert (analysis.advice[0].action, analysis.advice[0].step) == ("resume_from_checkpoint", 500)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB\n"
NANOCHAT = "".join(
    f"step {s:05d}/00400 (2.50%) | loss: {9 - s / 100:.6f} | lrm: 1.00 | dt: 512.00ms | tok/sec: 64,000 | "
    f"bf16_mfu: 11.20 | total time: 0.10m\n"
    for s in range(20)
)
HUGGING_FACE = "".join(
    f"{{'loss': {3 - s / 100:.4f}, 'grad_norm': 0.4, 'learning_rate': 0.0002, 'epoch': {s / 100:.2f}}}\n"
    f" {s}%|#         | {s}/100 [00:{s:02d}<03:00,  1.00s/it]\n"
    for s in range(1, 20)
)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (NANOCHAT, "Halve --device-batch-size: the trainer accumulates twice as much, for the same training in less memory."),
        (HUGGING_FACE, "Halve per_device_train_batch_size and double gradient_accumulation_steps: the same training in less memory."),
        ("".join(f"iter {s}: loss 4.0000, time 100.00ms, mfu 5.00%\n" for s in range(20)), "Halve batch_size and double gradient_accumulation_steps: the same training in less memory."),
    ],
)  # fmt: skip
def test_advice_calls_settings_as_the_trainer_does(explain, log, said) -> None:
    (advice,) = [a for a in explain(log + OOM).advice if a.action == "less_memory"]
    assert advice.setting == "batch_size"
    assert Language("en").render(advice.text(), advice) == said
    assert "batch_size" in Language("ar").render(advice.text(), advice).replace("-", "_")


def test_values_of_settings_go_with_their_names() -> None:
    longer = Advice("train_longer", "max_iters", 100, 200, trainer="megatron")
    assert "Set --train-iters=200 from the start" in Language("en").render(longer.text(), longer)
    rate = Advice("lower_learning_rate", "learning_rate", trainer="fairseq")
    assert Language("en").render(rate.text(), rate) == "Lower --lr, and clip gradients (--clip-norm=1.0)."
    for trainer, clips in (("llm.c", False), ("nanogpt", True)):  # without such a flag, or with it on
        rate = Advice("lower_learning_rate", "learning_rate", 0.1, 0.03, trainer=trainer, clips=clips)
        assert "clip" not in Language("en").render(rate.text(), rate)
    rare = Advice("checkpoint_less", trainer="hf-trainer")
    assert "(save_strategy=best)" in Language("en").render(rare.text(), rare)


def test_a_run_that_clips_is_told_to_lower_the_rate_that_is_out_of_line() -> None:
    settings = {"learning_rate": 0.01, "matrix_lr": 1e20, "grad_clip": 1.0, "max_iters": 100}
    reader = EventReader()
    reader.take([Start(config=settings)])
    for step in range(30):
        reader.take([Iter(step=step, loss=3.0 if step < 5 else float("nan"), seconds=0.1)])
    (run,) = reader.log("").runs
    (lower,) = [advice for advice in analyse(run).advice if advice.action == "lower_learning_rate"]

    assert (lower.setting, lower.from_value, lower.clips) == ("matrix_lr", 1e20, True)
