# ruff: noqa: E501 (a log line is as long as it is)
"""The lines that each trainer prints; all of them are made up for these tests."""

import math

import pytest


def series(template: str, steps: range) -> str:
    return "\n".join(template.format(s=s, loss=4.0 - s / 500, next=s + 1) for s in steps)


@pytest.mark.parametrize(
    ("template", "format_name", "seconds"),
    [
        ("iter {s}: loss {loss:.4f}, time 210.50ms, mfu 3.10%", "nanogpt", 0.2105),
        ("iter {s}: loss {loss:.4f}, time 210.50ms", "nanogpt", 0.2105),
        ("iter {s}: loss {loss:.4f}, time 210.50 ms, mfu 3.10%, lr 1.00e-03", "nanogpt", 0.2105),
        ("iter {s}: loss {loss:.4f}, lr 2.00e-05, grad_norm 2.5979, time 210.50ms", "nanogpt", 0.2105),
        ("{s} | loss {loss:.4f} | lr 5.000000e-04 | 210.50ms | mfu 3.10%", "nanogpt", 0.2105),
        ("step {s:5d} | loss: {loss:.6f} | lr 8.3e-07 | norm: 1.2 | dt: 210.50ms | tok/sec: 2490.3", "build-nanogpt", 0.2105),
        ("step {s}, loss: {loss:.5f}, dt: 210.50ms, tok/sec: 2490.30", "build-nanogpt", 0.2105),
        ("step {s:05d}/00900 (1.00%) | loss: {loss:.6f} | lrm: 1.00 | dt: 210.50ms | tok/sec: 2,490 | mfu: 3.10 | total time: 0.10m", "nanochat", 0.2105),
        ("[2030-02-03 04:05:06] step {s:06d} | loss {loss:.6f} | lrm 0.5000 | dt_ms 210.5", "nanochat", 0.2105),
        ("step {s:4d}/900 | loss {loss:.6f} (+nanz)| norm 1.02 (+0.4z)| lr 2.4e-04 | 210.50 ms | 3.1% bf16 MFU | 2490 tok/s", "llm.c", 0.2105),
        ("step {s:4d}/900 | train loss {loss:.6f} | norm 1.02 | lr 2.4e-04 | (210.50 ms | 2490 tok/s)", "llm.c", 0.2105),
        ("step {s}: train loss {loss:.6f} (took 210.500000 ms)", "llm.c", 0.2105),
        ("step {s} | loss {loss:.4f} | step time 210.50ms", "makemore", 0.2105),
        ("iter_dt 210.50ms; iter {s}: train loss {loss:.5f}", "mingpt", 0.2105),
        ("Epoch 1 | iter {s} step {s} | loss train: {loss:.3f}, val: n/a | iter time: 210.50 ms (step)", "litgpt", 0.2105),
        ("iter {s} step {s}: loss {loss:.4f}, iter time: 210.50ms (optimizer.step)", "litgpt", 0.2105),
        ("Epoch 0 | iter   {s} step   {s} | loss train: {loss:.3f} | iter time: 0.2105 s", "litgpt", 0.2105),
        ("iter {s}: loss {loss:.4f}, time 210.50ms, mfu 41.20%, tok/s 33.2k, eta 41s", "nanoscope", 0.2105),
        ("[ {s} ] step={s} loss={loss:.4f} time=0.2105s", "generic", 0.2105),
        ("Iter {s}: Train loss {loss:.3f}, Learning Rate 1.000e-05, It/sec 4.7506, Tokens/sec 210.1", "mlx", 0.2105),
        (" iteration {s}/ 900 | elapsed time per iteration (ms): 210.5 | lm loss: {loss:.6E} | loss scale: 1.0 |", "megatron", 0.2105),
        ("completed step: {s}, seconds: 0.2105, TFLOP/s/device: 134.9, loss: {loss:.3f}", "maxtext", 0.2105),
    ],
)  # fmt: skip
def test_a_trainer_is_recognised_and_its_time_is_in_seconds(read, template, format_name, seconds) -> None:
    log = read(series(template, range(100, 130)))

    (run,) = log.runs
    assert log.format == format_name
    assert list(run.steps.step) == list(range(100, 130))
    assert run.steps.loss[0] == pytest.approx(3.8, abs=0.001)
    assert run.steps.time_s[5] == pytest.approx(seconds, rel=1e-3)


