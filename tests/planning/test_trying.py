"""`try`: what it decides on made-up runs whose truth is known, and what it does to real ones."""

import hashlib
import json
import math
import random
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.data.prepare import prepare
from nanoscope.planning.trying import QUESTIONS, Arms, Outcome, Trials, shortened
from small_runs import Folder

RUN = TrainConfig(recipe="classic", max_iters=1000, warmup_iters=100, batch_size=16, gradient_accumulation_steps=1)


class MadeUpArms:
    """Losses by a formula, with noise that each arm has for itself."""

    def __init__(self, loss: Callable[[TrainConfig], float], world: int = 0, noise: float = 0.01) -> None:
        self._loss, self._world, self._noise = loss, world, noise
        self.until = math.inf
        self.trained: list[TrainConfig] = []

    def train(self, config: TrainConfig, windows: int = 0) -> Outcome:
        if len(self.trained) >= self.until:
            raise KeyboardInterrupt
        self.trained.append(config)
        own = random.Random(f"{self._world} {config} ")
        loss = self._loss(config) + self._noise * own.gauss(0, 1)
        return Outcome(loss, math.sqrt(config.batch_size))


def best_rate(best: float) -> Callable[[TrainConfig], float]:
    return lambda config: 2.0 + 0.2 * math.log10(config.lr_scale / best) ** 2 + 0.2 * (config.batch_size != 16)


def trials_of(arms: MadeUpArms, run: TrainConfig = RUN, advised: Iterable[str] = ()) -> Trials:
    return Trials(arms.train, run, lambda text: None, advised)


def tried(arms: MadeUpArms, run: TrainConfig = RUN, iters: int = 1000, advised: Iterable[str] = ()) -> Trials:
    trials = trials_of(arms, run, advised)
    trials.iters, trials.confirmed_iters = iters, min(2 * iters, run.max_iters)
    trials.ask(QUESTIONS)
    return trials


def proposals(trials: Trials) -> dict[str, dict[str, float]]:
    return {each.question: each.best.settings for each in trials.findings if each.verdict == "helps" and each.best}


@pytest.mark.parametrize("world", range(3))
@pytest.mark.parametrize("best", [0.01, 0.1, 0.3, 1.0, 3.0, 10.0])
def test_the_best_rate_is_proposed_and_no_other(best: float, world: int) -> None:
    question = "lower_rate" if best < 1 else "higher_rate"
    found = proposals(tried(MadeUpArms(best_rate(best), world)))
    assert found == ({} if best == 1 else {question: {"lr_scale": best}})


def test_of_hundreds_of_runs_without_anything_to_gain_next_to_none_gets_a_proposal() -> None:
    run = replace(RUN, warmup_iters=0)
    found = [
        proposals(tried(MadeUpArms(lambda config: 2.0, world, noise), run))
        for world in range(150)
        for noise in (0.005, 0.03)
    ]
    assert sum(map(bool, found)) <= 0.03 * len(found)


def test_the_best_of_many_is_confirmed_with_seeds_that_did_not_choose_it() -> None:
    arms = MadeUpArms(best_rate(0.1))
    rate = next(each for each in tried(arms).findings if each.question == "lower_rate")
    assert rate.best is not None
    assert rate.best.gain is not None
    assert rate.best.gain.pairs >= 3
    assert len({config.seed for config in arms.trained}) == 1 + rate.best.gain.pairs


def test_a_gain_that_is_real_but_tiny_is_not_worth_a_change() -> None:
    arms = MadeUpArms(lambda config: 2.0 - 0.004 * (config.lr_scale == 3), noise=0.0001)
    assert proposals(tried(arms)) == {}


def test_a_gain_that_longer_runs_do_not_show_is_not_proposed() -> None:
    trial = tried(MadeUpArms(lambda config: 2.0 - 0.2 * (config.lr_scale == 3 and config.max_iters < 150)), iters=100)
    assert [each.verdict for each in trial.findings if each.question == "higher_rate"] == ["not_confirmed"]


