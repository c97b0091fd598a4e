"""An event's console line, read back, is the event as far as its digits go."""

import re
from dataclasses import replace
from pathlib import PurePath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoscope.ladder import Ladder
from nanoscope.runs import events as e
from nanoscope.runs.console import ENDINGS, SHOWN_SETTINGS, SLOW_CAUSES, console_lines, read_console_line

FOLDER = "runs/my run"
steps = st.integers(0, 10**9)
losses = st.floats(0, 1000, allow_nan=False)
seconds = st.floats(1e-4, 1e5)
durations = st.floats(0, 10**7)
names = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x3000, exclude_characters="'\"\\"), min_size=1, max_size=20
)


def maybe(strategy):
    return st.none() | strategy


def read_back(event: e.AnyEvent) -> e.AnyEvent:
    """What all the console lines of the event say together."""
    found = [read for line in console_lines(event, FOLDER) if (read := read_console_line(line)) is not None]
    assert {type(read) for read in found} == {type(event)}
    values = {}
    for read in found:
        values |= {f: v for f in read.__struct_fields__ if (v := getattr(read, f)) not in (None, {}, "")}
    return msgspec.structs.replace(found[0], **values)


def agree(event: e.AnyEvent, exactly: tuple[str, ...], **within: float) -> None:
    """`within` gives the error that each printed field may have."""
    read = read_back(event)
    for field in exactly:
        assert getattr(read, field) == getattr(event, field), field
    for field, error in within.items():
        wanted = getattr(event, field)
        assert getattr(read, field) == (None if wanted is None else pytest.approx(wanted, abs=error)), field


@given(
    st.builds(
        e.Iter, step=steps, loss=maybe(losses), seconds=maybe(seconds), mfu=maybe(st.floats(0, 3)),
        tokens_per_second=maybe(st.floats(0, 1e12)), eta_seconds=maybe(durations),
    )
)  # fmt: skip
def test_an_iteration(event: e.Iter) -> None:
    agree(event, ("step",), loss=6e-5, seconds=6e-6, mfu=6e-5)
    read = read_back(event)
    if event.tokens_per_second is not None:
        assert read.tokens_per_second == pytest.approx(event.tokens_per_second, rel=6e-3, abs=0.6)
    if event.eta_seconds is not None:
        assert read.eta_seconds == pytest.approx(event.eta_seconds, rel=0.03, abs=0.6)


@pytest.mark.parametrize("loss", [1e30, 3.4e38, 1e308])
def test_a_loss_beyond_all_bounds_is_not_finite(loss: float) -> None:
    event = e.Iter(step=3, loss=loss, seconds=0.1, mfu=0.4, tokens_per_second=800.0, eta_seconds=5.0)
    assert read_back(event).loss is None
    assert e.decode(e.encode(event)).loss is None


@given(
    st.builds(
        e.Eval, step=steps, train_loss=maybe(losses), val_loss=maybe(losses), val_stderr=maybe(st.floats(0, 10)),
        seconds=maybe(seconds),
    )
)  # fmt: skip
def test_an_evaluation_with_or_without_its_standard_error(event: e.Eval) -> None:
    agree(event, ("step",), train_loss=6e-5, val_loss=6e-5, val_stderr=6e-5, seconds=6e-3)


@given(steps, maybe(st.floats(0, 1e4)))
def test_a_checkpoint(step: int, waited: float | None) -> None:
    agree(e.Checkpoint(step=step, path=f"checkpoints/step-{step:06d}", seconds=waited), ("step",), seconds=6e-3)


@given(st.sampled_from(list(ENDINGS)), steps, durations, st.sampled_from(["SIGINT", "SIGTERM", None]), maybe(losses))
def test_an_end_whatever_its_reason(reason, step, wall, signal, best) -> None:
    phases = {"startup": wall / 4, "step": wall / 2, "eval": wall / 4}
    signal = signal if reason == "interrupted" else None
    event = e.End(
        reason=reason, step=step, wall_seconds=wall, phases=phases, signal=signal, best_val_loss=best, best_step=step
    )
    agree(event, ("reason", "step", "signal"))
    read = read_back(event)
    assert read.wall_seconds == pytest.approx(wall, rel=0.03, abs=0.6)
    for phase, spent in read.phases.items():
        assert spent == pytest.approx(phases[phase], rel=0.05, abs=1)


@given(steps, steps, st.floats(1e-3, 1), st.integers(1, 9), st.integers(1, 9))
def test_a_rollback(step, to, factor, count, limit) -> None:
    event = e.Rollback(step=step, to=to, lr_factor=float(f"{factor:g}"), count=count, limit=limit)
    agree(event, ("step", "to", "lr_factor", "count", "limit"))


@given(steps, st.integers(1, 4096), st.integers(1, 4096), losses, losses, st.sampled_from(list(SLOW_CAUSES)), seconds)
def test_what_a_run_notes_about_itself(step, small, large, loss, usual, cause, took) -> None:
    event = e.OutOfMemory(step=step, micro_batch=small, micro_batch_before=large)
    agree(event, ("step", "micro_batch", "micro_batch_before"))
    agree(e.Spike(step=step, loss=loss, usual=usual), ("step",), loss=6e-5, usual=6e-5)
    agree(
        e.SlowStep(step=step, seconds=took, usual=took / 20, cause=cause), ("step", "cause"), seconds=6e-3, usual=6e-5
    )
    agree(e.Asleep(step=step, seconds=took), ("step",), seconds=max(1800, 0.03 * took))
    agree(e.CheckpointFailed(step=step, message="No space left on device (x)"), ("step", "message"))
    agree(e.CheckpointSaved(step=step), ("step",))
    agree(e.NonFinite(step=step), ("step",))
    agree(e.Resume(step=step, changed={"dropout": (0.0, 0.1), "dataset": ("a, b", "(c)")}), ("step",))
    agree(e.Sample(step=step, path="samples/step-000001.txt", beginning="ROMEO:\n'tis (all"), ("step",))