def test_an_evaluation_of_build_nanogpt_belongs_to_the_next_step_line(read) -> None:
    step = "step {0:5d} | loss: 9.1 | lr 1e-4 | norm: 1.0 | dt: 400.00ms | tok/sec: 1000.00"
    log = read(
        "\n".join(["validation loss: 9.5", step.format(0), step.format(1), "validation loss: 8.5", step.format(2)])
    )

    assert [(e.step, e.val) for e in log.runs[0].evals] == [(0, 9.5), (2, 8.5)]


def test_the_log_file_of_build_nanogpt_has_losses_but_no_times(read) -> None:
    log = read("0 val 10.5\n0 hella 0.25\n0 train 10.6\n1 train 10.4\n2 train 10.1\n")

    (run,) = log.runs
    assert log.format == "build-nanogpt"
    assert list(run.steps.loss) == [10.6, 10.4, 10.1]
    assert [(e.step, e.val) for e in run.evals] == [(0, 10.5)]
    assert all(math.isnan(t) for t in run.steps.time_s)


def test_an_evaluation_of_llm_c_belongs_to_the_last_step_line(read) -> None:
    line = "step {0:4d}/20 | loss 7.0 (+0.1z)| norm 1.0 (+0.1z)| lr 1e-4 | 100.00 ms | 30.0% bf16 MFU | 900 tok/s"
    log = read("\n".join(["val loss 11.0", *(line.format(s) for s in range(1, 6)), "val loss 6.5", line.format(6)]))

    assert [(e.step, e.val) for e in log.runs[0].evals] == [(0, 11.0), (5, 6.5)]
    assert log.runs[0].total_steps == 20


def test_main_log_of_llm_c_is_read(read) -> None:
    log = read("s:0 tel:10.9\ns:0 trl:11.0 lr:0.000001 norm:15.2\ns:1 trl:10.8 lr:0.000002 norm:14.2\ns:2 tel:10.7\n")

    assert log.format == "llm.c"
    assert list(log.runs[0].steps.loss) == [11.0, 10.8]
    assert [e.step for e in log.runs[0].evals] == [0, 2]


def test_step_times_are_differences_of_a_cumulative_clock_and_missing_after_its_reset(read) -> None:
    clock = [(1, 9000), (2, 9200), (3, 9400), (4, 100), (5, 300), (6, 500)]
    lines = [f"step:{s}/50 train_loss:7.{s} train_time:{ms}ms step_avg:nanms" for s, ms in clock]
    log = read("\n".join([*lines, "step:6/50 val_loss:6.5 train_time:501ms step_avg:83.50ms"]))

    (run,) = log.runs
    assert log.format == "modded-nanogpt"
    times = list(run.steps.time_s)
    assert math.isnan(times[0])
    assert math.isnan(times[3])
    assert [times[i] for i in (1, 2, 4, 5)] == pytest.approx([0.2] * 4)
    assert [(e.step, e.val) for e in run.evals] == [(6, 6.5)]
    assert not any(value == math.inf for value in run.steps.loss)


def test_torchtitan_takes_its_times_from_the_timestamps(read) -> None:
    lines = [
        f"\x1b[36m[titan] 2031-01-01 10:00:{2 * s:02d},500 - root - INFO - \x1b[31mstep: {s:2}  loss:  5.{s}  "
        f"grad_norm:  1.1  memory: 1.0GiB(2.00%)  tps: 8,192  tflops: 1.0  mfu: 2.00%\x1b[39m"
        for s in range(1, 9)
        for _ in range(4)  # four ranks print the same
    ]
    log = read("\n".join(lines))

    (run,) = log.runs
    assert log.format == "torchtitan"
    assert list(run.steps.step) == list(range(1, 9))
    assert list(run.steps.time_s)[1:] == pytest.approx([2.0] * 7)


def test_hugging_face_logs_get_their_steps_from_the_bars(read) -> None:
    text = ""
    for step in range(1, 41):
        bar = f"\r {step * 2}%|##   | {step}/50 [00:{step:02d}<00:10,  1.00s/it]"
        text += bar
        if step % 10 == 0:
            text += (
                f"\n{{'loss': '{3 - step / 100}', 'grad_norm': '0.5', 'learning_rate': '2e-05', 'epoch': '0.5'}}\n{bar}"
            )
        if step == 20:
            text += "\r 50%|#  | 4/8 [00:02<00:02, 2.0it/s]\n{'eval_loss': 2.75, 'eval_runtime': 4.5, 'epoch': 1.0}\n"
    log = read(text + "\n{'train_runtime': 41.0, 'train_steps_per_second': 1.0, 'train_loss': 2.8, 'epoch': 2.0}\n")

    (run,) = log.runs
    assert log.format == "hf-trainer"
    assert list(run.steps.step) == [10, 20, 30, 40]
    assert run.total_steps == 50
    assert run.said_finished
    assert [(e.step, e.val, e.seconds) for e in run.evals] == [(20, 2.75, 4.5)]
    assert run.steps.time_s[1] == pytest.approx(1.0)


