"""Numbers found by meaning: each line of the table, and what only looks like it."""

import math

import pytest

from nanoscope.runs.fields import meaning_after, number, read_fields, timestamp_s

LINES = {
    "step 5/200 loss 2.5": {"step": 5, "loss": 2.5},
    "Global Step: 1,000 | Train Loss: 2.5": {"step": 1000, "loss": 2.5},
    "epoch=3 train_loss=2.5 val_loss=2.75": {"epoch": 3, "loss": 2.5, "val_loss": 2.75},
    "'eval_loss': '2.75', 'learning_rate': '3e-4'": {"val_loss": 2.75, "lr": 3e-4},
    "val bpb: 1.25": {"val_bpb": 1.25},
    "lr 1e-3 | grad_norm 0.5": {"lr": 1e-3, "grad_norm": 0.5},
    "dt: 250.00ms": {"time_s": 0.25},
    "time per iteration (ms): 250": {"time_s": 0.25},
    "250 ms/step": {"time_s": 0.25},
    "4.0 it/s": {"steps_s": 4.0},
    "elapsed: 2.5 min": {"elapsed_s": 150.0},
    "val time: 1.5 s": {"eval_s": 1.5},
    "32k tok/s": {"tok_s": 32_000},
    "tokens per second: 1.5M": {"tok_s": 1_500_000},
    "mfu: 41.2%": {"mfu_pct": 41.2},
    "loss nan, val loss inf": {"loss": math.inf, "val_loss": math.inf},
    "grad_norm: nan": {"grad_norm": math.inf},
    "loss scale: 65536.0": {"loss_scale": 65536},
    "eta: 1 day, 2:03:04": {"eta_s": 93784},
    "time left: 3.5 hours": {"eta_s": 12600},
    "ETA 1h02m": {"eta_s": 3720},
    "data_time: 0.01, time: 0.5": {"data_s": 0.01, "bare_time": 0.5},
    "4.32 s run, 11.87 loss, 0.001 LR": {"time_s": 4.32, "loss": 11.87, "lr": 0.001},
    "eval: train loss 3.1, val loss 3.2": {"loss": 3.1, "val_loss": 3.2},
    "sps=28.1 tps=1.5e6 tps_per_gpu=2e5": {"tok_s": 1.5e6, "tok_s_each": 2e5},
    "box_loss: 0.4, cls_loss: 0.5, loss: 2.5": {"loss": 2.5},
    "Peak mem 8.5 GB": {"memory_gb": 8.5},
    "max mem: 2648": {"memory_gb": 2.648},
    "| 32.2% bf16 MFU | 1200 tok/s": {"mfu_pct": 32.2, "tok_s": 1200},
    '"loss": null, "elapsed_time": "0:01:40"': {"elapsed_s": 100},
}


@pytest.mark.parametrize("line", LINES)
def test_a_value_is_found_in_its_base_unit(line) -> None:
    assert read_fields(line).values == pytest.approx(LINES[line])


@pytest.mark.parametrize(
    "line",
    [
        "best loss 2.1",
        "aux_loss=0.01",
        "page 5",
        "loss: 100%",
        "10:15:30 started",
    ],
)
def test_a_number_that_only_looks_like_a_value_is_left_out(line) -> None:
    assert read_fields(line).values == {}


def test_the_number_behind_a_slash_is_the_total() -> None:
    assert read_fields("step 5/200").total == 200
    assert read_fields("epoch 1/3").total is None
    assert read_fields("epoch 1/3").totals == {"epoch": 3}
    assert read_fields("Epoch [1][50/200]").pair == (50, 200)


def test_the_first_value_of_a_name_counts() -> None:
    assert read_fields("loss 2.5 (mean loss 2.7)").values == {"loss": 2.5}


def test_a_printed_loss_is_a_number_infinite_or_missing() -> None:
    assert number("1,234.5") == 1234.5
    assert number("nan") == number("-inf") == math.inf
    assert math.isnan(number("n/a"))


def test_a_timestamp_counts_seconds_across_midnight() -> None:
    before, after = timestamp_s("2031-01-01 23:59:58,500 step 1"), timestamp_s("[2031-01-02 00:00:01] step 2")
    assert before is not None
    assert after is not None
    assert after - before == pytest.approx(2.5)
    assert timestamp_s("2031-13-01 10:00:00") is None


def test_of_a_log_with_more_names_than_any_trainer_has_only_some_are_looked_up(read) -> None:
    before = meaning_after.cache_info().misses
    lines = (
        f"step {step} loss {3 - step * 1e-4:.4f} " + " ".join(f"strange{step}x{i}q={i}" for i in range(100))
        for step in range(3000)
    )

    (run,) = read("\n".join(lines)).runs

    assert len(run.steps) == 3000
    assert meaning_after.cache_info().misses - before < 150_000  # of 300,000