@given(
    st.integers(0, 10**9), st.integers(0, 99), durations, st.floats(1e-5, 1e5), maybe(st.floats(1e-6, 1e5)),
    maybe(st.integers(0, 10**13)),
)  # fmt: skip
def test_a_forecast(steps, measured, total, each, epochs, memory) -> None:
    event = e.Forecast(
        steps=steps, measured=measured, seconds=total, seconds_low=total / 2, seconds_high=total * 2, step_seconds=each,
        epochs=epochs, epochs_per_step=epochs, memory_bytes=memory, memory_available=memory,
    )  # fmt: skip
    agree(event, ("steps", "measured"), memory_bytes=6e7, memory_available=6e7)
    read = read_back(event)
    assert read.step_seconds == pytest.approx(each, rel=0.03)
    for field in ("seconds", "seconds_low", "seconds_high"):
        assert getattr(read, field) == pytest.approx(getattr(event, field), rel=0.03, abs=0.6)
    assert read.epochs == (None if epochs is None else pytest.approx(epochs, rel=6e-3))


@given(st.sampled_from(["note", "warning"]), names)
def test_a_note(level, text) -> None:
    agree(e.Note(text=text, level=level), ("text", "level"))


@given(names, names, st.integers(1, 10**12), st.integers(0, 10**9), st.integers(1, 10**6))
def test_a_start_with_all_that_analysis_asks_of_it(name, dataset, tokens, count, vocabulary) -> None:
    event = e.Start(
        nanoscope="0.1.0", run=PurePath(FOLDER).name, device="cuda:1", dtype="bfloat16",
        device_name="NVIDIA A100, 2 of them", peak_flops=3.12e14, peak_source="table",
        device_reasons="cuda:1 (a GPU is there), bfloat16 (fast), compiled (pays)",
        data_folder="data/x, y", tokenizer="char", train_tokens=tokens, val_tokens=count, vocab_size=vocabulary,
        parameters=count, tokens_per_step=tokens,
        config={"max_iters": count, "dataset": dataset, "learning_rate": "auto", "dropout": 0.1, "eval_iters": "full"},
    )  # fmt: skip
    exactly = ("nanoscope", "run", "device", "dtype", "device_name", "device_reasons", "peak_source", "data_folder")
    agree(
        event, (*exactly, "tokenizer", "train_tokens", "val_tokens", "vocab_size", "tokens_per_step"), parameters=5001
    )
    config = read_back(event).config
    assert config["max_iters"] == count
    assert str(config["dataset"]) == dataset
    assert (config["learning_rate"], config["dropout"], config["eval_iters"]) == ("auto", 0.1, "full")


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=32), st.floats(0.001, 1), st.booleans())
def test_the_ladder_of_a_start(losses: list[float], stderr: float, sampled: bool) -> None:
    ladder = Ladder("byte", 5.5452, losses, train_tokens=10**6, val_tokens=99, sampled=sampled, stderr=stderr)
    read = read_back(e.Start(nanoscope="0.1.0", run=PurePath(FOLDER).name, ladder=ladder)).ladder
    assert replace(read, losses=[], stderr=0.0) == replace(ladder, losses=[], stderr=0.0)
    assert [*read.losses, read.stderr] == pytest.approx([*losses, stderr], abs=6e-5)


def test_the_settings_that_are_shown_are_settings() -> None:
    from nanoscope.config import KEYS

    assert set(SHOWN_SETTINGS) <= set(KEYS)


def test_every_kind_of_event_has_a_line() -> None:
    kinds = e.AnyEvent.__args__
    step_only = {"step": 3, "loss": 1.0, "val_loss": 1.0, "message": "m", "to": 1, "micro_batch": 1, "usual": 1.0}
    step_only |= {"micro_batch_before": 2, "seconds": 1.0, "text": "t", "reason": "finished"}
    for kind in kinds:
        event = kind(**{f: v for f, v in step_only.items() if f in kind.__struct_fields__})
        assert console_lines(event, "runs/x"), kind


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("finished 60 iterations in 1m12s (step 77%, eval 14%)", "finished"),
        ("evaluated, nothing trained in 3s (eval 60%)", "eval_only"),
        ("stopped at iteration 60: no better val loss in 3 evaluations in 1m12s (step 77%)", "patience"),
        ("stopped at iteration 60: max_minutes=1.5 is over in 1m30s (step 77%)", "max_minutes"),
        ("stopped at iteration 60 by SIGTERM in 1m12s (step 77%)", "interrupted"),
    ],
)
def test_endings_of_earlier_versions_are_read(line: str, reason: str) -> None:
    read = read_console_line(line)
    assert isinstance(read, e.End)
    assert read.reason == reason


@pytest.mark.parametrize(
    "line",
    [
        "iter 500: loss 1.6958, time 23.10ms, mfu 41.20%",
        "step 500: train loss 1.7648, val loss 1.8857",
        "Traceback (most recent call last):",
        "",
    ],
)
def test_lines_of_others_are_not_ours(line: str) -> None:
    assert read_console_line(line) is None


@pytest.mark.slow
@given(st.text(max_size=300))
def test_no_line_breaks_the_reader(line: str) -> None:
    read_console_line(line)
    for prefix in ("iter 1: loss ", "settings: ", "stopped at iteration 1: ", "note: ", "data: x, "):
        read_console_line(prefix + re.sub(r"\s", " ", line))
