"""Where one run ends and another begins."""

import pytest


def lines(
    first: int, last: int, every: int = 10, loss_at=lambda step: 4 - step / 500, seconds: float = 0.1
) -> list[str]:
    return [
        f"iter {s}: loss {loss_at(s):.4f}, time {seconds * 1000:.2f}ms, mfu 5.00%"
        for s in range(first, last + 1, every)
    ]


def steps_of(log) -> list[tuple[int, int, int]]:
    return [(run.first_step, run.last_step, len(run.steps)) for run in log.runs]


def test_a_step_back_to_the_start_is_a_new_run(read) -> None:
    assert steps_of(read("\n".join(lines(0, 300) + lines(0, 200)))) == [(0, 300, 31), (0, 200, 21)]


def test_an_evaluation_before_the_first_step_belongs_to_its_run(read) -> None:
    evaluation = "step {0}: train loss 4.1000, val loss {1:.4f}"
    text = [
        evaluation.format(0, 4.2),
        *lines(0, 100),
        evaluation.format(0, 4.3),
        "saving checkpoint to out",
        *lines(0, 50),
    ]
    log = read("\n".join(text))

    assert [[e.val for e in run.evals] for run in log.runs] == [[4.2], [4.3]]
    assert [len(run.checkpoints) for run in log.runs] == [0, 1]


def test_a_step_back_into_the_run_after_resuming_continues_it(read) -> None:
    text = [*lines(0, 500), "Resuming training from out", "number of parameters: 0.80M", *lines(300, 900)]
    (run,) = read("\n".join(text)).runs

    assert list(run.steps.step) == list(range(0, 901, 10))
    assert run.resumed_at == [300]


def test_a_silent_resume_is_recognised_by_the_same_loss(read) -> None:
    (run,) = read("\n".join(lines(0, 500) + lines(300, 900))).runs

    assert run.resumed_at == [300]


def test_a_step_back_to_a_very_different_loss_is_another_run(read) -> None:
    other = lines(300, 600, loss_at=lambda step: 9.0)

    assert steps_of(read("\n".join(lines(0, 500) + other))) == [(0, 500, 51), (300, 600, 31)]


def test_a_resume_message_before_step_zero_does_not_join_runs(read) -> None:
    log = read("\n".join([*lines(0, 200), "resuming from nothing, starting over", *lines(0, 100)]))

    assert steps_of(log) == [(0, 200, 21), (0, 100, 11)]


def test_two_runs_that_write_to_one_log_are_separated(read) -> None:
    one, two = lines(0, 2000), lines(0, 400, seconds=0.3)
    mixed = one[:120]
    for early, late in zip(one[120:], two, strict=False):
        mixed += [early, late]
    log = read("\n".join(mixed + one[120 + len(two) :]))

    assert steps_of(log) == [(0, 2000, 201), (0, 400, 41)]
    assert set(log.runs[1].steps.time_s) == {0.3}


def test_ranks_that_lag_behind_are_copies(read) -> None:
    ahead, behind = lines(0, 200), lines(0, 200, loss_at=lambda step: 4.01 - step / 500)
    text = [ahead[0]]
    for early, late in zip(ahead[1:], behind, strict=False):
        text += [early, late]

    assert steps_of(read("\n".join(text))) == [(0, 200, 21)]


def test_each_run_of_a_sweep_has_its_own_settings(read) -> None:
    text = []
    for size in (128, 256):
        text += [f"Running: python train.py --max_iters 200 --n_embd={size} --device cuda", *lines(0, 200)]
    log = read("\n".join(text))

    assert [run.config["n_embd"] for run in log.runs] == [128, 256]
    assert [run.config["max_iters"] for run in log.runs] == [200, 200]


def test_a_setting_on_the_command_line_overrides_a_printed_file(read) -> None:
    header = [
        "$ python train.py config/poems.py --max_iters=300",
        "max_iters = 5000 # as in the paper",
        "eval_interval = 250",
    ]
    (run,) = read("\n".join(header + lines(0, 100))).runs

    assert run.config["max_iters"] == 300
    assert run.config["eval_interval"] == 250


def test_a_setting_that_is_commented_out_or_source_code_does_not_count(read) -> None:
    header = [
        "# device = 'cpu'  # on a laptop",
        "device = torch.device('cuda', 0)",
        "batch_size : int = 8*64",
        "n_layer = 6",
    ]
    (run,) = read("\n".join(header + lines(0, 100))).runs

    assert run.config == {"n_layer": 6}


def test_sizes_and_devices_are_taken_from_the_header(read) -> None:
    header = ["found vocab_size = 65", "number of parameters: 10.65M", "tokens per iteration will be: 16,384"]
    header += ["| device | NVIDIA GeForce RTX 4090 |"]
    (run,) = read("\n".join(header + lines(0, 100))).runs

    assert run.config["vocab_size"] == 65
    assert run.config["parameters"] == 10_650_000
    assert run.config["tokens_per_step"] == 16_384
    assert run.config["device_name"] == "NVIDIA GeForce RTX 4090"