def test_each_change_is_tried_on_top_of_those_confirmed_before() -> None:
    def loss(config: TrainConfig) -> float:
        return 2.0 + 0.3 * (config.warmup == 0) + 0.2 * (config.lr_scale != 0.3) + 0.2 * (config.batch_size != 16)

    trial = tried(MadeUpArms(loss), replace(RUN, warmup_iters=0))
    assert proposals(trial) == {"warm_up": {"warmup_iters": 100}, "lower_rate": {"lr_scale": 0.3}}
    assert (trial.best.warmup_iters, trial.best.lr_scale) == (100, 0.3)


def test_a_larger_batch_is_compared_at_equal_time_and_the_run_gets_shorter_by_it() -> None:
    trial = tried(MadeUpArms(lambda config: 2.0 - 0.2 * (config.batch_size == 64)))
    assert proposals(trial).keys() == {"larger_batch"}
    proposed = trial.best
    assert (proposed.batch_size, proposed.max_iters, proposed.warmup_iters, proposed.lr_scale) == (64, 500, 50, 2.0)


def test_when_it_is_stopped_what_is_known_is_kept_and_nothing_is_proposed_unconfirmed() -> None:
    arms = MadeUpArms(best_rate(0.1))
    arms.until = 6
    trials = trials_of(arms)
    with pytest.raises(KeyboardInterrupt):
        trials.ask(QUESTIONS)
    assert [(each.question, each.verdict) for each in trials.findings] == [("lower_rate", "unfinished")]
    assert (trials.best, len(trials.findings[0].tried)) == (RUN, 3)
    assert trials.findings[0].best is None


def test_advice_that_the_trials_do_not_bear_out_is_withdrawn() -> None:
    advised = ["lower_learning_rate", "warm_up", "check_loader", "raise_eval_interval"]
    trial = tried(MadeUpArms(best_rate(3.0)), advised=advised)
    assert {action: trial.fate(action) for action in advised} == {
        "lower_learning_rate": "withdrawn",
        "warm_up": "withdrawn",
        "check_loader": "not_tried",
        "raise_eval_interval": "not_tried",
    }


@pytest.mark.parametrize(("iters", "asked"), [(1000, True), (100, False)])
def test_dropout_is_tried_only_in_runs_of_the_whole_length(iters: int, asked: bool) -> None:
    trial = tried(MadeUpArms(best_rate(1.0)), iters=iters, advised=["regularise"])
    assert ("dropout" in [each.question for each in trial.findings]) == asked


@pytest.mark.parametrize(
    ("run_iters", "seconds_per_iteration", "minutes", "expected"),
    [(100, 0.001, 1, (100, 100)), (10_000, 0.01, 5, (564, 1128)), (500, 0.25, 2, (40, 80)), (20, 9.0, 1, (20, 20))],
)
def test_trials_are_as_long_as_the_time_allows_and_no_run_is_refused(
    run_iters: int, seconds_per_iteration: float, minutes: float, expected: tuple[int, int]
) -> None:
    clock = 0.0

    def train(config: TrainConfig, windows: int) -> Outcome:
        nonlocal clock
        seconds = config.max_iters * seconds_per_iteration
        clock += 1.0 * (seconds_per_iteration > 0.001) + seconds  # a second to set up and to evaluate
        return Outcome(2.0, seconds_per_iteration)

    run = replace(RUN, max_iters=run_iters)
    trial = Trials(train, run, lambda text: None, seconds=60 * minutes, now=lambda: clock)
    trial.choose_length()
    assert (trial.iters, trial.confirmed_iters) == expected


def test_a_shorter_run_has_the_schedule_of_the_run_in_small() -> None:
    short = shortened(replace(RUN, lr_decay_iters=2000), 0.1)
    assert (short.max_iters, short.warmup, short.decay_iters) == (100, 10, 200)


