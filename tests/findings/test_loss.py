"""What the losses say."""

import math

import pytest


def codes(analysis) -> list[str]:
    return [verdict.code for verdict in analysis.verdicts]


def verdict(analysis, code: str):
    (found,) = [v for v in analysis.verdicts if v.code == f"{code}"]
    return found


def test_a_run_whose_evaluations_fall_is_improving(explain, nanogpt_log) -> None:
    assert codes(explain(nanogpt_log())) == ["improving"]


def test_a_run_without_evaluations_is_judged_by_its_training_loss(explain, nanogpt_log) -> None:
    assert codes(explain(nanogpt_log(last=1000, eval_every=None))) == ["improving"]
    assert codes(explain(nanogpt_log(first=4000, last=12000, eval_every=None))) == ["plateau"]


def test_evaluations_that_no_longer_fall_are_a_plateau(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=8000, val=lambda s: 2.0 + 2 * math.exp(-s / 700) + 0.001 * math.sin(s)))

    assert codes(analysis) == ["plateau"]


def test_validation_past_its_best_while_training_falls_is_overfitting(explain, nanogpt_log) -> None:
    analysis = explain(
        nanogpt_log(
            last=5000, loss=lambda s: 0.5 + 3.7 * math.exp(-s / 1500), val=lambda s: 1.47 + abs(s - 2000) / 3000 * 0.23
        )
    )

    found = verdict(analysis, "overfitting")
    assert found.onset_step == 2000
    assert found.rise == pytest.approx(0.23, abs=0.01)
    assert found.severity == "severe"
    assert found.wasted_steps == 3000
    assert "improving" not in codes(analysis)
    assert analysis.evals.best_step == 2000


def test_the_notes_case_of_one_evaluation_is_overfitting(explain) -> None:
    analysis = explain(
        "iter 4980: loss 0.8010, time 33.22ms, mfu 11.07%\niter 4990: loss 0.8212, time 33.23ms, mfu 11.09%\n"
        "step 5000: train loss 0.6224, val loss 1.7044\niter 5000: loss 0.8236, time 4446.83ms, mfu 9.99%\n"
    )

    assert codes(analysis) == ["overfitting"]
    assert verdict(analysis, "overfitting").severity == "severe"


def test_a_gap_that_both_losses_fall_with_is_no_overfitting(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(val=lambda s: 1.9 + 2.7 * math.exp(-s / 600)))

    assert codes(analysis) == ["improving"]


def test_an_old_evaluation_is_not_held_against_a_newer_training_loss(explain) -> None:
    step = "step {0:4d}/9000 | loss {1:.4f} (+0.1z)| norm 1.0 (+0.1z)| lr 1e-4 | 100.00 ms | 30.0% bf16 MFU | 900 tok/s"
    lines = ["val loss 11.0"]
    for s in range(1, 900):
        lines.append(step.format(s, 3.5 + 7.5 * math.exp(-s / 150)))
        if s == 100:
            lines.append("val loss 7.4")

    assert codes(explain("\n".join(lines))) == ["improving"]


def test_a_rise_of_both_losses_is_no_overfitting(explain, nanogpt_log) -> None:
    def loss(step: int) -> float:
        return 2.0 + 2 * math.exp(-step / 400) if step < 1200 else 2.1 + (step - 1200) / 300

    analysis = explain(nanogpt_log(loss=loss))
    assert codes(analysis) == ["diverged"]
    assert verdict(analysis, "diverged").step == pytest.approx(1250, abs=120)
    assert verdict(analysis, "diverged").last_good_checkpoint == 1000


def test_a_spike_that_is_over_is_no_divergence(explain, nanogpt_log) -> None:
    analysis = explain(
        nanogpt_log(last=1000, every=1, eval_every=None, loss=lambda s: 9.0 if s in (80, 81) else 4 - s / 500)
    )

    assert "diverged" not in codes(analysis)
    assert [(spike.step, spike.recovered_step) for spike in analysis.spikes] == [(80, 82)]


def test_the_first_loss_that_is_not_finite_and_the_last_good_checkpoint_are_named(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(loss=lambda s: math.nan if s >= 1230 else 4 - s / 1000))

    found = verdict(analysis, "non_finite")
    assert (found.step, found.from_start, found.last_good_checkpoint) == (1230, False, 1000)
    assert codes(analysis) == ["non_finite"]


def test_a_loss_that_was_never_finite_is_a_matter_of_set_up(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=300, eval_every=None, loss=lambda s: math.nan))

    assert verdict(analysis, "non_finite").from_start
    assert [advice.action for advice in analysis.advice] == ["check_setup"]


def test_a_loss_near_zero_without_validation_is_memorising(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(eval_every=None, loss=lambda s: 0.03 + 10.9 * math.exp(-s / 200)))

    assert codes(analysis) == ["memorising"]


def test_a_low_loss_on_validation_too_is_no_memorising(explain, nanogpt_log) -> None:
    analysis = explain(
        nanogpt_log(loss=lambda s: 0.05 + 7 * math.exp(-s / 300), val=lambda s: 0.06 + 7 * math.exp(-s / 300))
    )

    assert "memorising" not in codes(analysis)


def test_a_task_with_ten_symbols_may_be_known_exactly(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(eval_every=None, loss=lambda s: 0.02 + 2.28 * math.exp(-s / 200)))

    assert "memorising" not in codes(analysis)


def test_many_passes_over_the_data_make_memorising_likelier(explain, nanogpt_log) -> None:
    header = ["data has 19000 characters, 20 unique.", "batch_size: 64", "block_size: 128"]
    analysis = explain(nanogpt_log(eval_every=None, header=header, loss=lambda s: 0.35 + 2.6 * math.exp(-s / 200)))

    assert analysis.progress.passes_over_data > 100
    assert codes(analysis) == ["memorising"]


def test_a_few_steps_are_too_short_for_any_verdict(explain, nanogpt_log) -> None:
    assert codes(explain(nanogpt_log(last=7, every=1, eval_every=None))) == ["too_short"]


def test_the_first_loss_is_held_against_knowing_nothing(explain, nanogpt_log) -> None:
    train = explain(nanogpt_log(header=["found vocab_size = 65"])).train_loss

    assert train.uniform_loss == pytest.approx(4.174, abs=0.001)
    assert train.first_is_uniform
    assert train.bits_per_char == pytest.approx(train.smoothed_last / math.log(2))


def test_warming_up_is_said(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=300, eval_every=None, header=["warmup_iters = 2000"]))

    assert (analysis.schedule.stage, analysis.schedule.warmup_steps) == ("warmup", 2000)


def test_bits_per_byte_are_a_metric_of_their_own(explain) -> None:
    lines = []
    for step in range(0, 1000, 10):
        if step % 250 == 0:
            lines.append(f"Step {step:05d} | Validation bpb: {1 + 2 * math.exp(-step / 300):.4f}")
        lines.append(
            f"step {step:05d}/02000 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: 1,000 | mfu: 40.00"
        )
    analysis = explain("\n".join(lines))

    assert (analysis.evals.metric, analysis.evals.count, analysis.evals.interval) == ("bpb", 4, 250)
    assert codes(analysis) == ["improving"]
