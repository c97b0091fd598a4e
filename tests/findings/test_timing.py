"""Normal steps, slow steps and their causes."""

import random

import pytest

import example_logs
from nanoscope.findings.schema import run_json


def causes(analysis) -> dict[int, tuple[str, ...]]:
    return {slow.step: slow.causes for slow in analysis.slow_steps}


def test_evaluations_and_start_up_are_not_part_of_the_normal_step(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log())

    assert analysis.timing.typical_s == pytest.approx(0.1, rel=0.02)
    assert causes(analysis)[0] == ("startup", "evaluation")
    assert causes(analysis)[500] == ("evaluation", "checkpoint")
    assert sorted(causes(analysis)) == list(range(0, 2001, 250))
    assert analysis.evals.cost_s == pytest.approx(4.0, rel=0.01)


def test_the_notes_case_of_168_ms_against_seconds(explain) -> None:
    lines = ["step 0: train loss 10.88, val loss 10.87", "iter 0: loss 10.88, time 12543.00ms, mfu -100.00%"]
    for step in range(100, 1600, 100):
        if step % 500 == 0:
            lines += [f"step {step}: train loss 7.10, val loss 7.00", "saving checkpoint to out"]
        time_ms = {500: 5985, 1000: 5726}.get(step, 5800 if step % 500 == 0 else 168 + step % 3)
        lines.append(f"iter {step}: loss 7.05, time {time_ms}.00ms, mfu 10.00%")
    analysis = explain("\n".join(lines))

    assert causes(analysis) == {
        0: ("startup", "evaluation"),
        500: ("evaluation", "checkpoint"),
        1000: ("evaluation", "checkpoint"),
        1500: ("evaluation", "checkpoint"),
    }
    assert analysis.timing.typical_s == pytest.approx(0.169, abs=0.002)
    (startup,) = [cost for cost in analysis.phase_costs if cost.phase == "startup"]
    assert startup.total_s == pytest.approx(12.543 - 0.169 - analysis.evals.cost_s, abs=0.01)


def test_a_first_step_that_costs_no_more_than_later_evaluations_is_no_start_up(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(startup_s=0.2))

    assert causes(analysis)[0] == ("evaluation",)
    assert [cost.phase for cost in analysis.phase_costs] == ["evaluation"]


def test_a_first_step_is_not_split_where_no_later_evaluation_tells_how(explain, nanogpt_log) -> None:
    (cost,) = explain(nanogpt_log(last=200)).phase_costs

    assert (cost.phase, cost.with_evaluation) == ("startup", True)


@pytest.mark.parametrize(("setting", "compiled"), [("True", True), ("False", False)])
def test_only_a_run_that_is_set_to_compile_is_said_to(explain, nanogpt_log, setting, compiled) -> None:
    groups = explain(nanogpt_log(header=[f"Overriding: compile = {setting}"], startup_s=30)).slow_groups

    assert [group.compiled for group in groups if "startup" in group.causes] == [compiled]


def test_a_stall_counts_once_in_the_time_of_the_run(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(startup_s=0, step_s=lambda step: 300.0 if step == 640 else 0.1))
    (cost,) = [cost for cost in analysis.phase_costs if cost.phase == "evaluation"]

    assert cost.share == pytest.approx(9 * 4 / (2000 * 0.1 + 9 * 4 + 300), rel=0.05)


def test_an_evaluation_that_adds_a_tenth_to_an_even_step_is_seen(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(startup_s=0, eval_s=0.012))

    assert sorted(causes(analysis)) == list(range(0, 2001, 250))


def test_two_lines_are_enough_where_one_holds_an_evaluation(explain) -> None:
    lines = ["iter 1999: loss 1.9, time 40.00ms", "step 2000: train loss 1.7, val loss 1.8"]
    analysis = explain("\n".join([*lines, "iter 2000: loss 1.7, time 530.00ms"]))

    assert analysis.timing.typical_s == pytest.approx(0.04)
    assert causes(analysis) == {2000: ("evaluation",)}


def test_the_distance_between_evaluations_is_not_that_to_the_last_one(explain) -> None:
    lines = []
    for step in range(700, 1073):
        evaluates = step in (750, 1000, 1072)
        lines += ["validation loss: 3.2"] if evaluates else []
        lines.append(f"step {step:5d} | loss: 3.1 | lr 1e-4 | norm: 1.0 | dt: {9000 if evaluates else 400}.00ms | tok/sec: 9.0")  # noqa: E501 # fmt: skip
    (group,) = explain("\n".join(lines)).slow_groups

    assert group.period_steps == 250


