"""Logs that a reader line by line gets wrong: each with the mistake that it invites."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoscope.findings.analyse import analyse
from nanoscope.runs.reader import read_lines


def lines_of(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), start=1))


def test_a_bar_that_loads_weights_is_no_training(read) -> None:
    text = "".join(f"Loading weights: {i}%|#   | {i}/1188 [00:{i:02d}<00:21, 56.2it/s]\n" for i in (10, 30, 59))
    text += "Loading weights: 100%|####| 1188/1188 [00:21<00:00, 56.2it/s]\n"
    for i in range(5, 60, 5):
        text += f"  1%|1  | {i}/903 [00:{i:02d}<15:00,  1.00s/it]\n{{'loss': {3 - i / 50:.3f}, 'learning_rate': 2e-4, 'epoch': {i / 301:.3f}}}\n"  # noqa: E501
        text += f"  1%|1  | {i}/903 [00:{i:02d}<15:00,  1.00s/it]\n"
    (run,) = read(text).runs
    assert (run.first_step, run.last_step, run.total_steps) == (5, 55, 903)
    assert [t for t in run.steps.time_s if t == t][1:] == pytest.approx([1.0] * 10)
    assert not run.said_finished


def test_a_bar_that_only_loads_makes_no_run(read) -> None:
    assert (
        read("".join(f"Loading weights: {i}%|#| {i}/100 [00:{i:02d}<00:21, 56.2it/s]\n" for i in range(9))).runs == []
    )


def test_dicts_that_come_late_get_their_steps_from_their_epochs(read) -> None:
    text = "  Num Epochs = 3\n  Total optimization steps = 300\n"
    text += "".join(f" 10%|# | {i}/300 [00:{i // 2:02d}<02:00, 2.00it/s]\n" for i in range(10, 110, 10))
    text += "".join(
        f"{{'loss': {3 - i / 100:.3f}, 'learning_rate': 2e-4, 'epoch': {i / 100:.2f}}}\n" for i in range(10, 110, 10)
    )
    (run,) = read(text).runs
    assert list(run.steps.step) == list(range(10, 110, 10))
    assert run.total_steps == 300


def test_an_epoch_and_a_batch_are_one_count(read) -> None:
    text = "".join(
        f"Epoch [{e}/4], Batch [{b}/50], Loss: {4 - e / 2 - b / 100:.3f}, Time: 0.2s\n"
        for e in (1, 2)
        for b in range(10, 60, 10)
    )
    (run,) = read(text).runs
    assert list(run.steps.step) == [*range(10, 60, 10), *range(60, 110, 10)]
    assert (run.total_steps, run.unit, run.duplicates_dropped) == (200, "step", 0)


def test_elapsed_time_that_restarts_with_the_epoch_is_a_clock(read) -> None:
    text = "".join(
        f"epoch {e} - iter {b}/50 - loss {3 - e / 2 - b / 100:.3f} - elapsed: {b * 0.5:.1f}s\n"
        for e in (1, 2)
        for b in range(10, 60, 10)
    )
    (run,) = read(text).runs
    assert [t for t in run.steps.time_s if t == t] == pytest.approx([0.5] * 8)


def test_minutes_left_in_the_epoch_are_no_step_time(read) -> None:
    text = "".join(
        f"Epoch:[1/2]({s}/38895) loss:{8 - s / 900:.3f} lr:0.0005 epoch_Time:{(38895 - s) * 7.2 // 60}min:\n"
        for s in range(100, 1000, 100)
    )
    (run,) = read(text).runs
    assert run.total_steps == 77790
    assert list(run.steps.time_s) == pytest.approx([7.2] * 9, rel=0.01)


def test_lines_without_a_loss_count_beside_lines_with_one(read) -> None:
    text = (
        "iter 0: loss 4.3, time 12543ms\niter 100: time 168ms\niter 200: time 170ms\niter 500: loss 3.9, time 5985ms\n"
    )
    (run,) = read(text).runs
    assert list(run.steps.step) == [0, 100, 200, 500]


def test_a_line_without_a_loss_and_with_a_norm_that_is_nan_is_training(read) -> None:
    text = "".join(
        f" iteration {i:8d}/  250000 | consumed samples: {i * 1024} | elapsed time per iteration (ms): 126995.3 | grad norm: nan |\n"  # noqa: E501
        for i in range(182, 186)
    )
    (run,) = read(text).runs
    assert (run.first_step, run.last_step, run.total_steps) == (182, 185, 250000)
    assert all(math.isinf(norm) for norm in run.steps.grad_norm)


def test_a_sentence_around_the_numbers_is_read(read) -> None:
    (run,) = read("".join(f"Loss at iteration {i} is {3 - i / 500:.3f}\n" for i in range(0, 500, 100))).runs
    assert list(run.steps.step) == [0, 100, 200, 300, 400]


def test_totals_stand_beside_the_counter(read) -> None:
    (run,) = read("".join(f"iter: {i}/500, loss: {3 - i / 500:.3f}\n" for i in range(0, 100, 20))).runs
    assert run.total_steps == 500


def test_the_time_left_tells_how_many_epochs_there_are(read) -> None:
    text = "".join(
        f"2024-01-01 10:00:00,000 - mmdet - INFO - Epoch [1][{b}/200]\tlr: 1e-3, eta: {(800 - b) // 2 // 60}:{(800 - b) // 2 % 60:02d}, time: 0.500, "  # noqa: E501
        f"data_time: 0.010, memory: 3800, loss: {3 - b / 100:.4f}\n"
        for b in range(10, 110, 10)
    )
    (run,) = read(text).runs
    assert run.total_steps == 800


def test_times_that_the_clock_contradicts_are_a_doubt(read) -> None:
    text = "".join(
        f"2031-01-01 10:{s // 60:02d}:{s % 60:02d} step {s}: loss {4 - s / 100:.3f}, time {7.5 + s % 3}s\n"
        for s in range(1, 90)
    )
    (run,) = read(text).runs
    (doubt,) = run.doubts
    assert doubt.name == "step_time_s"
    assert not any(t == t for t in run.steps.time_s)


def test_milliseconds_without_a_unit_are_known_by_the_clock(read) -> None:
    text = "".join(
        f"2031-01-01 10:{s // 60:02d}:{s % 60:02d} step {s}: loss {4 - s / 100:.3f}, time {1000.0 + s % 3}\n"
        for s in range(1, 90)
    )
    (run,) = read(text).runs
    assert run.steps.time_s[5] == pytest.approx(1.0, rel=0.01)


def test_evaluations_keep_their_own_steps(read) -> None:
    text = ""
    for s in range(10, 110, 10):
        text += f"step {s} loss {4 - s / 100:.3f} time 0.1s\n"
        if s % 50 == 0:
            text += f"step {s - 10} val_loss {4.1 - s / 100:.3f}\n"
    (run,) = read(text).runs
    assert [e.step for e in run.evals] == [40, 90]


def test_sizes_of_datasets_are_no_training(read) -> None:
    assert (
        read("train: 100000 examples\nval: 5000 examples\nfound train 4208518 and val 4908443 documents\n").runs == []
    )


def stamped(second: float) -> str:
    return f"2031-01-01 {int(second) // 3600 + 10:02d}:{int(second) // 60 % 60:02d}:{int(second) % 60:02d}"


def test_of_several_times_the_one_next_to_the_clock_is_the_steps(read) -> None:
    text = "".join(
        f"{stamped(s * 50)},000 INFO: epoch 1 batch {50 * s}: iter_time=1.6e-04, forward_time=0.2, loss={9 - s / 10}, train_time=1.0{s % 3}\n"  # noqa: E501
        for s in range(1, 12)
    )
    (run,) = read(text).runs
    assert run.steps.time_s[5] == pytest.approx(1.0, rel=0.03)


def test_two_long_intervals_are_enough_to_doubt_a_time(read) -> None:
    text = "".join(f"{stamped(s * 305)} INFO: step {682 * s}: loss={9 - s}, step_time=1.79\n" for s in range(1, 4))
    (run,) = read(text).runs
    assert [doubt.name for doubt in run.doubts] == ["step_time_s"]


def test_a_time_that_begins_anew_with_each_epoch_is_a_clock(read) -> None:
    text = "".join(
        f"epoch {e} batch {b} loss {4 - e - b / 900:.3f} time {b * 0.2:.1f}\n"
        for e in (0, 1)
        for b in range(0, 500, 50)
    )
    (run,) = read(text).runs
    assert [t for t in run.steps.time_s if t == t] == pytest.approx([0.2] * 18)


def test_a_time_left_tells_the_time_of_a_step_where_nothing_else_does(read) -> None:
    text = "".join(
        f"Epoch {e}/3, Step {b}/500, Loss: {4 - e / 2 - b / 900:.3f}, ETA: 0:{left // 60:02d}:{left % 60:02d}\n"
        for e in (1, 2)
        for b in range(100, 501, 100)
        if (left := (1500 - (e - 1) * 500 - b) // 5)
    )
    (run,) = read(text).runs
    assert list(run.steps.time_s) == pytest.approx([0.2] * 10)


def test_a_time_in_thousands_is_one(read) -> None:
    text = "".join(
        f"iteration: {s} / 900 | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | lm_loss: 2.{s}\n"
        for s in range(10, 20)
    )
    (run,) = read(text).runs
    assert list(run.steps.time_s) == pytest.approx([11.5] * 10)
    assert list(run.steps.tok_s) == pytest.approx([22_800] * 10)


def test_numbers_of_lines_are_no_steps(read) -> None:
    text = ""
    for s in range(10, 40, 10):
        text += f"[{500 + s // 5 - 1}]  1%|1  | {s}/1752 [00:{s}<40:00,  1.00s/it]\n"
        text += f"[{500 + s // 5}] {{'loss': {4 - s / 10}, 'learning_rate': 2e-06, 'epoch': 0.0{s}}}\n"
    (run,) = read(text).runs
    assert list(run.steps.step) == [10, 20, 30]
    assert run.total_steps == 1752


def test_ordinals_count_and_a_loss_may_stand_below(read) -> None:
    text = "".join(f"current step: {s}th step\nbatch loss:{4 - s / 10:.4f}\n" for s in range(4, 14))
    (run,) = read(text).runs
    assert list(run.steps.step) == list(range(4, 14))
    assert run.steps.loss[0] == pytest.approx(3.6)


def test_carriage_returns_that_were_spelled_out_are_some(read) -> None:
    text = "".join(
        f"^M  1%|1  | {s}/903 [00:{s // 2:02d}<15:00,  2.00it/s]^M     ^M{{'loss': {3 - s / 50:.3f}, 'learning_rate': 2e-4, 'epoch': {s / 301:.3f}}}\n"  # noqa: E501
        for s in range(1, 20)
    )
    (run,) = read(text).runs
    assert list(run.steps.step) == list(range(1, 20))
    assert run.steps.time_s[9] == pytest.approx(0.5)


def test_lines_that_were_printed_twice_do_not_stop_a_clock(read) -> None:
    lines = [f"step:{s}/900 train_loss:{9 - s / 10:.3f} train_time:{200 * s}ms step_avg:200ms\n" for s in range(1, 12)]
    (run,) = read("".join(line + line for line in lines)).runs
    assert list(run.steps.step) == list(range(1, 12))
    assert run.steps.time_s[5] == pytest.approx(0.2)


def test_a_last_line_that_was_cut_before_its_loss_is_none(read) -> None:
    text = "".join(f"completed step: {s}, seconds: 2.164, loss: 2.{s}\n" for s in range(10, 20))
    (run,) = read(text + "completed step: 20, seconds: 2.1").runs
    assert run.last_step == 19


def test_mfu_without_a_percent_sign_below_1_is_a_share(read) -> None:
    (run,) = read("".join(f'{{"iter": {s}, "loss": 7.{s}, "dt_ms": 780.1, "mfu": 0.0246}}\n' for s in range(10))).runs
    assert list(run.steps.mfu_pct) == pytest.approx([2.46] * 10)


def test_the_batches_of_an_epoch_are_not_the_total_of_the_run(read) -> None:
    (run,) = read("".join(f"epoch 1 - iter {s}/249 - loss 0.{500 - s}\n" for s in range(0, 249, 24))).runs
    assert run.last_step == 240
    assert run.total_steps is None


def test_a_setting_that_a_step_is_above_is_no_total(read) -> None:
    (run,) = read("iters: 6\n" + "".join(f"iter {s}: loss 3.{s}, time 9.0ms\n" for s in range(10, 90, 10))).runs
    assert "max_iters" not in run.config


def test_a_bar_in_its_first_epoch_shows_batches(read) -> None:
    text = "".join(
        f"  {s}/102 [..............................] - ETA: {90 - s} - loss: 0.{700 - s} - accuracy: 0.5938\n"
        for s in range(1, 14)
    )
    (run,) = read(text).runs
    assert list(run.steps.step) == list(range(1, 14))


WORDS = ["iter ", "step ", "epoch ", "loss ", "val loss: ", "time ", "ms", "%|", "/", " [", "] ", "(", ")", "nan", "1e9", "12:34:56 ",  # noqa: E501
         "0.5", "7", "1,234", "{'loss': ", "}", "|", ",", "\t", "\n", "\n", "…", "±", "it/s", "saving checkpoint", "Error: "]  # fmt: skip  # noqa: E501


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=80).map("".join) | st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    read_lines(lines_of(text), "-")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 59), st.booleans())
def test_a_log_in_pieces_is_the_log(cut: int, evaluates: bool) -> None:
    """Lines do not depend on how they were handed over."""
    lines = [
        f"step {s} loss {4 - s / 100:.3f} time 0.1s"
        + (f" val_loss {4.1 - s / 100:.3f}" if evaluates and s % 10 == 0 else "")
        for s in range(60)
    ]
    whole = read_lines(iter(enumerate(lines, start=1)), "-")
    from itertools import chain

    pieces = read_lines(chain(enumerate(lines[:cut], start=1), enumerate(lines[cut:], start=cut + 1)), "-")
    assert [list(run.steps.loss) for run in whole.runs] == [list(run.steps.loss) for run in pieces.runs]


def test_a_log_with_very_many_makes_of_lines_is_read_in_linear_time(read) -> None:
    import time

    def seconds(count: int) -> float:
        text = "".join(
            f"word{'x' * (i % 50)}{i % 977} value{i % 501} {i} other {i / 7:.3f} loss\n" for i in range(count)
        )
        begun = time.process_time()
        read(text)
        return time.process_time() - begun

    seconds(500)
    assert seconds(8000) < 20 * seconds(1000) + 0.5


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"step {'9' * 40}{n}: loss {'9' * 36}{n} {'9' * 60}\n" for n in range(12)) * 3,
        "epoch 1/9 | loss 2.5 | tokens 1e999\nepoch 2/9 | loss 2.4 | tokens 2e999\n" * 4,
        "".join(f"epoch: {n}99999999999999999999, loss: {3 - n / 10}\n" for n in range(9)),
    ],
)
def test_numbers_that_no_trainer_prints_do_not_stop_the_reader(read, text: str) -> None:
    assert read(text).lines == text.count("\n")


def test_steps_that_get_slower_line_by_line_with_a_few_stalls_are_no_clock(read) -> None:
    times = [5000 if i % 20 == 7 else 100 + i for i in range(100)]
    (run,) = read("".join(f"iter {i}: loss {4 - i / 100:.4f}, time {t}.00ms\n" for i, t in enumerate(times))).runs
    assert list(run.steps.time_s) == pytest.approx([t / 1000 for t in times])


def test_regular_slow_lines_count_as_often_as_they_come(read) -> None:
    """A line every 10 steps, 2 s more every 250: of 1,000 steps at 0.1 s that are left, four take longer."""
    lines = [
        f"iter {s}: loss {4 - s / 9999:.4f}, time {2100 if s % 250 == 0 else 100}.00ms\n" for s in range(0, 4001, 10)
    ]
    log = read("max_iters = 5000\n" + "".join(lines))
    assert analyse(log.runs[0], log=log).eta.expected_s == pytest.approx(100 + 4 * 2, rel=0.05)


def test_evaluations_that_only_the_clock_of_the_lines_shows_count_in_what_is_left(read) -> None:
    text, now = "", 0.0
    for epoch in range(1, 6):
        for batch in range(10, 101, 10):
            now += 10.0
            text += f"{stamped(now)} - INFO - Epoch: [{epoch}/10][{batch}/100] loss: {5 - epoch / 3 - batch / 999:.4f} time: 1.0{batch % 3}\n"  # noqa: E501
        text += f"{stamped(now)} - INFO - Start inference on 500 samples\n"
        now += 50.0
        text += f"{stamped(now)} - INFO - Epoch {epoch} val_loss: {5.2 - epoch / 3:.4f}\n"
    log = read(text)
    (run,) = log.runs
    assert (run.total_steps, [e.step for e in run.evals]) == (1000, [100, 200, 300, 400, 500])
    assert analyse(run, log=log).eta.expected_s == pytest.approx(5 * (100 + 50), rel=0.12)


def test_a_collective_that_timed_out_ends_the_run(read) -> None:
    text = "".join(f"step: {s}  loss: {4 - s / 99:.3f}  grad_norm: 1.1  tps: 900  mfu: 3.00%\n" for s in range(1, 20))
    text += "[rank3]:[E ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE) ran for 600029 milliseconds before timing out.\n"  # noqa: E501
    log = read(text)
    assert [(error.kind, error.line) for error in log.errors] == [("exception", 20)]
    assert log.runs[0].failed


def test_a_norm_that_is_nan_and_a_loss_of_exactly_0_are_kept_as_they_are(read) -> None:
    line = "{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 2e-05, 'epoch': 0.{s:02d}}}\n 1%|# | {s}/99 [00:{s:02d}<01:00, 1.00s/it]\n"  # noqa: E501
    (run,) = read("".join(line.format(loss=2.1 if s < 5 else 0.0, norm="nan", s=s) for s in range(1, 12))).runs
    assert list(run.steps.loss) == [2.1] * 4 + [0.0] * 7
    assert not any(map(math.isfinite, run.steps.grad_norm))


def test_a_loss_that_is_glued_to_the_next_text_is_read(read) -> None:
    lines = [f"iter {s}: loss {4 - s / 99:.4f}, time 100.00ms, mfu 3.00%\n" for s in range(1, 12)]
    lines[5] = (
        lines[5].rstrip("\n")
        + "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2031-01-01T10:00:00 DUE TO TIME LIMIT ***\n"
    )
    log = read("".join(lines[:6]))
    assert log.runs[0].last_step == 6
    assert [error.kind for error in log.errors] == ["killed"]


def test_perplexities_of_validation_are_its_losses(read) -> None:
    text = "".join(
        f"epoch {e} | step {100 * e} | train loss {4 - e / 9:.3f}\nvalid ppl: {math.exp(4.1 - e / 9):.4f}\n"
        for e in range(1, 8)
    )  # fmt: skip
    (run,) = read(text).runs
    assert [e.val for e in run.evals] == pytest.approx([4.1 - e / 9 for e in range(1, 8)], abs=1e-4)


def test_bits_per_byte_are_no_loss_in_nats(read) -> None:
    (run,) = read(
        "".join(f"step {s} | loss {3 - s / 99:.3f}\nval_bpb: {1.2 - s / 999:.4f}\n" for s in range(1, 9))
    ).runs
    assert {e.metric for e in run.evals} == {"bpb"}


def test_a_checkpoint_is_of_the_step_before_it(read) -> None:
    text = "".join(
        f"step {s}: loss {4 - s / 99:.3f}\n" + ("model saved\n" if s % 20 == 0 else "") for s in range(5, 65, 5)
    )
    assert [saved.step for saved in read(text).runs[0].checkpoints] == [20, 40, 60]


def test_a_line_that_says_finished_is_contradicted_by_the_counter(read) -> None:
    lines = "".join(f"step {s}/1000: loss {4 - s / 999:.3f}, time 0.1s\n" for s in range(0, 401, 10))
    (run,) = read(lines + "Training finished.\n").runs
    assert not run.said_finished
    refused = [(doubt.name, why) for doubt in run.doubts for _, why in doubt.refused]
    assert refused == [("finished", "the counter is not at the total")]
    (run,) = read(lines.replace("/1000", "/400") + "Training finished.\n").runs
    assert run.said_finished
    assert not run.doubts


def test_an_epoch_that_is_done_is_not_the_end(read) -> None:
    text = "".join(
        f"epoch {e} batch {b}/50 loss {4 - e - b / 99:.3f}\n" + ("Training done for this epoch\n" if b == 50 else "")
        for e in (1, 2, 3) for b in range(10, 51, 10)
    )  # fmt: skip
    (run,) = read(text + "epoch 4 batch 10/50 loss 0.5\n").runs
    assert not run.said_finished


def test_tokens_per_second_tell_the_time_of_a_step(read) -> None:
    text = "tokens per step: 32,768\n" + "".join(f"step {s} | loss {4 - s / 99:.3f} | 37.5k tok/s\n" for s in range(9))
    assert list(read(text).runs[0].steps.time_s) == pytest.approx([0.8738] * 9, rel=1e-3)


def test_how_many_were_right_is_no_counter_of_evaluations(read) -> None:
    text = "".join(
        "".join(f"Train Epoch: {e} [{b * 64}/60000 ({b * 64 // 600}%)]\tLoss: {2.3 - e / 3 - b / 3000:.6f}\n" for b in range(0, 900, 100))  # noqa: E501
        + f"\nTest set: Average loss: {2.2 - e / 3:.4f}, Accuracy: 9{e}12/10000 (9{e}%)\n\n"
        for e in (1, 2, 3)
    )  # fmt: skip
    (run,) = read(text).runs
    assert [e.val for e in run.evals] == pytest.approx([2.2 - e / 3 for e in (1, 2, 3)], abs=1e-4)
    assert run.total_steps is None
    assert all(e.step > 20000 for e in run.evals)


def test_seconds_since_1970_are_a_clock(read) -> None:
    text = "".join(
        f'{{"step": {10 * i}, "train/loss": {9 - i / 20}, "time": {1700000000 + 8.1 * i:.2f}}}\n' for i in range(1, 20)
    )
    assert list(read(text).runs[0].steps.time_s)[1:] == pytest.approx([0.81] * 18, rel=1e-3)


def test_losses_and_times_are_known_in_chinese(read) -> None:
    (run,) = read(
        "".join(f"步 {s}/500 损失: {4 - s / 500:.4f} 学习率: 1e-4 耗时: 0.31s\n" for s in range(50, 501, 50))
    ).runs
    assert (run.first_step, run.last_step, run.total_steps) == (50, 500, 500)
    assert list(run.steps.loss)[:1] == pytest.approx([3.9])
    assert list(run.steps.time_s) == pytest.approx([0.31] * 10)
