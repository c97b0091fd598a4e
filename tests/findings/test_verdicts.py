"""What each verdict asks for before it speaks, and what keeps it silent."""

import math
import random
from collections.abc import Callable

import pytest

from nanoscope.findings.analyse import Analysis

Curve = Callable[[int], float]


def codes(analysis: Analysis) -> list[str]:
    return [verdict.code for verdict in analysis.verdicts]


def found(analysis: Analysis, code: str):
    (verdict,) = [v for v in analysis.verdicts if v.code == code]
    return verdict


def rated(
    steps: range, loss: Curve, lr: Curve = lambda s: 6e-4, norm: Curve | None = None, noise: float = 0.02, seed: int = 1
) -> str:
    """Lines with a learning rate and a gradient norm, as build-nanogpt prints them."""
    rng = random.Random(seed)
    return "".join(
        f"step {s:5d} | loss: {loss(s) + rng.gauss(0, noise):.6f} | lr {lr(s):.4e} | norm: "
        f"{0.3 + rng.random() / 20 if norm is None else norm(s):.4f} | dt: 100.00ms | tok/sec: 5000.00\n"
        for s in steps
    )


def falls(step: int) -> float:
    return 2.0 + 8 * (step + 10) ** -0.4


# --- improving, flat, unclear ---


def test_two_evaluations_with_standard_errors_are_enough_to_see_a_fall(explain):
    lines = ["nanoscope 0.1.0: runs/quick"]
    for step in range(0, 150, 10):
        if step == 80:
            lines.append("step 80: train loss 1.6700, val loss 1.8879 ± 0.0170, eval 0.40s")
        lines.append(f"iter {step}: loss 1.6380, time 44.89ms, mfu 30.62%, tok/s 20.4k, eta 3s")
    lines.append("step 150: train loss 1.5700, val loss 1.7636 ± 0.0160, eval 0.40s")
    verdict = found(explain("\n".join(lines)), "improving")
    assert (verdict.measure, verdict.from_step, verdict.to_step) == ("val", 80, 150)
    assert verdict.gain == pytest.approx(0.1243)
    assert verdict.error == pytest.approx(0.0233, abs=0.002)
    assert verdict.confidence in ("sure", "likely")


@pytest.mark.parametrize("until", [4000, 6000, 8000, 12_000, 20_000])
def test_a_slow_noisy_fall_is_never_called_a_plateau(explain, nanogpt_log, until):
    rng = random.Random(until)
    text = nanogpt_log(last=until, every=100, eval_every=200, val=lambda s: falls(s) + rng.gauss(0, 0.01), loss=falls)
    assert "plateau" not in codes(explain(text))


def test_the_last_few_lines_of_a_long_run_are_no_plateau(explain):
    assert codes(explain(rated(range(86_868, 87_000), lambda s: 2.75))) == ["unclear"]


def test_a_plateau_is_not_claimed_in_the_first_tenth_of_the_plan(explain, nanogpt_log):
    flat = nanogpt_log(last=4000, val=lambda s: 2.0, loss=lambda s: 2.0, eval_every=250)
    assert "plateau" in codes(explain(flat))
    assert "plateau" not in codes(explain(flat, max_iters=100_000))


def test_flat_at_a_rate_of_zero_is_flat_by_schedule(explain):
    text = rated(range(1000), lambda s: max(2.0, 3 - s / 500), lr=lambda s: max(0.0, 6e-4 * (1 - s / 700)))
    assert codes(explain(text)) == ["schedule_ended"]


def test_nothing_is_judged_while_the_rate_warms_up(explain):
    text = rated(range(60), lambda s: 10.4 - s / 2000, lr=lambda s: 1e-6 * (s + 1), noise=0.001)
    analysis = explain(text)
    assert codes(analysis) == ["too_short"]
    assert found(analysis, "too_short").warming_up


