# ruff: noqa: E501 (a log line is as long as it is)
"""Shapes of lines that are easily misread: what counts as a step, whose loss it is, what a time covers."""

import pytest


def test_a_loss_that_is_named_after_its_step_is_no_step(read) -> None:
    log = "".join(
        f"Epoch 0:  {i}%|###   | {i}/100 [00:{i // 2:02d}<00:30,  2.00it/s, v_num=1, train_loss_step={4 - i / 50:.3f}, train_loss_epoch=3.9]\n"
        for i in range(10, 100, 10)
    )

    (run,) = read(log).runs

    assert list(run.steps.loss) == pytest.approx([4 - i / 50 for i in range(10, 100, 10)])


def test_a_name_behind_a_number_is_not_its_unit(read) -> None:
    log = "".join(f"step={i} loss 3.1{i} norm 1.3{i} tok/s {5000 + i} ms 51.{i}\n" for i in range(8))

    (run,) = read(log).runs

    assert list(run.steps.tok_s) == [5000.0 + i for i in range(8)]
    assert list(run.steps.grad_norm) == pytest.approx([1.3 + i / 100 for i in range(8)])


def test_an_evaluation_that_prints_its_progress_counts_once_with_its_last_mean(read) -> None:
    log = ""
    for epoch in range(2):
        for batch in (1, 11, 21):
            log += f"Epoch: [{epoch}][{batch:4d}/30]\tTime  0.310 ( 0.500)\tLoss {6 - epoch - batch / 100:.4e} (6.0000e+00)\n"
        for batch in (0, 10, 19):
            log += f"Test: [{batch:2d}/20]\tTime  0.1 ( 0.1)\tLoss 9.0000e+00 ({5 - epoch + batch / 100:.4e})\n"

    (run,) = read(log).runs

    assert [(each.step, each.val) for each in run.evals] == [(21, pytest.approx(5.19)), (51, pytest.approx(4.19))]
    assert len(run.steps) == 6


def test_the_heading_of_a_test_says_whose_loss_follows(read) -> None:
    log = ""
    for epoch in (1, 2):
        log += f"Epoch {epoch}\n-------\n"
        log += "".join(f"loss: {3 - epoch + i / 1000:f}  [{i:>5d}/ 6000]\n" for i in (64, 3264))
        log += f"Test Error: \n Accuracy: 40.1%, Avg loss: {2.5 - epoch:f} \n\n"

    (run,) = read(log).runs

    assert [each.val for each in run.evals] == pytest.approx([1.5, 0.5])


@pytest.mark.parametrize(
    ("line", "step", "total"),
    [
        ("[0/25][50/1583] Loss_D: {loss} Loss_G: 3.1 D(x): 0.6", 50, 25 * 1583),
        ("INFO Train: [0/300][50/1251]\teta 1:12:13 lr 0.000001\ttime 0.34 (0.51)\tloss {loss} (6.9)", 50, 300 * 1251),
        ("03/14 10:01:05 - mmengine - INFO - Iter(train) [ 510/2046]  lr: 1.7e-04  eta: 1:25:37  time: 2.95  loss: {loss}", 510, 2046),
        ("03/14/2024 10:01:05 - INFO - main - step 510/2046 loss {loss}", 510, 2046),
    ],
)  # fmt: skip
def test_the_position_is_found(read, line, step, total) -> None:
    (run,) = read(2 * (line.format(loss="2.5") + "\n")).runs

    assert list(run.steps.step) == [step]
    assert list(run.steps.loss) == [2.5]
    assert run.total_steps == total