def test_a_bar_that_has_moved_on_does_not_shift_the_steps(read) -> None:
    text = ""
    for step in range(1, 41):
        text += f"\r {step}%|##   | {step}/100 [00:{step:02d}<01:00,  1.00s/it]"
        if step % 10 == 0:
            text += f"\n{{'loss': {3 - step / 100}, 'learning_rate': 2e-05, 'epoch': 0.5}}\n"

    assert list(read(text).runs[0].steps.step) == [10, 20, 30, 40]


def test_steps_that_restart_with_every_epoch_become_one_count(read) -> None:
    lines = [f"epoch {e} iter {s}: train loss 2.{e}{s // 10}. lr 6.0e-04" for e in (1, 2) for s in range(0, 100, 10)]

    (run,) = read("\n".join(lines)).runs
    assert list(run.steps.step) == list(range(0, 200, 10))


def test_the_lecture_script_has_evaluations_only(read) -> None:
    log = read(
        "10.788929 M parameters\n" + series("step {s}: train loss {loss:.4f}, val loss 4.1000", range(0, 3000, 500))
    )

    (run,) = log.runs
    assert log.format == "lecture-gpt"
    assert len(run.steps) == 0
    assert [e.step for e in run.evals] == list(range(0, 3000, 500))


def test_checkpoints_between_evaluations_mean_nanogpt_rather_than_the_lecture(read) -> None:
    text = series("step {s}: train loss {loss:.4f}, val loss 4.1000\nsaving checkpoint to out", range(0, 1500, 250))

    assert read(text).format == "nanogpt"


def test_litgpt_repeats_its_validation_loss_without_evaluating_again(read) -> None:
    line = "Epoch 1 | iter {0} step {0} | loss train: 2.100, val: {1} | iter time: 100.00 ms (step)"
    lines = [line.format(s, "n/a") for s in range(1, 10)]
    lines += ["iter 9: val loss 2.2514, val time: 1500.00 ms", *(line.format(s, "2.251") for s in range(10, 30))]

    (run,) = read("\n".join(lines)).runs
    assert [(e.step, e.val, e.seconds) for e in run.evals] == [(9, 2.2514, 1.5)]


def test_lines_with_both_losses_are_evaluations_where_training_has_lines_of_its_own(read) -> None:
    lines = []
    for step in range(0, 600, 10):
        if step % 100 == 0:
            lines.append(f"[eval] step={step} train_loss={4 - step / 500:.3f} val_loss={4.1 - step / 500:.3f}")
        lines.append(f"[train] step={step} loss={4 - step / 500:.3f} dt={0.9 if step % 100 == 0 else 0.1}s")
    (run,) = read("\n".join(lines)).runs

    assert len(run.steps) == 60
    assert run.steps.time_s[0] == 0.9
    assert [e.step for e in run.evals] == list(range(0, 600, 100))


def test_lines_with_both_losses_are_steps_and_evaluations_where_there_are_no_others(read) -> None:
    (run,) = read(
        "\n".join(f"Epoch {e}: train_loss={3 - e / 999:.3f} val_loss={3.1 - e / 999:.3f}" for e in range(1, 20))
    ).runs

    assert len(run.steps) == len(run.evals) == 19


def test_a_time_that_only_rises_is_a_running_clock(read) -> None:
    (run,) = read(
        "\n".join(f"Step {s:5,d} | Loss: {9 - s / 999:.6f} | Time: {0.3 + s * 0.25:.2f}s" for s in range(0, 3000, 10))
    ).runs

    assert run.last_step == 2990
    assert run.time_source == "cumulative"
    assert run.steps.time_s[5] == pytest.approx(0.25)


def test_records_that_a_web_page_joined_into_one_line_are_all_read(read) -> None:
    (run,) = read(" ".join(f"iter {s}: loss 2.1{s}, time 90.00ms, mfu 5.00%" for s in range(100, 160))).runs

    assert list(run.steps.step) == list(range(100, 160))


def test_an_evaluation_with_remarks_in_brackets_is_read(read) -> None:
    text = "".join(
        f"step {s}: train loss 2.5{s} (PPL: 12.8, BPC: 3.68) | val loss 2.6{s} (PPL: 12.9)\nsaved best checkpoint to out\n"
        f"iter {s}: loss 2.5{s}, lr 9e-04, time 900.00ms\n"
        for s in (100, 200, 300)
    )
    (run,) = read(text).runs

    assert [e.val for e in run.evals] == [2.6100, 2.6200, 2.6300]
    assert len(run.checkpoints) == 3


