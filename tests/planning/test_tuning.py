"""What tune chooses, from made-up figures with a known truth."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from nanoscope.child import ChildError
from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.errors import JobError, UsageError
from nanoscope.planning.rig import Facts, Figures
from nanoscope.planning.tuning import Tuner, check_can_tune, splits

LAPTOP = ["laptop", "--max_iters=5000"]
OPEN_SECONDS = 3.0


@dataclass
class Machine:
    """How long an iteration takes with some settings, and how noisy that is."""

    step: Callable[[TrainConfig], float] = lambda config: 0.1
    noise: float = 0.005
    drift: float = 0.3
    """Every 20 s the machine gets slower by this share, or faster again."""
    between_processes: float = 0.0
    fails: Callable[[TrainConfig], str] = lambda config: ""
    crowded: bool = False
    seconds: float = 0.0
    opened: list[TrainConfig] = field(default_factory=list)
    open_now: int = 0
    most_open: int = 0
    random: Random = field(default_factory=lambda: Random(0))
    interrupt_at: float = float("inf")

    def open(self, config: TrainConfig) -> "MadeUpRig":
        if problem := self.fails(config):
            raise ChildError(problem)
        return MadeUpRig(self, config)


class MadeUpRig:
    def __init__(self, machine: Machine, config: TrainConfig) -> None:
        self.machine, self.config = machine, config
        self.compile_seconds = 20.0 if config.compile is True else 0.0
        used = {
            "batch_size": config.batch_size,
            "dtype": "float32",  # bfloat16 falls back to it
            "compile": config.compile is True,
            "threads": 4 if config.threads == "auto" else config.threads,
            "eval_batch_size": 32,
        }
        self.facts = Facts("cpu", "a CPU, 4 threads", used, crowded=machine.crowded)
        self.luck = machine.random.gauss(1, machine.between_processes)
        machine.seconds += OPEN_SECONDS + self.compile_seconds
        machine.opened.append(config)
        machine.open_now += 1
        machine.most_open = max(machine.most_open, machine.open_now)

    def measure(self, seconds: float) -> Figures:
        machine, step = self.machine, self.machine.step(self.config)
        machine.seconds += max(seconds, step / self.config.gradient_accumulation_steps)
        if machine.seconds > machine.interrupt_at:
            raise KeyboardInterrupt
        drift = 1 + machine.drift * ((machine.seconds // 20) % 2)
        step *= self.luck * drift * machine.random.gauss(1, machine.noise)
        return Figures(step, 0.0, self.config.max_iters * step + self.compile_seconds)

    def close(self) -> None:
        self.machine.open_now -= 1


def tune(machine: Machine, *words: str, minutes: float = 5.0) -> Tuner:
    resolved = resolve([*LAPTOP, *words])
    tuner = Tuner(resolved, minutes, lambda text: None, machine.open, lambda: machine.seconds)  # type: ignore[arg-type]
    tuner.tune()
    return tuner


def best_at(key: str, value: object, share: float = 0.15) -> Machine:
    """A machine that is faster with one value of a setting, and slower with any other change of it."""
    default = getattr(resolve(LAPTOP).config, key)

    def step(config: TrainConfig) -> float:
        now = getattr(config, key)
        return 0.1 * (1 - share if now == value else 1 if now == default else 1.1)

    return Machine(step)


def verdicts(tuned: Tuner) -> dict[str, str]:
    return {each.question: each.verdict for each in tuned.findings}


def problems(tuned: Tuner, question: str) -> list[str]:
    return [str(each.problem) for found in tuned.findings if found.question == question for each in found.tried]


def test_a_setting_that_saves_time_is_found_and_confirmed_with_its_gain() -> None:
    tuned = tune(best_at("threads", 2))
    assert tuned.settings == {"threads": 2}
    best = tuned.findings[0].best
    assert best is not None
    assert best.gain is not None
    assert best.gain.mean == pytest.approx(0.15, abs=4 * best.gain.error)
    assert str(tuned.summary()) == f"--threads=2: {best.gain.mean:.1%} less time"


def test_changes_of_several_settings_are_combined_and_a_better_direction_is_followed() -> None:
    def step(config: TrainConfig) -> float:
        return 0.1 * {16: 1, 8: 0.9, 4: 0.8, 2: 0.95, 1: 1.2}[config.batch_size] * (0.9 if config.threads == 2 else 1)

    tuned = tune(Machine(step))
    assert tuned.settings == {"threads": 2, "batch_size": 4, "gradient_accumulation_steps": 4, "eval_iters": 80}


def test_where_nothing_helps_the_settings_stay_as_they_are() -> None:
    tuned = tune(Machine())
    assert tuned.settings == {}
    assert str(tuned.summary()) == "the settings are the fastest found"


def test_processes_that_differ_by_luck_alone_are_hardly_ever_taken_for_faster_settings() -> None:
    found = [tune(Machine(between_processes=0.03, random=Random(seed))) for seed in range(100)]
    assert sum(bool(tuned.settings) for tuned in found) <= 8


def test_a_gain_that_is_not_worth_having_is_not_taken() -> None:
    tuned = tune(best_at("threads", 2, share=0.012))
    assert tuned.settings == {}
    assert verdicts(tuned)["threads"] in ("nothing_better", "not_confirmed")


def test_settings_that_were_typed_are_not_changed() -> None:
    tuned = tune(best_at("threads", 2), "--threads=4", "--batch_size=16")
    assert tuned.settings == {}
    assert not verdicts(tuned).keys() & {"threads", "smaller_micro_batch", "larger_micro_batch"}


@pytest.mark.parametrize(("max_iters", "chosen"), [(1_000, {}), (20_000, {"compile": True})])
def test_compiling_must_repay_the_time_it_takes(max_iters: int, chosen: dict[str, object]) -> None:
    machine = Machine(lambda config: 0.09 if config.compile is True else 0.1)  # saves 10 s or 200 s, costs 20 s
    assert tune(machine, f"--max_iters={max_iters}", minutes=5).settings == chosen


def test_a_candidate_that_crashes_or_falls_back_is_not_used_and_the_reason_is_given() -> None:
    machine = best_at("threads", 2)
    machine.fails = lambda config: "it crashes the process: SIGILL" if config.batch_size == 8 else ""
    tuned = tune(machine)
    assert tuned.settings == {"threads": 2}
    assert problems(tuned, "smaller_micro_batch") == ["it crashes the process: SIGILL"]
    assert problems(tuned, "dtype") == ["it does not work here"]


def test_settings_that_cannot_be_measured_at_all_are_an_error_with_the_reason() -> None:
    with pytest.raises(JobError, match="can't be measured here: out of memory"):
        tune(Machine(fails=lambda config: "out of memory"))


def test_two_processes_that_do_not_fit_side_by_side_take_turns_alone() -> None:
    machine = best_at("threads", 2)
    machine.crowded = True
    assert tune(machine, minutes=7).settings == {"threads": 2}
    assert machine.most_open == 1


def test_the_time_is_kept_and_what_was_not_tried_is_said() -> None:
    machine = best_at("threads", 2)
    tuned = tune(machine, minutes=0.5)
    assert machine.seconds < 50
    assert verdicts(tuned)["compile"] == "unfinished"
    assert "out of time; allow more with --minutes" in str(list(map(str, tuned.lines())))


def test_ctrl_c_leaves_no_process() -> None:
    machine = best_at("threads", 2)
    machine.interrupt_at = 30.0
    with pytest.raises(KeyboardInterrupt):
        tune(machine)
    assert machine.open_now == 0


def test_the_confirmation_uses_new_processes() -> None:
    machine = best_at("threads", 2)
    best = tune(machine).findings[0].best
    assert best is not None
    assert best.gain is not None
    assert [config.threads for config in machine.opened].count(2) >= 1 + best.gain.pairs
    assert machine.opened.count(resolve(LAPTOP).config) == 1 + best.gain.pairs


def test_other_micro_batches_keep_the_sequences_of_an_iteration_and_the_windows_of_an_evaluation() -> None:
    config = resolve(["gpt2-124m"]).config
    found = list(splits(config, range(1, 100)))
    assert len(found) > 3
    for settings in found:
        assert settings["batch_size"] * settings["gradient_accumulation_steps"] == config.sequences_per_step
        assert settings["batch_size"] * settings["eval_iters"] == config.eval_windows


def candidates(question: str, facts: Facts, default: Figures) -> list[dict[str, object]]:
    tuner = Tuner(resolve(LAPTOP), 1.0, lambda text: None)
    tuner.facts, tuner.default = facts, default
    return list(tuner.changes(question))


def test_the_batch_of_evaluations_is_tried_where_they_take_a_share_of_the_run_that_matters() -> None:
    facts = Facts("cpu", "a CPU", {"eval_batch_size": 32})
    assert candidates("eval_batch", facts, Figures(0.1, 5.0, 600.0))[0] == {"eval_batch_size": 64}
    assert candidates("eval_batch", facts, Figures(0.1, 0.1, 501.0)) == []


def test_a_dtype_is_tried_on_a_cpu_and_threads_too() -> None:
    used, default = {"dtype": "bfloat16", "threads": 4, "compile": True}, Figures(0.1, 0.1, 501.0)
    cpu, gpu = Facts("cpu", "a CPU", used), Facts("cuda", "a GPU", used)
    assert candidates("threads", cpu, default) == [{"threads": 2}, {"threads": 1}]
    assert candidates("dtype", cpu, default) == [{"dtype": "float32"}]
    assert candidates("compile", gpu, default) == [{"compile": False}]
    assert not [question for question in ("dtype", "threads") if candidates(question, gpu, default)]


def test_tuning_is_refused_where_there_is_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="a resumed run keeps its settings"):
        check_can_tune(resolve(["laptop", "--init_from=resume"]))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="torchrun's processes can't tune"):
        check_can_tune(resolve(["laptop"]))
