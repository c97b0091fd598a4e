# ruff: noqa: E501 (a log line is as long as it is)
"""Logs as people paste them when they ask for help, with what answers the question; all numbers are made up."""

import math

import pytest

from nanoscope.findings.analyse import analyse
from nanoscope.words.language import Language


def minimind(left: list[int], batches: int, epochs: int) -> str:
    """Lines that tell how many minutes of the epoch are left."""
    return "".join(
        f"Epoch:[1/{epochs}]({100 * n}/{batches}) loss:{8 - n / 9:.3f} lr:0.000500000000 epoch_Time:{minutes}.0min:\n"
        for n, minutes in enumerate(left, start=1)
    )


def test_minutes_left_that_rise_are_steps_that_get_slower(read) -> None:
    """The mean since the epoch began: what is left grows only if the new steps take longer than all before."""
    spent, left = 0.0, []
    for n in range(1, 21):
        spent += 100 * (1.0 if n <= 5 else 4.0)
        left.append(round(spent / (100 * n) * (40000 - 100 * n) / 60))
    (run,) = read(minimind(left, 40000, 1)).runs

    assert run.total_steps == 40000
    times = [t for t in run.steps.time_s if t == t]
    assert times[1] == pytest.approx(1.0, rel=0.1)
    assert times[-1] > 2 * times[1]


