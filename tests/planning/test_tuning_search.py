"""What tune chooses, from made-up figures with a known truth."""

import random

import pytest

from made_up_rigs import Workshop
from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.errors import JobError
from nanoscope.hardware.probe import ProbeResult
from nanoscope.planning.tuning_result import Tuned
from nanoscope.planning.tuning_search import Tuner

LAPTOP = resolve(["laptop", "--max_iters=5000"]).config
SLOW_MATMULS = ProbeResult("", {}, 3.0)


def tune(workshop: Workshop, config: TrainConfig = LAPTOP, seconds: float = 120.0, fixed: str = "") -> Tuned:
    tuner = Tuner(
        config, workshop.open, seconds=seconds, fixed=fixed.split(), logical_cores=4, probe=lambda: SLOW_MATMULS,
        now=workshop.now,
    )  # fmt: skip
    return tuner.run()


def reasons(tuned: Tuned, key: str) -> list[str]:
    return [str(trial.reason) for trial in tuned.trials if key in trial.settings and trial.reason is not None]


def best_at(key: str, value: object, share: float = 0.15) -> Workshop:
    """A machine that is faster with one value of a setting, and slower with any other change of it."""

    def step(config: TrainConfig) -> float:
        unchanged = getattr(config, key) == getattr(LAPTOP, key)
        return 0.1 * (1 - share if getattr(config, key) == value else 1 if unchanged else 1.1)

    return Workshop(step)


def test_a_setting_that_saves_time_is_found_and_confirmed_with_its_gain() -> None:
    tuned = tune(best_at("threads", 2))
    assert tuned.settings == {"threads": 2}
    assert tuned.confirmed is not None
    assert tuned.confirmed.low < 0.15 < tuned.confirmed.high + 0.01
    assert tuned.tuned is not None
    assert tuned.tuned.run_seconds < tuned.default.run_seconds


def test_changes_of_several_settings_are_combined_and_a_better_direction_is_followed() -> None:
    def step(config: TrainConfig) -> float:
        return 0.1 * {16: 1, 8: 0.9, 4: 0.8, 2: 0.95, 1: 1.2}[config.batch_size] * (0.9 if config.threads == 2 else 1)

    tuned = tune(Workshop(step), seconds=180)
    assert tuned.settings == {"threads": 2, "batch_size": 4, "gradient_accumulation_steps": 4, "eval_iters": 80}
    assert [trial.reason for trial in tuned.trials if trial.settings.get("batch_size") == 8] == [None]


def test_where_nothing_helps_the_settings_stay_as_they_are() -> None:
    tuned = tune(Workshop())
    assert tuned.settings == {}
    assert tuned.confirmed is None
    assert all(trial.reason is not None for trial in tuned.trials)


@pytest.mark.parametrize("seed", range(20))
def test_processes_that_differ_by_luck_alone_are_hardly_ever_taken_for_faster_settings(seed: int) -> None:
    workshop = Workshop(between_processes=0.03, random=random.Random(seed))
    tuned = tune(workshop)
    assert tuned.confirmed is None or tuned.confirmed.share < 0.06


def test_a_gain_that_is_not_worth_having_is_not_taken() -> None:
    tuned = tune(best_at("threads", 2, share=0.012))
    assert tuned.settings == {}
    assert reasons(tuned, "threads")[0] == "it saves less than 2% of the run"


def test_settings_that_were_typed_are_not_changed() -> None:
    tuned = tune(best_at("threads", 2), fixed="threads batch_size")
    assert tuned.settings == {}
    assert not [trial for trial in tuned.trials if {"threads", "batch_size"} & set(trial.settings)]


@pytest.mark.parametrize(("max_iters", "chosen"), [(1_000, {}), (20_000, {"compile": True})])
def test_compiling_must_repay_the_time_it_takes(max_iters: int, chosen: dict[str, object]) -> None:
    config = resolve(["laptop", f"--max_iters={max_iters}"]).config
    workshop = Workshop(lambda config: 0.09 if config.compile is True else 0.1)  # saves 10 s or 200 s, costs 20 s
    assert tune(workshop, config, seconds=300).settings == chosen