def test_a_table_is_read_by_the_names_of_its_columns(read) -> None:
    log = read("step,train_loss,val_loss,lr\n" + "\n".join(f"{s},2.{s},2.9,0.001" for s in range(100, 110)))

    (run,) = log.runs
    assert list(run.steps.step) == list(range(100, 110))
    assert len(run.evals) == 10


def test_a_loss_that_is_not_a_number_is_stored_as_not_finite(read) -> None:
    (run,) = read("iter 0: loss 4.1, time 9.00ms\niter 1: loss nan, time 9.00ms\niter 2: loss inf, time 9.00ms").runs

    assert list(run.steps.loss) == [4.1, math.inf, math.inf]


def test_a_table_of_settings_is_not_an_evaluation(read) -> None:
    log = read("| val_loss_every        | 250      |\n| val_max_steps         | 20       |\nallocating 237 MiB\n")

    assert log.format == "none"
    assert log.runs == []


def test_events_of_a_nanoscope_run_are_read_and_a_torn_last_line_is_skipped(read) -> None:
    lines = [
        '{"event": "start", "version": 1, "config": {"max_iters": 40}, "tokens_per_step": 768, "vocab_size": 65, "first_step": 0}'
    ]
    lines += [
        f'{{"event": "iter", "step": {s}, "loss": {4 - s / 50}, "seconds": 0.02, "mfu": 0.4, "lr": 0.001}}'
        for s in range(0, 40, 10)
    ]
    lines += [
        '{"event": "eval", "step": 30, "train_loss": 3.4, "val_loss": 3.5, "val_stderr": 0.01, "seconds": 0.4, "best": true}'
    ]
    lines += [
        '{"event": "checkpoint", "step": 30, "path": "checkpoints/step-000030", "seconds": 0.02}',
        '{"event": "iter", "ste',
    ]
    log = read("\n".join(lines))  # fmt: skip

    (run,) = log.runs
    assert log.format == "nanoscope"
    assert list(run.steps.step) == [0, 10, 20, 30]
    assert run.config["max_iters"] == 40
    assert run.evals[0].seconds == 0.4
    assert run.checkpoints[0].seconds == 0.02
    assert run.steps.mfu_pct[0] == pytest.approx(40)


@pytest.mark.parametrize(
    "line",
    [
        "iter {s}: time 168ms",
        "iter {s}: loss..., time 168.00ms",
        "iter {s}: loss ..., time 168 ms",
        "- **iter {s}: … time 168ms, mfu 5.00%**",
    ],
)
def test_a_line_that_is_quoted_without_its_loss_is_still_a_step(read, line) -> None:
    log = read(series(line, range(100, 400, 100)) + "\niter 400: loss 2.1000, time 169.00ms, mfu 5.00%")
    (run,) = log.runs

    assert log.format == "nanogpt"
    assert list(run.steps.step) == [100, 200, 300, 400]
    assert list(run.steps.time_s) == [0.168, 0.168, 0.168, 0.169]
    assert [math.isnan(loss) for loss in run.steps.loss] == [True, True, True, False]


@pytest.mark.parametrize(
    ("line", "format_name"),
    [
        ("iter {s}: time 168ms, nll {loss:.4f}", "generic"),
        ("test iter {s}: time 168ms", "none"),
        ("epoch {s}: time 12s", "none"),
        ("GET /iter/{s}: time 168ms", "none"),
    ],
)
def test_another_programs_line_with_a_time_is_no_step_without_its_loss(read, line, format_name) -> None:
    log = read(series(line, range(0, 200, 10)))

    assert log.format == format_name
    assert all(math.isfinite(loss) for run in log.runs for loss in run.steps.loss)


def test_an_evaluation_that_is_quoted_without_its_losses_is_kept_by_its_step(read) -> None:
    text = (
        "iter 490: time 168ms\nstep 500: train loss..., val loss...\nsaving checkpoint\niter 500: loss..., time 5985ms"
    )
    (run,) = read(text).runs

    assert (run.evaluated_at, run.evals) == ([500], [])
    assert [saved.step for saved in run.checkpoints] == [500]


def test_an_evaluation_in_bold_type_is_read(read) -> None:
    text = "- **iter 4990: loss 0.8212, time 33.23ms, mfu 11.09%**\n- **step 5000: train loss 0.6224, val loss 1.7044**"
    (run,) = read(text).runs

    assert [(e.step, e.train_loss, e.val) for e in run.evals] == [(5000, 0.6224, 1.7044)]