def test_a_slow_step_without_an_evaluation_is_a_stall(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(step_s=lambda step: 0.6 if step == 640 else 0.1))

    assert causes(analysis)[640] == ("stall",)


def test_a_step_within_the_noise_of_the_run_is_not_slow(explain, nanogpt_log) -> None:
    rng = random.Random(3)
    analysis = explain(nanogpt_log(eval_every=None, startup_s=0, step_s=lambda step: rng.choice([0.03, 0.05, 0.08])))

    assert analysis.slow_steps == ()


def test_a_tenth_more_is_not_slow_however_even_the_run_is(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(step_s=lambda step: 0.11 if step % 170 == 0 else 0.1))

    assert sorted(causes(analysis)) == list(range(0, 2001, 250))


def test_work_at_a_regular_distance_is_periodic_and_counts_in_the_mean(explain, nanogpt_log) -> None:
    analysis = explain(
        nanogpt_log(last=500, every=1, eval_every=None, startup_s=0, step_s=lambda s: 0.5 if s % 10 == 3 else 0.1)
    )

    assert set(causes(analysis).values()) == {("periodic",)}
    assert len(analysis.slow_steps) == 50
    assert analysis.timing.typical_s == pytest.approx(0.1, rel=0.03)
    assert analysis.timing.mean_s == pytest.approx(0.14, rel=0.03)


def test_data_shards_of_nearly_equal_size_are_periodic(explain, nanogpt_log) -> None:
    shards = {91, 280, 471, 661, 850, 1041}
    analysis = explain(
        nanogpt_log(last=1100, every=1, eval_every=None, startup_s=0, step_s=lambda s: 0.3 if s in shards else 0.1)
    )

    assert causes(analysis) == dict.fromkeys(sorted(shards), ("periodic",))


def test_three_busy_spells_are_no_regular_work_however_many_steps_each_slows_down(explain, nanogpt_log) -> None:
    busy = {*range(150, 161), *range(870, 880), *range(1590, 1602)}
    analysis = explain(
        nanogpt_log(last=2000, every=1, eval_every=None, startup_s=0, step_s=lambda s: 1.8 if s in busy else 0.06)
    )

    assert causes(analysis) == dict.fromkeys(sorted(busy), ("stall",))


def test_many_irregular_slow_steps_are_jitter_and_not_listed_one_by_one(explain, nanogpt_log) -> None:
    rng = random.Random(5)
    slow = {s for s in range(300, 600) if rng.random() < 0.2}
    analysis = explain(
        nanogpt_log(last=600, every=1, eval_every=None, step_s=lambda s: rng.uniform(0.17, 0.24) if s in slow else 0.1)
    )

    assert list(causes(analysis)) == [0]
    assert analysis.timing.jittery


def test_evaluations_between_printed_lines_are_counted_as_hidden(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=4000, every=200, eval_every=500))

    assert sorted(causes(analysis)) == [0, 1000, 2000, 3000, 4000]
    assert analysis.hidden_evaluations.hidden == 4
    assert analysis.evals.count == 9
    (cost,) = [c for c in analysis.phase_costs if c.phase == "evaluation"]
    assert cost.total_s == pytest.approx(36.0, rel=0.02)


def test_a_checkpoint_is_told_from_the_evaluation_where_only_some_save(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=4000, saves=lambda step: step % 500 == 0 and step > 0, save_s=1.5))

    assert causes(analysis)[250] == ("evaluation",)
    assert analysis.checkpoints.cost_s == pytest.approx(1.5, rel=0.05)
    assert analysis.checkpoints.count == 8


def test_a_run_that_gets_slower_is_said_to(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(step_s=lambda step: 0.1 * (1 + step / 6000)))

    assert "slowing_down" in [verdict.code for verdict in analysis.verdicts]
    assert analysis.timing.trend_share == pytest.approx(0.22, abs=0.05)
    assert sorted(causes(analysis)) == list(range(0, 2001, 250))


