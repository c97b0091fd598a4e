"""What a run says before its first step, and what it warns of."""

from typing import Literal

import numpy as np
import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.hardware.device import DeviceConfig
from nanoscope.model import ModelConfig, build_model
from nanoscope.runs.events import Forecast
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.forecast import warnings
from nanoscope.training.machine import Machine
from nanoscope.training.memory import Memory
from small_runs import Folder

GB = 10**9


def warned(
    *, batch_size: int = 12, micro_batches: int = 40, seconds: float = 0.01, epochs: float = 0.01,
    gigabytes: float = 0.1, available: float = 16, days: float = 1, step: int = 0,
) -> list[str]:  # fmt: skip
    """The warnings about a run. `seconds` and `gigabytes` are those of one sequence."""
    config = TrainConfig(batch_size=batch_size, gradient_accumulation_steps=micro_batches)
    expected = Forecast(
        step=step,
        epochs_per_step=epochs,
        memory_available=int(available * GB),
        seconds=days * 86400,
        step_seconds=config.sequences_per_step * seconds,
    )
    return list(map(str, warnings(config, expected, Memory(2 * GB, int(gigabytes * GB)), batch_size)))


def test_a_healthy_run_is_not_warned_of() -> None:
    assert warned() == []


def test_an_iteration_of_an_hour_over_and_over_the_same_text_is_warned_of_with_settings_that_help_both() -> None:
    (warning,) = warned(seconds=7.5, epochs=11.5)
    assert warning == (
        "an iteration takes about 1h00m and reads the training split 11.5 times; "
        "use --batch_size=4 --gradient_accumulation_steps=1"
    )


def test_more_than_one_epoch_per_iteration_is_warned_of_alone() -> None:
    (warning,) = warned(epochs=3.0)
    assert "reads the training split 3 times; use --batch_size=12 --gradient_accumulation_steps=2" in warning


def test_too_little_memory_is_warned_of_with_a_smaller_batch_and_the_same_tokens_per_iteration() -> None:
    (warning,) = warned(gigabytes=1.3)
    assert "training needs about 17.6 of the 16.0 GB of memory" in warning
    assert "--batch_size=8 --gradient_accumulation_steps=60" in warning


def test_where_even_one_sequence_is_too_much_only_a_smaller_model_helps() -> None:
    for found in (warned(gigabytes=20), warned(seconds=400, days=900)):
        assert len(found) == 1
        assert "use a smaller model, such as --n_layer=6" in found[0]


def test_a_run_of_more_than_a_month_is_warned_of_with_the_iterations_of_a_day() -> None:
    (warning,) = warned(days=50, seconds=0.1, step=1000)
    assert warning == "the run takes about 50d00h; use --max_iters=2800 to end after about 24h00m"


def small_engine(recipe: Literal["modern", "classic"], n_embd: int = 16) -> Engine:
    config = TrainConfig(n_layer=2, n_head=2, n_embd=n_embd, block_size=8, batch_size=4, recipe=recipe)
    shape = ModelConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=n_embd, recipe=recipe)
    return Engine(config, build_model(shape), Machine(DeviceConfig("cpu", "a CPU", "float32", False, ""), Processes()))


def small_evaluator(engine: Engine) -> Evaluator:
    class Ones:
        def __len__(self) -> int:
            return 1000

        def read(self, start: int, count: int) -> np.ndarray:
            return np.ones(count, dtype=np.int64)

    splits = {"train": Ones(), "val": Ones()}
    return Evaluator(
        splits, block_size=8, windows=30, vocab_size=11, machine=engine.machine,  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_memory_of_a_sequence_is_that_of_the_tensors_that_its_backward_pass_needs() -> None:
    logits = 2 * 4 * 8 * 11  # and their gradients
    narrow, wide = (small_engine("classic", width).warm_up().memory.each - logits for width in (16, 32))
    one_each = 2 * 8 * 16 * 4  # one tensor of 8 tokens × 16 numbers × 4 bytes in each of two layers
    assert 5 * one_each < narrow < 40 * one_each
    assert 1.5 < wide / narrow < 2  # all but the logits grow


def test_a_run_says_what_it_is_in_for_before_its_first_iteration_and_once(folder: Folder) -> None:
    out = folder.train("--log_interval=5")
    kinds = [event["event"] for event in folder.events()]
    assert kinds.index("forecast") < kinds.index("iter")
    assert kinds.count("forecast") == 1
    (event,) = folder.events(kind="forecast")
    (start,) = folder.events(kind="start")
    assert event["steps"] == 20
    assert event["epochs_per_step"] == pytest.approx(64 / start["train_tokens"], rel=1e-4)  # type: ignore[operator]
    assert event["seconds_low"] < event["seconds"] < event["seconds_high"]  # type: ignore[operator]
    assert 0 < event["memory_bytes"] < event["memory_available"]  # type: ignore[operator]
    assert "expected: 20 iterations of about " in out
    assert "warning" not in out


def test_the_first_line_of_a_run_already_counts_the_evaluations_and_checkpoints_to_come(folder: Folder) -> None:
    folder.train("--eval_interval=8", "--eval_iters=20")
    (forecast,) = folder.events(kind="forecast")
    first = folder.events(kind="iter")[0]
    evaluation, checkpoint = (forecast[f"{kind}_seconds"] for kind in ("eval", "checkpoint"))
    assert min(evaluation, checkpoint) > 0  # type: ignore[type-var]
    extras = 3 * evaluation + 3 * checkpoint  # at 8, 16 and the end  # type: ignore[operator]
    assert first["eta_seconds"] >= 0.999 * (19 * first["seconds"] + extras)  # type: ignore[operator]


def test_a_run_that_reads_its_text_more_than_once_per_iteration_is_told_so(folder: Folder) -> None:
    out = folder.train("--gradient_accumulation_steps=250", "--max_iters=1")
    assert "reads the training split 1." in out
    assert "; use --batch_size=4 --gradient_accumulation_steps=" in out


def test_where_nothing_is_trained_nothing_is_expected_warmed_up_or_compiled(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Engine, "warm_up")
    monkeypatch.delattr(torch, "compile")
    out = folder.train("--compile=True", "--eval_only=True")
    assert "expected: " not in out
    assert folder.events(kind="end")[-1]["reason"] == "eval_only"
    assert folder.events(kind="start")[0]["compiled"] is False