def test_a_clear_fall_during_warm_up_is_still_seen(explain):
    text = rated(range(300), lambda s: 5 + 6 * math.exp(-s / 100), lr=lambda s: 1e-6 * (s + 1))
    assert codes(explain(text)) == ["improving"]


# --- overfitting and getting worse ---


def test_a_single_worse_evaluation_is_no_overfitting(explain, nanogpt_log):
    text = nanogpt_log(last=2000, val=lambda s: falls(s) + (0.03 if s == 2000 else 0), loss=falls)
    assert "overfitting" not in codes(explain(text))


def test_one_evaluation_above_the_best_counts_beside_a_wide_gap(explain):
    losses = [(0, 10.99, 11.01), (100, 5.4, 6.1), (200, 4.3, 5.6), (300, 3.5, 5.4), (400, 2.8, 5.35), (499, 2.3, 5.5)]
    text = "".join(f"step {s}: train loss {t:.4f}, val loss {v:.4f}\n" for s, t, v in losses)
    assert codes(explain(text)) == ["overfitting"]


def test_both_losses_rising_is_getting_worse_and_no_overfitting(explain, nanogpt_log):
    def worse(step: int) -> float:
        return 2 + 2 * math.exp(-step / 300) + max(0, step - 1500) / 8000

    analysis = explain(nanogpt_log(last=4000, loss=worse, val=lambda s: worse(s) + 0.02))
    assert codes(analysis) == ["worsening"]
    assert found(analysis, "worsening").train_known


def test_a_growing_gap_is_noted_before_validation_turns(explain, nanogpt_log):
    analysis = explain(nanogpt_log(last=2000, loss=falls, val=lambda s: falls(s) + 0.02 + s / 8000))
    assert found(analysis, "stalled").gap.share == pytest.approx(0.27 / (falls(2000) + 0.27), rel=0.1)


def test_validation_far_below_training_is_questioned(explain, nanogpt_log):
    assert "leak" in codes(explain(nanogpt_log(loss=falls, val=lambda s: 0.9 * falls(s))))
    assert "leak" not in codes(explain(nanogpt_log(loss=falls, val=lambda s: 0.98 * falls(s))))


def evaluated(points: list[tuple[int, float, float]], lines: Curve, every: int = 10) -> str:
    """Evaluations of both splits among training lines, as nanoGPT prints them."""
    text = {step: f"step {step}: train loss {train:.4f}, val loss {val:.4f}\n" for step, train, val in points}
    return "".join(
        f"{text.get(s, '')}iter {s}: loss {lines(s):.4f}, time 100.00ms, mfu 12.00%\n"
        for s in range(0, points[-1][0] + 1, every)
    )


def test_evaluations_that_contradict_the_training_lines_are_noise_and_no_verdict(explain):
    points = [(0, 4.1, 4.1), (500, 2.85, 2.84), (1000, 2.72, 2.77), (1500, 2.71, 2.62), (2000, 2.56, 2.76)]
    analysis = explain(evaluated([*points, (2500, 2.95, 2.74)], lambda s: 2.5 + 20 / (s + 13)))
    assert not {"worsening", "overfitting"} & set(codes(analysis))


def test_level_training_loss_far_below_validation_leaves_overfitting_open(explain):
    points = [(0, 1.91, 1.91), (80, 1.74, 1.81), (160, 1.72, 1.77), (240, 1.47, 1.769), (300, 1.466, 1.764)]
    text = evaluated([*points, (380, 1.464, 1.787), (450, 1.467, 1.81)], lambda s: 1.72 if s < 200 else 1.465)
    assert not found(explain(text), "worsening").train_known


def test_overfitting_needs_no_validation_in_the_units_of_training(explain):
    lines = []
    for step in range(1001):
        if step % 100 == 0:
            lines.append(f"Step {step:05d} | Validation bpb: {1.2 - step / 2000 + max(0, step - 400) / 900:.4f}")
        lines.append(
            f"step {step:05d}/02000 ({step / 20:.2f}%) | loss: {falls(step) - step / 2000:.6f} | lrm: 1.00 | "
            "dt: 100.00ms | tok/sec: 5,000 | mfu: 40.00 | total time: 1.00m"
        )
    verdict = found(explain("\n".join(lines)), "overfitting")
    assert verdict.onset_step == 400
    assert verdict.last_train is not None