def test_a_warm_up_is_tried_where_there_is_none_or_where_it_is_advised() -> None:
    def tried(run: TrainConfig, *advised: str) -> list[dict[str, float]]:
        return list(trials_of(MadeUpArms(best_rate(1.0)), run, advised).changes("warm_up"))

    assert tried(RUN) == []
    assert tried(RUN, "warm_up") == [{"warmup_iters": 200}]
    assert tried(replace(RUN, warmup_iters=0)) == [{"warmup_iters": 100}]


# --- real runs ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """With a run in it."""
    place = tmp_path_factory.mktemp("tried")
    chooser = random.Random(7)
    text = " ".join(chooser.choice(["the", "cat", "sat", "on", "a", "mat", "and", "saw", "birds"]) for _ in range(3000))
    (place / "tiny.txt").write_text(text, encoding="utf-8")
    prepare([place / "tiny.txt"], place / "data/tiny", tokenizer="char")
    made = Folder(place)
    made.train("--learning_rate=1e-3", "--dropout=0.1")
    return made


def fingerprint(run: Path) -> dict[str, str]:
    files = (path for path in run.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_an_arm_has_the_weights_of_such_a_run_to_the_last_bit_whatever_was_trained_before(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chdir(folder.path):
        config = replace(resolve(["run"]).config, dataset="data/tiny")
        arms, engines = Arms(config), []
        set_up = arms.place.set_up
        monkeypatch.setattr(arms.place, "set_up", lambda config: engines.append(found := set_up(config)) or found)
        arms.train(replace(config, seed=5, lr_scale=3.0, batch_size=2), windows=8)
        arms.train(config)
    saved = load_file(folder.path / "run/checkpoints/step-000020/model.safetensors")
    weights = engines[-1][0].plain_model.state_dict()
    assert saved
    assert all((weights[name] == value).all() for name, value in saved.items())


@pytest.mark.slow
def test_the_whole_command_leaves_the_run_as_it_was_and_names_a_command_that_works(folder: Folder) -> None:
    before = fingerprint(folder.path / "run")
    process = folder.start("try", "run", "--json", "--minutes=1")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert fingerprint(folder.path / "run") == before
    assert not (folder.path / "run-tried").exists()
    assert (document["schema"], document["iters"], document["run_iters"]) == ("nanoscope.try/3", 20, 20)
    verdicts = {each["question"]: each["verdict"] for each in document["findings"]}
    assert verdicts.keys() >= {"lower_rate", "larger_batch"}
    assert verdicts["higher_rate"] == "helps"
    with chdir(folder.path):
        config = resolve(shlex.split(document["command"])[2:]).config
    assert (config.out_dir, config.lr_scale > 1) == ("run-tried", True)


@pytest.mark.slow
def test_ctrl_c_prints_what_is_known(folder: Folder) -> None:
    settings = (folder.path / "run/config.toml").read_text("utf-8")
    (folder.path / "long").mkdir()
    (folder.path / "long/config.toml").write_text(settings.replace("max_iters = 20", "max_iters = 9000"), "utf-8")
    (folder.path / "long/events.jsonl").write_bytes((folder.path / "run/events.jsonl").read_bytes())
    process = folder.start("try", "long", "--minutes=4")
    assert process.stderr is not None
    for line in process.stderr:
        if line.endswith("%\n"):  # a trial is at work
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Warm-up" in out
    assert "interrupted" in out
    assert "Traceback" not in out + err


def test_without_a_confirmed_change_there_is_no_command() -> None:
    assert trials_of(MadeUpArms(best_rate(1.0))).command(Path("run")) is None


def test_a_log_or_a_run_of_nanogpt_can_not_be_tried_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("iter 0: loss 4.2, time 10.00ms\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/ckpt.pt").write_bytes(b"")
    for name in ("train.log", "out"):
        assert "nanoscope train config/CONFIG.py" in Folder(tmp_path).run("try", name, status=1)