def test_epoch_and_batch_in_one_pair_of_brackets(read) -> None:
    log = (
        "".join(f"[{e}, {b:5d}] loss: {3 - e - b / 10000:.3f}\n" for e in (1, 2) for b in (2000, 4000))
        + "Finished Training\n"
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == [2000, 4000, 6000, 8000]
    assert run.said_finished


def test_seconds_in_brackets_behind_the_step_cover_all_steps_since_the_last_line(read) -> None:
    log = "INFO:tensorflow:loss = 9.1, step = 0\n"
    log += "".join(f"INFO:tensorflow:loss = {9 - i / 200}, step = {i} (50.000 sec)\n" for i in range(100, 600, 100))

    (run,) = read(log).runs

    assert [each for each in run.steps.time_s if each == each] == pytest.approx([0.5] * 4)


def test_a_printed_eta_is_no_timestamp(read) -> None:
    log = "".join(
        f"Epoch: 1/5 | Batch: {i}/100 | Loss: {3 - i / 100} | ETA: 00:1{9 - i // 10}:10\n" for i in range(0, 90, 10)
    )

    (run,) = read(log).runs

    assert not any(each == each for each in run.steps.time_s)


def test_dict_lines_that_are_all_equally_long_are_not_joined_with_the_bars_below(read) -> None:
    log = "".join(
        f"{{'loss': {2 - i / 100:.4f}, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'memory/max_active(gib)': 12.1, 'epoch': 0.{i:02d}}}\n  1%|#    | {i}/200 [00:{3 * i:02d}<10:00, 3.01s/it]\n"
        for i in range(1, 15)
    )

    found = read(log)

    assert found.format == "hf-trainer"
    assert list(found.runs[0].steps.loss) == pytest.approx([2 - i / 100 for i in range(1, 15)])


def test_the_summary_numbers_the_steps_of_logs_that_show_none(read) -> None:
    log = "".join(f"{{'loss': {3 - i / 10:.4f}, 'learning_rate': 1e-05, 'epoch': {i / 4}}}\n" for i in range(1, 9))
    log += "{'train_runtime': 400.0, 'train_samples_per_second': 16.0, 'train_steps_per_second': 2.0, 'train_loss': 2.5, 'epoch': 2.0}\n"

    (run,) = read(log).runs

    assert list(run.steps.step) == [100 * i for i in range(1, 9)]
    assert run.total_steps == 800
    assert run.steps.time_s[-1] == pytest.approx(0.5)


def test_dict_lines_are_timed_by_the_stamps_of_their_logger(read) -> None:
    log = "".join(
        f"[INFO|callbacks.py:310] 2024-05-01 10:00:{5 * i:02d},120 >> {{'loss': {3 - i / 10:.4f}, 'learning_rate': 1e-05, 'epoch': 0.{i}}}\n"
        for i in range(1, 9)
    )

    (run,) = read(log).runs

    assert list(run.steps.time_s)[1:] == pytest.approx([5.0] * 7)


def test_a_bar_that_was_there_before_the_first_epoch_shows_the_whole_run(read) -> None:
    log = "steps:   0%|     | 0/2000 [00:00<?, ?it/s]\nepoch 1/10\n"
    log += "".join(
        f"steps:   1%|     | {i}/2000 [00:{i:02d}<33:00,  1.00it/s, avr_loss=0.1{i}]\n" for i in range(1, 20)
    )

    (run,) = read(log).runs

    assert run.total_steps == 2000


def test_a_bar_that_fills_again_and_again_shows_epochs(read) -> None:
    log = "".join(
        f"{i}%|####| {i}/100 [00:{i // 2:02d}<00:10,  2.00it/s, loss={3 - e / 2 - i / 250:.3f}]\n"
        for e in range(3)
        for i in range(20, 101, 20)
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == list(range(20, 301, 20))
    assert run.total_steps is None


@pytest.mark.parametrize(
    "bar", ["100%|██████████| 16/16 [00:05<00:00,  2.78it/s]", "100% ━━━━━━━━━━━━ 16/16 2.8it/s 5.0s"]
)
def test_ultralytics_prints_an_epoch_in_the_heading_of_a_bar(read, bar) -> None:
    log = "".join(
        f"      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n     {e}/40      3.87G       1.{90 - e}      0.712      1.189         17        640: {bar}\n"
        f"                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): {bar}\n                   all        128        929          0          0          0          0\n"
        for e in range(12, 18)
    )

    (run,) = read(log).runs

    assert run.unit == "epoch"
    assert list(run.steps.step) == list(range(12, 18))
    assert run.total_steps == 40
    assert list(run.steps.time_s) == pytest.approx([5.0] * 6)


def test_batches_named_before_a_bar_are_counted_instead_of_its_updates(read) -> None:
    log = "".join(
        f"Training Epoch: 1/3, step {i}/36 completed (loss: {2 - i / 100}):  33%|###   | {i // 4}/9 [0{i * 16 // 60}:{i * 16 % 60:02d}<06:31, 65.28s/it]\n"
        for i in range(1, 20)
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == list(range(1, 20))
    assert run.total_steps == 108


def test_a_bar_without_its_drawing_is_a_bar(read) -> None:
    log = "".join(f"Iteration:  19% {i}/5070 [00:{i // 100:02d}<03:03, 22.37it/s]\n" for i in range(900, 1000, 10))

    (run,) = read(log).runs

    assert run.total_steps == 5070
    assert run.last_step == 990


def test_a_record_with_very_many_losses_is_read_to_its_end(read) -> None:
    parts = "  ".join(f"loss_part_aux_{k}: 1.3422 (1.3422)" for k in range(80))
    log = "".join(
        f"Epoch: [0]  [{b}/5000]  eta: 1 day, 20:54:44  loss: 6{b % 7}.1 (63.1)  {parts}  time: 3.2  data: 0.1\n"
        for b in range(0, 500, 100)
    )

    (run,) = read(log).runs

    assert list(run.steps.time_s) == [3.2] * 5


def test_columns_called_train_and_val_are_losses(read) -> None:
    log = "  step |  train |   val | lr | time\n" + "".join(
        f"{i:6d} | {3 - i / 100:.4f} | {3.1 - i / 100:.4f} | 3.1e-4 | 0.5s\n" for i in range(1, 9)
    )

    (run,) = read(log).runs

    assert len(run.steps) == 8
    assert [each.val for each in run.evals] == pytest.approx([3.1 - i / 100 for i in range(1, 9)])


def test_ms_swift_prints_position_and_total_in_one_value(read) -> None:
    log = "".join(
        f"{{'loss': {2 - i / 100:.4f}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'memory(GiB)': 20.1, 'epoch': 0.{i:02d}, 'global_step/max_steps': '{5 * i}/400', 'percentage': '1.25%', 'elapsed_time': '{i // 3}m {i % 3 * 20}s', 'remaining_time': '25m 10s'}}\n"
        for i in range(1, 12)
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == [5 * i for i in range(1, 12)]
    assert run.total_steps == 400
    assert list(run.steps.time_s)[1:] == pytest.approx([4.0] * 10)


def test_a_heading_in_brackets_may_stand_behind_the_name_of_a_logger(read) -> None:
    log = "".join(
        f"2024-01-01 10:00:{i:02d}.123\thost:0\ttrain:932\tINFO\t[step={i}/7000,epoch=0]\n    optim/total_grad_norm=1.2\n    train/CrossEntropyLoss={9 - i / 10:.3f}\n"
        for i in range(1, 9)
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == list(range(1, 9))
    assert run.total_steps == 7000


def test_train_and_val_alone_are_losses_where_both_stand(read) -> None:
    log = "".join(f"[ {i}.0%] step {i} train {3 - i / 10:.4f} val {3.1 - i / 10:.4f}\n" for i in range(1, 9))

    (run,) = read(log).runs

    assert list(run.steps.loss) == pytest.approx([3 - i / 10 for i in range(1, 9)])


def test_espnet_counts_batches_of_an_epoch(read) -> None:
    log = "".join(
        f"[host] 2021-05-01 10:00:{b // 10:02d},123 (trainer:668) INFO: {e}epoch:train:{b - 49}-{b}batch: iter_time=0.012, forward_time=0.123, loss_ctc=120.1, loss={150 - e - b / 10:.3f}, train_time=0.6\n"
        for e in (1, 2) for b in (50, 100)
    )  # fmt: skip

    (run,) = read(log).runs

    assert list(run.steps.step) == [50, 100, 150, 200]
    assert list(run.steps.time_s) == [0.6] * 4


def test_composer_prints_a_block_for_each_batch(read) -> None:
    log = "".join(
        f"[batch={i}0/4800]:\n\t Train time/batch: {i * 10 - 1}\n\t Train time/token: {i * 5242880}\n"
        f"\t Train loss/train/total: {11 - i / 10:.4f}\n\t Train throughput/tokens_per_sec: 274210.1\n"
        for i in range(1, 9)
    )

    (run,) = read(log).runs

    assert list(run.steps.step) == list(range(10, 90, 10))
    assert list(run.steps.loss) == pytest.approx([11 - i / 10 for i in range(1, 9)])
    assert run.total_steps == 4800


def test_a_clock_of_whole_seconds_stands_still_between_fast_steps(read) -> None:
    log = "".join(
        f"Training ━━━━ {i}/500 • 0:00:{i // 2:02d} • 0:04:{59 - i // 2} loss: {4 - i / 50:.3f}\n"
        for i in range(1, 100)
    )

    (run,) = read(log).runs

    assert run.time_source == "cumulative"
    assert {time for time in run.steps.time_s[2:] if time == time} == {0.5}


def test_times_in_whole_seconds_differ_by_the_ticks_of_their_clock(read) -> None:
    log = "".join(
        f"Epoch {e}/10\n1875/1875 [====] - {3 + e % 2}s 2ms/step - loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f}\n"
        for e in range(1, 9)
    )

    (run,) = read(log).runs

    assert run.clock_resolution_s == 1.0


def test_wandb_keeps_clocks_of_its_own(read) -> None:
    log = "".join(
        f'{{"_step": {i}0, "train/loss": {3 - i / 10:.3f}, "_timestamp": {1.7e9 + 4.1 * i:.2f}, "_runtime": {4.1 * i:.2f}}}\n'
        for i in range(1, 9)
    )

    (run,) = read(log).runs

    assert list(run.steps.time_s)[1:] == pytest.approx([0.41] * 7)


def test_a_sample_that_reads_like_a_log_is_no_training(read) -> None:
    log = "".join(
        f"step={i}0 loss={4 - i / 50:.3f}\n" + ("generated: 'step 5 loss 9.9 was bad'\n" if i % 9 == 0 else "")
        for i in range(1, 90)
    )

    (run,) = read(log).runs

    assert len(run.steps) == 89


def test_the_end_of_a_line_that_was_cut_off_hides_no_losses(read) -> None:
    log = "0.8677 - val_loss: 1.0001 - val_accuracy: 0.8513\n" + "".join(
        f"Epoch {e}/30\n50/50 [====] - 61{e % 9}s 12s/step - loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f}\n"
        for e in range(11, 15)
    )

    (run,) = read(log).runs

    assert [each.val for each in run.evals] == pytest.approx([2.0, 1.9, 1.8, 1.7])


def test_a_step_with_a_unit_is_the_time_of_one(read) -> None:
    log = "".join(f"step {i}0/500 | loss {9 - i / 10:.4f} | step 81{i}.1 ms 10087.3 tok/s\n" for i in range(1, 8))

    (run,) = read(log).runs

    assert list(run.steps.step) == list(range(10, 80, 10))
    assert list(run.steps.time_s) == pytest.approx([0.8101 + i / 1000 for i in range(1, 8)])