def test_validation_on_its_way_back_from_a_spike_is_not_getting_worse(explain, nanogpt_log):
    def bumped(step: int) -> float:
        return falls(step) + (1.5 * math.exp(-(step - 1000) / 300) if step >= 1000 else 0)

    text = nanogpt_log(last=1400, every=10, eval_every=200, loss=bumped, val=bumped)
    assert not {"worsening", "overfitting", "diverged"} & set(codes(explain(text)))


def test_few_evaluations_that_zigzag_show_no_overfitting(explain, nanogpt_log):
    val = {0: 4.2, 500: 3.2, 1000: 2.92, 1500: 3.02, 2000: 2.98, 2500: 3.01}
    text = nanogpt_log(last=2500, eval_every=500, loss=lambda s: falls(s) + 0.7, val=lambda s: val[s])
    assert "overfitting" not in codes(explain(text))


def test_an_unclear_end_is_not_said_of_a_fall_that_is_clear(explain):
    vals = [3.2, 2.9, 2.7, 2.6, 2.54, 2.47, 2.43, 2.42, 2.37, 2.39, 2.33, 2.35, 2.30, 2.31, 2.27, 2.25, 2.32]
    points = [(100 * i, v - 0.02, v) for i, v in enumerate(vals)]
    for verdict in explain(evaluated(points, lambda s: 2.0 + 20 / (s + 20))).verdicts:
        assert verdict.code != "unclear" or abs(verdict.change) < 3 * verdict.error


# --- breaking ---


@pytest.mark.parametrize("end", [31.0, 9.0])
def test_a_loss_that_explodes_has_diverged_even_while_it_comes_down_again(explain, end):
    values = [10.9, 9.9, 9.0, 8.1, 7.2, 6.5, 5.9, 5.5, 5.3, 5.1, 4.8, 270.0, 200.0, 140.0, 110.0, 90.0, 60.0, 40.0, end]
    text = "".join(f"iter {10 * i}: loss {v:.4f}, time 100.00ms, mfu 1.00%\n" for i, v in enumerate(values))
    verdict = found(explain(text), "diverged")
    assert (verdict.step, verdict.best, verdict.highest) == (110, 4.8, 270.0)
    assert verdict.confidence == "sure"


def test_a_spike_in_the_last_lines_is_no_divergence_yet(explain):
    analysis = explain(rated(range(400), lambda s: 3.9 if s >= 398 else falls(s)))
    assert "diverged" not in codes(analysis)
    assert analysis.spikes[0].recovered_step is None


def test_a_few_lines_are_enough_where_the_loss_triples(explain):
    values = [1.6, 1.4, 3.3, 6.4, 5.9, 5.1, 4.9, 4.6]
    text = "".join(
        f"Iter {25 * (i + 1)}: Train loss {v:.3f}, It/sec 1.000, Tokens/sec 300.0\n" for i, v in enumerate(values)
    )
    assert found(explain(text), "diverged").step == 75


def test_a_divergence_names_what_the_log_shows_of_its_cause(explain):
    text = rated(
        range(400), lambda s: falls(s) if s < 300 else 30.0, lr=lambda s: 1e-6 * (s + 1),
        norm=lambda s: 0.3 if s < 299 else 40.0,
    )  # fmt: skip
    verdict = found(explain(text), "diverged")
    assert verdict.lr_rising
    assert (verdict.grad_norm_before, verdict.grad_norm_after) == (0.3, 40.0)


