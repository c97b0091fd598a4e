"""Which settings are tried, and which never."""

from dataclasses import replace

import pytest

from made_up_rigs import FACTS
from nanoscope.config_sources import presets, resolve
from nanoscope.hardware.probe import ProbeResult
from nanoscope.planning.tuning_candidates import Candidates, Facts, Length, candidates, possible_micro_batches, split

WORKS = ProbeResult("", {}, 0.5)


def found(
    *words: str, fixed: str = "", probed: ProbeResult | None = WORKS, eval_seconds: float = 5.0, facts: Facts = FACTS
) -> Candidates:
    return candidates(
        resolve(words).config, facts, fixed.split(), 0.1, eval_seconds, logical_cores=4,
        memory_bytes=8_000_000_000, sixteen_bits=probed,
    )  # fmt: skip


def tried(candidates: Candidates, key: str) -> list[object]:
    return [settings[key] for direction in candidates.directions for settings in direction.steps if key in settings]


def reason(candidates: Candidates, key: str) -> str:
    (skipped,) = [each for each in candidates.skipped if key in each.settings]
    return str(skipped.reason)


@pytest.mark.parametrize("preset", presets())
def test_every_split_trains_the_same_sequences_and_evaluates_the_same_windows(preset: str) -> None:
    config = resolve([preset]).config
    sizes = possible_micro_batches(config)
    assert config.batch_size in sizes
    for size in sizes:
        other = replace(config, **split(config, size))
        assert other.sequences_per_step == config.sequences_per_step
        if config.eval_iters != "full":
            assert other.eval_iters * other.batch_size == config.eval_iters * config.batch_size


def test_a_split_that_would_change_the_windows_of_an_evaluation_is_no_candidate() -> None:
    config = resolve(["laptop", "--batch_size=6", "--gradient_accumulation_steps=4", "--eval_iters=3"]).config
    assert possible_micro_batches(config) == [1, 2, 3, 6]  # 18 windows: not 4, 8, 12 or 24 at a time


def test_with_full_evaluations_any_split_is_possible_and_eval_iters_stays() -> None:
    config = resolve(["laptop", "--batch_size=6", "--gradient_accumulation_steps=4", "--eval_iters=full"]).config
    assert possible_micro_batches(config) == [1, 2, 3, 4, 6, 8, 12, 24]
    assert split(config, 8) == {"batch_size": 8, "gradient_accumulation_steps": 3}


def test_micro_batches_are_tried_in_both_directions_in_steps_worth_a_trial() -> None:
    assert tried(found("laptop"), "batch_size") == [8, 4, 2, 1]
    assert tried(found("gpt2-124m"), "batch_size") == [6, 3, 1, 20, 32, 60, 96, 160, 480]


def test_a_micro_batch_that_would_leave_less_than_a_tenth_of_the_memory_is_not_tried() -> None:
    candidates = found("gpt2-124m", "--gradient_accumulation_steps=100", "--eval_iters=full")
    largest = max(size for size in tried(candidates, "batch_size") if isinstance(size, int))
    assert FACTS.memory_bytes + (largest - 12) * FACTS.sequence_bytes <= 7_200_000_000
    assert "less than a tenth of the memory" in reason(candidates, "batch_size")


@pytest.mark.parametrize(
    ("probed", "expected"),
    [
        (ProbeResult("it crashes the process: SIGILL", {}, None), "it does not work on this CPU: it crashes"),
        (ProbeResult("", {}, 3.24), "a matmul takes 3.2 times as long as in float32 on this CPU"),
    ],
)  # fmt: skip
def test_16_bits_are_skipped_where_the_probe_says_so(probed: ProbeResult, expected: str) -> None:
    candidates = found("laptop", probed=probed)
    assert not tried(candidates, "dtype")
    assert expected in reason(candidates, "dtype")


def test_16_bits_are_tried_where_they_are_native() -> None:
    assert tried(found("laptop"), "dtype") == ["bfloat16"]


def test_float32_is_tried_where_16_bits_are_the_default() -> None:
    assert tried(found("laptop", facts=replace(FACTS, dtype="bfloat16")), "dtype") == ["float32"]


def test_compiling_is_not_tried_for_a_run_that_is_too_short_to_repay_it() -> None:
    assert reason(found("quick"), "compile") == "too few iterations to repay compiling"
    assert tried(found("laptop", "--max_iters=5000"), "compile") == [True]


def test_the_batch_of_evaluations_is_tried_where_they_take_a_share_of_the_run_that_matters() -> None:
    assert tried(found("laptop"), "eval_batch_size") == [64, 128, 16, 8]
    assert "evaluations take 0.1% of the run" in reason(found("laptop", eval_seconds=0.01), "eval_batch_size")


def test_threads_are_tried_on_a_cpu_unless_typed() -> None:
    assert tried(found("laptop"), "threads") == [2, 1]
    assert not tried(found("laptop", fixed="threads"), "threads")


@pytest.mark.parametrize(
    ("words", "evaluations"), [(["laptop"], 5), (["laptop", "--max_iters=550"], 6), (["laptop-classic"], 9)]
)
def test_the_evaluations_of_a_run_are_counted_as_the_trainer_does_them(words: list[str], evaluations: int) -> None:
    assert Length.of(resolve(words).config).evaluations == evaluations