USUAL = "iter 100: time 168ms\niter 200: time 170ms\n...\niter 900: time 168ms\n"
SLOW = "iter 0: time 12543ms\niter 500: time 5985ms\niter 1000: time 5726ms\n"
QUOTED_STEPS = [0, 100, 200, 500, 900, 1000]


@pytest.mark.parametrize(
    "text",
    [
        USUAL + SLOW,
        SLOW + USUAL,
        (USUAL + SLOW).replace("...\n", ""),
        f"Most lines look like this:\n\n```\n{USUAL}```\n\nbut some do not:\n\n```\n{SLOW}```\n\nIs that normal?\n",
        f"### أسطر عادية\n\n```\n{USUAL}```\n\nوهذه أبطأ بكثير:\n\n```\n{SLOW}```\n\nلماذا تستغرق iter 0 وقتًا أطول؟\n",
        f"### आम लाइनें\n\n```\n{USUAL}```\n\nऔर ये बहुत धीमी हैं:\n\n```\n{SLOW}```\n\niter 0 इतना धीमा क्यों है?\n",
    ],
    ids=["usual first", "slow first", "without dots", "markdown", "Arabic", "Hindi"],
)
def test_excerpts_that_are_quoted_out_of_order_are_one_run(read, text) -> None:
    (run,) = read(text).runs

    assert list(run.steps.step) == QUOTED_STEPS
    assert list(run.steps.time_s) == [12.543, 0.168, 0.17, 5.985, 0.168, 5.726]
    assert not run.resumed_at


def test_what_is_quoted_twice_counts_once(read) -> None:
    text = USUAL + SLOW + "step 500: train loss..., val loss...\nsaving checkpoint\niter 500: loss..., time 5985ms\n"
    (run,) = read(text + USUAL).runs

    assert list(run.steps.step) == QUOTED_STEPS
    assert run.evaluated_at == [500]
    assert [saved.step for saved in run.checkpoints] == [500]
    assert run.duplicates_dropped == 4


def test_an_excerpt_with_other_losses_is_another_run(read) -> None:
    first, last = lines(100, 120), lines(500, 520)
    other = lines(205, 225, loss_at=lambda step: 9.0)

    assert steps_of(read("\n".join([*first, "...", *last, "...", *other]))) == [(100, 520, 6), (205, 225, 3)]


def test_a_restart_in_an_abridged_log_is_a_new_run(read) -> None:
    tail, again = lines(500, 600), lines(0, 100, seconds=0.2)

    header = "tokens per iteration will be: 16,384"
    assert steps_of(read("\n".join(["...", *tail, header, *again]))) == [(500, 600, 11), (0, 100, 11)]
    assert steps_of(read("\n".join([*lines(0, 100), "...", *tail, *again]))) == [(0, 600, 22), (0, 100, 11)]


def test_a_silent_resume_in_an_abridged_log_is_recognised(read) -> None:
    (run,) = read("\n".join(["...", *lines(0, 500), *lines(300, 900, seconds=0.2)])).runs

    assert run.resumed_at == [300]
    assert list(run.steps.step) == list(range(0, 901, 10))


def test_evaluations_quoted_out_of_order_are_put_in_order(read) -> None:
    evaluation = "step {0}: train loss 4.1000, val loss {1:.4f}"
    text = [*lines(0, 20), "...", evaluation.format(1000, 2.1), *lines(1000, 1020), "...", evaluation.format(500, 2.9)]
    (run,) = read("\n".join(text)).runs

    assert [(e.step, e.val) for e in run.evals] == [(500, 2.9), (1000, 2.1)]


def test_excerpts_with_losses_are_one_run_if_their_steps_lie_between_each_other(read) -> None:
    usual, slow = lines(100, 700, every=300), lines(0, 1000, every=250, seconds=5.0)

    assert steps_of(read("\n".join([*usual, "and these are slow:", *slow]))) == [(0, 1000, 8)]
    assert steps_of(read("\n".join([*usual, "and these are slow:", *lines(0, 50)]))) == [(100, 700, 3), (0, 50, 6)]


def test_a_time_that_is_quoted_rounded_is_the_same(read) -> None:
    text = "iter 500: loss 7.0500, time 5985.31ms\niter 600: time 168ms\niter 1000: time 5726ms\n"
    (run,) = read(text + "iter 100: time 168ms\niter 500: time 5985ms\n").runs

    assert list(run.steps.step) == [100, 500, 600, 1000]
    assert (run.steps.loss[1], run.steps.time_s[1]) == (7.05, 5.98531)