def test_a_pretrained_model_that_its_first_steps_make_worse_is_damaged(explain, nanogpt_log):
    text = nanogpt_log(last=60, every=1, eval_every=5, loss=lambda s: 3.2, val=lambda s: 3.0 if s == 0 else 3.6)
    analysis = explain(text)
    assert codes(analysis)[0] == "damaged_start"
    assert [advice.action for advice in analysis.advice][:2] == ["warm_up", "lower_learning_rate"]


def test_a_run_from_scratch_is_not_damaged_by_beginning_at_guessing(explain, nanogpt_log):
    assert "damaged_start" not in codes(explain(nanogpt_log(header=["found vocab_size = 65"])))


def test_a_loss_that_stays_at_guessing_is_not_learning(explain, nanogpt_log):
    stuck = nanogpt_log(eval_every=None, loss=lambda s: math.log(65), header=["found vocab_size = 65"])
    assert codes(explain(stuck)) == ["not_learning"]


def test_a_loss_of_exactly_zero_is_not_memorising(explain):
    text = "".join(f"{{'loss': 0.0, 'learning_rate': 0.05, 'step': {s}}}\n" for s in range(1, 30))
    assert not {"memorising", "improving", "plateau"} & set(codes(explain(text)))


# --- gradients ---


def test_gradients_that_explode_and_stay_up_are_noticed(explain):
    assert "gradient_explosion" in codes(explain(rated(range(400), falls, norm=lambda s: 60.0 if s > 360 else 0.3)))
    assert "gradient_explosion" not in codes(
        explain(rated(range(400), falls, norm=lambda s: 60.0 if s == 200 else 0.3))
    )


def test_high_gradients_at_the_start_are_usual(explain):
    assert codes(explain(rated(range(400), falls, norm=lambda s: 15.0 if s < 5 else 0.3))) == ["improving"]


def test_the_share_of_clipped_steps_is_counted(explain):
    text = "grad_clip = 1.0\n" + rated(range(400), falls, norm=lambda s: 1.5 if s % 4 == 0 else 0.5)
    assert explain(text).gradients.clipped_share == pytest.approx(0.25, abs=0.01)


# --- the data ---


def test_batches_that_repeat_are_told_apart_from_overfitting(explain, nanogpt_log):
    """The lines fall to nothing while the training text as a whole gets worse."""
    text = nanogpt_log(last=400, every=5, eval_every=50, loss=lambda s: 4.4, val=lambda s: 4.4)
    lines = []
    for line in text.splitlines():
        if line.startswith("saving"):
            continue
        step = int(line.split()[1].rstrip(":"))
        if line.startswith("step") and step:
            line = f"step {step}: train loss {3.1 + step / 150:.4f}, val loss {3.0 + step / 150:.4f}"
        elif line.startswith("iter"):
            line = f"iter {step}: loss {4.4 * 0.98**step + 0.01:.4f}, time 100.00ms, mfu 1.00%"
        lines.append(line)
    assert codes(explain("\n".join(lines))) == ["repeated_batches"]


def test_a_loss_that_rests_at_the_frequencies_of_tokens_is_not_learning(explain, nanogpt_log):
    text = nanogpt_log(
        last=2000, loss=lambda s: 3.3 + max(0.0, 0.87 - s / 100), val=lambda s: 3.31, header=["found vocab_size = 65"]
    )
    verdict = found(explain(text), "not_learning")
    assert (verdict.reason, verdict.confidence) == ("frequencies", "likely")


def test_an_excerpt_that_opens_with_an_evaluation_is_not_taken_for_the_start(explain):
    rng = random.Random(4)
    lines = ["val loss 4.010000"] + [
        f"step {s:4d}/2000 | loss {4 + rng.gauss(0, 0.05):.6f} (+0.10z)| norm 0.3000 (+0.10z)| lr 6.00e-04 | 100.00 ms "
        "| 46.1% bf16 MFU | 5242880 tok/s"
        for s in range(800, 960)
    ]
    assert "not_learning" not in codes(explain("\n".join(lines)))