def test_a_candidate_that_crashes_is_skipped_with_its_reason() -> None:
    workshop = best_at("threads", 2)
    workshop.fails = lambda config: "it crashes the process: SIGILL" if config.batch_size == 8 else ""
    tuned = tune(workshop)
    assert tuned.settings == {"threads": 2}
    assert reasons(tuned, "batch_size") == ["it crashes the process: SIGILL"]


def test_settings_that_cannot_be_measured_at_all_are_an_error_with_the_reason() -> None:
    with pytest.raises(JobError, match="can't be measured here: out of memory"):
        tune(Workshop(fails=lambda config: "out of memory"))


def test_a_candidate_that_leaves_too_little_memory_is_not_used_however_fast_it_is() -> None:
    workshop = best_at("threads", 2)
    workshop.memory = lambda config: 7_500_000_000 if config.threads == 2 else 600_000_000
    tuned = tune(workshop)
    assert tuned.settings == {}
    assert "it leaves less than a tenth of the memory: 7.5 of 8.0 GB" in reasons(tuned, "threads")


def test_two_processes_that_do_not_fit_side_by_side_take_turns_alone() -> None:
    workshop = best_at("threads", 2)
    workshop.memory = lambda config: 5_000_000_000
    tuned = tune(workshop, seconds=400)
    assert workshop.most_open == 1
    assert tuned.settings == {"threads": 2}


def test_the_time_is_kept_and_what_was_not_tried_is_said() -> None:
    workshop = best_at("threads", 2)
    tuned = tune(workshop, seconds=80)
    assert workshop.seconds < 90
    assert tuned.settings == {"threads": 2}
    assert any("longer than the time that is left" in reason for reason in reasons(tuned, "compile"))


def test_iterations_that_take_too_long_to_compare_say_how_much_time_it_needs() -> None:
    config = resolve(["gpt2-124m"]).config
    tuned = tune(Workshop(lambda config: 2400.0), config)
    assert tuned.settings == {}
    assert "comparing settings takes longer than 2m00s here; use --minutes=" in str(tuned.too_slow)


def test_long_iterations_are_compared_by_micro_batches_and_confirmed_by_pairs() -> None:
    config = resolve(["gpt2-124m"]).config
    workshop = Workshop(lambda config: 2400.0 if config.batch_size == 12 else 2000.0, drift=0.0)
    tuned = tune(workshop, config, seconds=1200)
    assert tuned.settings["batch_size"] * tuned.settings["gradient_accumulation_steps"] == 480
    assert tuned.settings["batch_size"] * tuned.settings["eval_iters"] == 2400
    assert workshop.seconds < 1300


def test_ctrl_c_before_anything_is_confirmed_ends_it_and_leaves_no_process() -> None:
    workshop = best_at("threads", 2)
    workshop.interrupt_at = 30.0
    with pytest.raises(KeyboardInterrupt):
        tune(workshop)
    assert workshop.open_now == 0


def test_ctrl_c_late_in_the_confirmation_keeps_what_is_confirmed() -> None:
    workshop = best_at("threads", 2)
    tune(workshop)
    again = best_at("threads", 2)
    again.interrupt_at = workshop.seconds - 4  # in the last pair of processes
    tuned = tune(again)
    assert tuned.interrupted
    assert tuned.settings == {"threads": 2}
    assert again.open_now == 0


def test_the_confirmation_uses_fresh_processes_of_the_settings_as_they_were() -> None:
    workshop = best_at("threads", 2)
    tuned = tune(workshop)
    assert tuned.confirmed is not None
    fresh = workshop.opened[-2 * tuned.confirmed.pairs :]
    assert [config.threads for config in fresh].count(2) == tuned.confirmed.pairs
    assert fresh.count(LAPTOP) == tuned.confirmed.pairs