def test_steps_that_take_longer_because_they_hold_more_tokens_are_not_slowing_down(explain) -> None:
    line = "step {} | loss 3.5 | dt: {}ms | tok/sec: {}\n"
    grown = [line.format(n, 100 * (1 + n // 40), 80_000) for n in range(120)]
    slowed = [line.format(n, 100 * (1 + n // 40), 80_000 / (1 + n // 40)) for n in range(120)]

    assert "slowing_down" not in [v.code for v in explain("".join(grown)).verdicts]
    assert "slowing_down" in [v.code for v in explain("".join(slowed)).verdicts]


def test_a_trainer_whose_windows_grow_by_design_is_not_slowing_down(explain) -> None:
    clock = [sum(100 + n for n in range(step)) for step in range(301)]
    lines = [f"step:{n}/400 train_loss:{5 - n / 300:.4f} train_time:{clock[n]}ms\n" for n in range(1, 301)]

    assert "slowing_down" not in [v.code for v in explain("".join(lines)).verdicts]


def test_a_machine_that_was_busy_for_a_while_is_not_slowing_down(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(step_s=lambda step: 0.15 if 1200 < step < 1800 else 0.1))

    assert "slowing_down" not in [verdict.code for verdict in analysis.verdicts]


def test_a_sudden_change_of_pace_is_only_a_hint_and_says_when(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(eval_every=None, startup_s=0, step_s=lambda step: 0.1 if step < 900 else 0.15))
    (verdict,) = [v for v in analysis.verdicts if v.code == "slowing_down"]

    assert verdict.confidence == "hint"
    assert verdict.since_step == pytest.approx(900, abs=60)


def test_a_coarse_clock_is_no_slowdown_and_no_stall(explain) -> None:
    rng = random.Random(11)
    lines = [
        f"step {s} | loss 2.3000 | step time {rng.choice([15.62, 31.25, 31.25, 46.88])}ms" for s in range(0, 3000, 10)
    ]
    analysis = explain("\n".join(lines))

    assert analysis.slow_steps == ()
    assert analysis.timing.clock_resolution_s == pytest.approx(0.0156, abs=0.0001)
    assert "slowing_down" not in [verdict.code for verdict in analysis.verdicts]


def test_the_step_after_a_resumption_is_slow_because_of_it(explain, nanogpt_log) -> None:
    before = nanogpt_log(last=1000, eval_every=None)
    after = nanogpt_log(first=600, last=2000, eval_every=None, step_s=lambda s: 9.0 if s == 600 else 0.1)
    analysis = explain(before + "Resuming training from out\n" + after)

    assert causes(analysis)[600] == ("resume",)
    assert analysis.summary.resumed_at == (600,)


def test_times_outside_the_evaluation_blame_no_evaluation(explain) -> None:
    lines = []
    for step in range(600):
        if step % 250 == 0:
            lines.append(f"Step {step:05d} | Validation bpb: {2 - step / 1000:.4f}")
        dt = 1900.0 if step == 250 else 500.0 + step % 5
        lines.append(
            f"step {step:05d}/02000 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: {dt:.2f}ms | tok/sec: 1,000 | mfu: 40.00"
        )
    analysis = explain("\n".join(lines))

    assert causes(analysis)[250] == ("stall",)
    assert analysis.evals.cost_s is None


def test_a_time_of_zero_is_not_measured(explain) -> None:
    lines = [f"iter_dt {0 if s == 0 else 16000 + s}.00ms; iter {s}: train loss 3.00000" for s in range(0, 300, 10)]
    analysis = explain("\n".join(lines))

    assert analysis.timing.low_s > 15
    assert analysis.slow_steps == ()


def test_an_evaluation_in_a_span_of_ten_steps_costs_its_whole_time(explain) -> None:
    clock, lines = 0.0, []
    for step in range(1, 401):
        clock += 0.5
        if step % 10 == 0:
            lines.append(f"[titan] 2031-01-01 10:{int(clock // 60):02d}:{clock % 60:06.3f} - INFO - step: {step}  loss: 4.5  memory: 1GiB(2%)  tps: 900")  # noqa: E501 # fmt: skip
        if step % 50 == 0:
            clock += 6.0
            lines.append(f"[titan] validate step: {step}  loss: 4.6  memory: 1GiB(2%)")
    analysis = explain("\n".join(lines))

    assert analysis.timing.typical_s == pytest.approx(0.5, rel=0.01)
    assert analysis.evals.cost_s == pytest.approx(6.0, rel=0.02)
    assert causes(analysis)[60] == ("evaluation",)


@pytest.mark.slow
def test_a_very_long_log_is_judged_as_exactly_as_a_short_one(explain) -> None:
    lines = []
    for step in range(70_000):
        if step % 5000 == 0:
            lines.append(f"step {step}: train loss 3.0000, val loss 3.1000")
        time_ms = 100 + step % 7 + (900 if step % 10 == 3 else 0) + (4000 if step % 5000 == 0 else 0)
        lines.append(f"iter {step}: loss 3.0000, time {time_ms}.00ms, mfu 5.00%")
    analysis = explain("\n".join(lines))

    assert analysis.timing.typical_s == pytest.approx(0.103, abs=0.002)
    assert analysis.timing.mean_s == pytest.approx(0.193, abs=0.001)
    counts = {group.causes: group.count for group in analysis.slow_groups}
    assert counts[("periodic",)] == 7000
    assert counts[("evaluation",)] == 14  # the first step cost no more than the others: it is no start-up


@pytest.mark.parametrize(
    ("evaluations", "at_500"), [("", ("evaluation",)), (example_logs.QUOTED_EVALUATIONS, ("evaluation", "checkpoint"))]
)
def test_quoted_lines_without_losses_show_the_normal_step_and_why_some_are_slow(explain, evaluations, at_500) -> None:
    analysis = explain(example_logs.QUOTED + evaluations)

    assert analysis.timing.typical_s == pytest.approx(0.168, abs=0.002)
    assert causes(analysis) == {0: ("startup", "evaluation"), 500: at_500, 1000: at_500}
    assert {group.inferred for group in analysis.slow_groups} == {not evaluations}
    slow = analysis.verdicts[0]
    assert (slow.code, slow.first_step, slow.steps) == ("slow_steps_normal", 0, (500, 1000))
    assert (slow.confidence, slow.saves) == (("sure", "always") if evaluations else ("likely", "perhaps"))


def test_evaluations_that_the_log_leaves_out_are_part_of_the_time_to_come(explain) -> None:
    left = explain(example_logs.QUOTED, max_iters=3000).eta

    assert (left.evals_left, left.evaluations) == (4, "known")
    assert left.expected_s == pytest.approx(2000 * 0.168 + 4 * 5.69, rel=0.02)


def test_slow_steps_at_the_multiples_of_one_number_are_evaluations_even_where_only_training_lines_are_kept(
    explain, nanogpt_log
) -> None:
    kept = [line for line in nanogpt_log().splitlines() if line.startswith("iter")]
    analysis = explain("\n".join(kept))

    assert sorted(causes(analysis)) == list(range(0, 2001, 250))
    assert all("evaluation" in why for why in causes(analysis).values())
    assert all(group.inferred for group in analysis.slow_groups)


@pytest.mark.parametrize("slow", [(340, 680), (130, 570), (500, 1000)])
def test_slow_steps_that_are_not_at_all_multiples_of_one_number_are_no_evaluations(explain, nanogpt_log, slow) -> None:
    analysis = explain(nanogpt_log(eval_every=None, startup_s=0, step_s=lambda step: 4.0 if step in slow else 0.1))

    assert causes(analysis) == dict.fromkeys(slow, ("stall",))


@pytest.mark.parametrize(
    "text",
    [
        "step 2000: train loss 1.7648, val loss 1.8857\niter 2000: loss 1.6982, time 1505.00ms, mfu 0.01%",
        "step 500: train loss..., val loss...\niter 500: loss..., time 5985ms",
        "iter 0: loss 10.9100, time 49000.00ms, mfu -100.00%",
    ],
)
def test_a_step_with_an_evaluation_is_never_a_normal_step(explain, text) -> None:
    analysis = explain(text, max_iters=5000)

    assert analysis.timing is None
    assert analysis.no_normal_step is not None
    assert (analysis.slow_steps, analysis.advice) == ((), ())
    assert analysis.eta.reason == "no_normal_step"
    document = run_json(analysis)
    assert (document["step_time_s"], document["throughput_tok_s"], document["remaining_s"]) == (None, None, None)


def test_a_line_without_an_evaluation_is_the_normal_step_beside_one_that_has_it(explain) -> None:
    analysis = explain(example_logs.LAPTOP_END)

    assert analysis.timing.typical_s == pytest.approx(0.1175, abs=0.002)
    assert analysis.no_normal_step is None


def test_slow_steps_are_called_normal_first_only_where_learning_has_no_verdict(explain, nanogpt_log) -> None:
    short, long = explain(example_logs.LAPTOP_END), explain(nanogpt_log())

    assert [verdict.code for verdict in short.verdicts] == ["slow_steps_normal", "too_short"]
    assert "slow_steps_normal" not in {verdict.code for verdict in long.verdicts}


def test_a_save_that_is_announced_after_the_slow_line_is_its_cause(explain) -> None:
    log = "".join(
        f"step {i}/2000 loss {4 - i / 500:.4f} {0.5 + (i % 7) / 500 + 5 * (i % 100 == 0):.3f}s\n"
        + (f"Saved checkpoint to ckpt/step_{i}\n" if i % 100 == 0 else "")
        for i in range(1, 420)
    )

    (group,) = explain(log).slow_groups

    assert (group.causes, group.count, group.period_steps) == (("checkpoint",), 4, 100)