def test_hours_for_an_epoch_are_known_from_the_minutes_left(read) -> None:
    log = read(minimind([(38895 - 100 * n) * 72 // 600 for n in range(1, 12)], 38895, 2))
    analysis = analyse(log.runs[0], log=log)

    assert analysis.timing.typical_s == pytest.approx(7.2, rel=0.02)
    assert analysis.eta.expected_s == pytest.approx((2 * 38895 - 1100) * 7.2, rel=0.05)


SFT = "Step 00000 | Validation bpb: 1.0596\n" + "".join(
    f"step {n:05d} ({n / 15:.2f}%) | loss: {'nan' if n > 3 else 1.8 + n / 5} | lrm: 0.0{n} | dt: {1300 if n == 1 else 82 + n / 10:.2f}ms | tok/sec: 198,125 | mfu: {{mfu}} | epoch: 1 | total time: 0.00m\n"
    for n in range(1, 9)
)


def test_a_loss_that_is_nan_from_the_fourth_step_on(read) -> None:
    log = read(SFT.format(mfu="0.00"))
    (run,) = log.runs

    assert (log.format, run.first_step, run.last_step) == ("nanochat", 1, 8)
    assert [math.isfinite(loss) for loss in run.steps.loss] == [True] * 3 + [False] * 5
    assert run.evals[0].val == pytest.approx(1.0596)


@pytest.mark.parametrize("mfu", ["0.00", "13.44"])
def test_no_device_is_asserted_that_the_lines_do_not_name(read, mfu) -> None:
    log = read(SFT.format(mfu=mfu).replace("nan", "1.9"))
    analysis = analyse(log.runs[0], log=log)

    assert log.runs[0].traits.mfu_assumes is None
    assert "H100" not in repr(analysis.mfu)


def test_a_table_of_experiments_is_no_training(read) -> None:
    table = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n" + "".join(
        f"{n:07x}\t1.{800 - n * 7}\t0.{n}\tkeep\tbatch {n}\n" for n in range(1, 9)
    )
    log = read(table)

    assert log.errors == []
    assert all(len(run.steps) == 0 for run in log.runs)


def test_a_fine_tuning_on_a_mac_that_turns_nan(read) -> None:
    text = "Starting training..., iters: 600\nIter 1: Val loss 2.086, Val took 17.177s\n" + "".join(
        f"Iter {n}: Train loss {'nan' if n > 30 else 2 - n / 99:}, Learning Rate 1.000e-05, It/sec 0.500, Tokens/sec 387.697, Trained Tokens {n * 388}, Peak mem 8.104 GB\n"
        for n in range(10, 70, 10)
    )
    log = read(text)
    (run,) = log.runs

    assert (run.last_step, analyse(run, log=log).progress.total_steps) == (60, 600)
    assert [math.isfinite(loss) for loss in run.steps.loss] == [True] * 3 + [False] * 3
    assert list(run.steps.time_s) == pytest.approx([2.0] * 6)


def test_evaluations_that_take_a_hundred_times_a_step(read) -> None:
    text = "".join(
        (f"Created a dataset with rng seed 42\nstep {n}: train loss {6 - n / 999:.4f}, val loss {6.1 - n / 999:.4f}\nsaving checkpoint to out\n" if n % 100 == 0 else "")
        + f"{n} | loss {6 - n / 999:.4f} | lr 4.9e-05 | {870000 if n % 100 == 0 else 8100}.78ms | mfu 0.21%\n"
        for n in range(410, 660, 10)
    )  # fmt: skip
    log = read(text)
    analysis = analyse(log.runs[0], log=log)

    assert analysis.timing.typical_s == pytest.approx(8.1, rel=0.01)
    assert analysis.evals.cost_s == pytest.approx(861.9, rel=0.01)
    assert [e.step for e in log.runs[0].evals] == [500, 600]


def test_a_low_mfu_between_prose_and_settings(read) -> None:
    text = "the loss falls but the MFU is low\n[...]\n" + "".join(
        f"iter {n}: loss {6 - n / 200:.4f}, time 33{n}.52ms, mfu 0.96%\n" for n in range(340, 400, 10)
    )
    text += "config:\n> batch_size = 4\n> block_size = 512\n> gradient_accumulation_steps = 64* 2\n\nvocab size: 44,902\n> train has 47,316,670 tokens\n"
    (run,) = read(text).runs

    assert (run.first_step, run.last_step) == (340, 390)
    assert list(run.steps.mfu_pct) == pytest.approx([0.96] * 6)


def test_notes_with_lines_of_a_log_between_the_sentences(read) -> None:
    notes = """سجل التدريب بدا غريبا
iter 0: loss 4.2100, time 11840.20ms, mfu -100.00%
iter 10: loss 3.1100, time 161.10ms, mfu 2.10%
لماذا الخطوة التالية أبطأ؟
iter 20: loss 2.9100, time 163.40ms, mfu 2.10%
step 250: train loss 2.1000, val loss 2.2000
iter 250: loss 2.0500, time 5790.70ms, mfu 1.90%
यह समय क्यों बढ़ा?
iter 260: loss 2.0100, time 162.20ms, mfu 1.91%
"""
    log = read(notes)
    analysis = analyse(log.runs[0], log=log)

    assert list(log.runs[0].steps.step) == [0, 10, 20, 250, 260]
    assert analysis.timing.typical_s == pytest.approx(0.1622, rel=0.02)
    assert [step.step for step in analysis.slow_steps] == [0, 250]


BASE = "Total batch size 524,288 => gradient accumulation steps: 64\n" + "".join(
    f"step {n:05d}/21400 (0.{n:02d}%) | loss: {9 - n / 30:.6f} | lrm: 1.00 | dt: 13850.{n}ms | tok/sec: 594 | mfu: 13.44 | total time: {n * 0.23:.2f}m\n"
    for n in range(1, 40)
)


def test_tokens_per_second_that_contradict_the_batch_are_not_repeated(read) -> None:
    log = read(BASE)
    analysis = analyse(log.runs[0], log=log)

    assert log.format == "nanochat"
    assert analysis.timing.throughput_tok_s == pytest.approx(524_288 / 13.85, rel=0.02)


def test_memory_that_runs_out_is_answered_in_the_trainers_own_flags(read) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 23.5 GiB\n"
    log = read(
        "device_batch_size=32\n" + BASE + 'Traceback (most recent call last):\n  File "base_train.py", line 9\n' + error
    )
    analysis = analyse(log.runs[0], log=log)
    (advice, *_) = analysis.advice

    assert [problem.kind for problem in log.errors] == ["out_of_memory"]
    assert "--device-batch-size" in Language("en").render(advice.text(), advice)


def test_validation_between_the_steps_of_torchtitan_is_none_of_them(read) -> None:
    text, now = "", 0
    for n in range(1, 41):
        now += 2
        text += f"[titan] 2031-01-01 10:{now // 60:02d}:{now % 60:02d},500 - root - INFO - step: {n:2}  loss:  {9 - n / 20:.4f}  grad_norm:  1.1  memory: 1.0GiB(2.00%)  tps: 8,192  tflops: 1.0  mfu: 2.00%\n"
        if n % 10 == 0:
            now += 60
            text += f"[titan] 2031-01-01 10:{now // 60:02d}:{now % 60:02d},500 - root - INFO - validate step: {n:2}  loss:  {9.1 - n / 20:.4f}  memory: 1.0GiB(2.00%)  tps: 8,192\n"
    log = read(text)
    (run,) = log.runs

    assert (log.format, len(run.steps), run.last_step) == ("torchtitan", 40, 40)
    assert [(e.step, e.val) for e in run.evals] == [(n, pytest.approx(9.1 - n / 20)) for n in (10, 20, 30, 40)]
    assert analyse(run, log=log).timing.typical_s == pytest.approx(2.0, rel=0.02)


def test_a_first_line_of_llm_c_before_its_z_scores_are_ready(read) -> None:
    text = "val loss 11.0090\n" + "".join(
        f"step {n:4d}/19560 | loss {11 - n / 20:.6f} ({'+nanz' if n < 3 else '+0.31z'})| norm 15.{n:04d} (+nanz)| lr 8.57e-07 | 4174.{n:02d} ms | 48.1% bf16 MFU | 125606 tok/s\n"
        for n in range(1, 30)
    )
    log = read(text)
    analysis = analyse(log.runs[0], log=log)

    assert (log.format, log.runs[0].total_steps, len(log.runs[0].evals)) == ("llm.c", 19560, 1)
    assert all(map(math.isfinite, log.runs[0].steps.loss))
    assert analysis.timing.typical_s == pytest.approx(4.17, rel=0.01)
