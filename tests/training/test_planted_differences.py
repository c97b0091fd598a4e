"""Runs that differ in one thing, trained for real: `compare` names that thing, and nothing else."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nanoscope.data.prepare import prepare
from small_runs import Folder

pytestmark = pytest.mark.slow

SETTINGS = (
    "--recipe=classic", "--max_iters=60", "--eval_interval=20", "--eval_iters=16", "--batch_size=4", "--n_embd=32",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with the run that all others differ from."""
    path = tmp_path_factory.mktemp("planted")
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "birds", "fly", "over", "hills"]
    chooser = random.Random(7)
    (path / "tiny.txt").write_text(" ".join(chooser.choice(words) for _ in range(3000)), encoding="utf-8")
    prepare([path / "tiny.txt"], path / "data/tiny", tokenizer="char")
    folder = Folder(path)
    folder.train(*SETTINGS, "--out_dir=base")
    return folder


def trained(runs: Folder, *words: str) -> str:
    """Train with other settings; the name of the run."""
    name = "-".join(word.removeprefix("--") for word in words)
    if not (runs.path / name).is_dir():
        runs.train(*SETTINGS, *words, f"--out_dir={name}")
    return name


def copied(runs: Folder, name: str, change: Callable[[dict], None]) -> str:
    """The base run with changed events: what cannot be trained on this machine."""
    shutil.copytree(runs.path / "base", runs.path / name)
    events = runs.events("base")
    for event in events:
        change(event)
    (runs.path / name / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return name


def compared(runs: Folder, *names: str) -> dict:
    return json.loads(runs.run("compare", *names, "--json"))


def named(findings: list[dict]) -> set[str]:
    """The settings that findings name as a cause, or as one of several."""
    single = {f["setting"] for f in findings if f["code"] == "effect" and f["verdict"] != "within_noise"}
    return single | {name for f in findings for name in f.get("settings", ())}


@pytest.mark.parametrize(
    ("flag", "cause"),
    [
        ("--learning_rate=3e-4", "learning_rate"),
        ("--batch_size=16", "batch_size"),
        ("--n_embd=64", "n_embd"),
        ("--dropout=0.5", "dropout"),
    ],
)
def test_a_planted_setting_is_named_as_the_cause_and_no_other(runs: Folder, flag: str, cause: str) -> None:
    found = compared(runs, "base", trained(runs, flag))
    assert named(found["findings"]) == {cause}


def test_a_sweep_of_learning_rates_names_the_rate_and_its_best_value(runs: Folder) -> None:
    rates = ("1e-4", "1e-3", "3e-3", "2e-2", "3e-1")
    found = compared(runs, *(trained(runs, f"--learning_rate={rate}") for rate in rates))
    (effect,) = found["findings"]
    assert (effect["setting"], effect["verdict"], effect["confidence"]) == ("learning_rate", "differs", "sure")
    losses = dict(zip(effect["values"], effect["losses"], strict=True))
    assert losses[effect["values"][effect["best"]]] == min(losses.values())
    assert effect["edge"] == "inside"


def test_seeds_are_repeats_with_a_spread_and_no_cause(runs: Folder) -> None:
    found = compared(runs, *(trained(runs, f"--seed={seed}") for seed in (1, 2, 3)))
    (repeats,) = found["findings"]
    assert (repeats["code"], repeats["differ"], len(repeats["runs"])) == ("repeats", "seed", 3)
    assert repeats["low"] < repeats["mean"] < repeats["high"]


def test_two_planted_settings_are_told_apart_only_by_a_third_run(runs: Folder) -> None:
    both = trained(runs, "--n_embd=64", "--learning_rate=3e-4")
    (confounded,) = [f for f in compared(runs, "base", both)["findings"] if f["code"] == "confounded"]
    assert set(confounded["settings"]) == {"n_embd", "learning_rate"}
    third = trained(runs, "--n_embd=64")
    assert named(compared(runs, "base", third, both)["findings"]) == {"n_embd", "learning_rate"}


def test_another_split_of_the_same_batch_is_no_cause_of_another_loss(runs: Folder) -> None:
    found = compared(runs, "base", trained(runs, "--batch_size=2", "--gradient_accumulation_steps=2"))
    assert not named(found["findings"])


def test_the_same_run_again_is_identical(runs: Folder) -> None:
    found = compared(runs, "base", trained(runs, "--log_interval=2"))
    assert [(f["code"], f["settings"]) for f in found["findings"]] == [("identical", [])]


def test_another_precision_is_named(runs: Folder) -> None:
    def change(event: dict) -> None:
        if event["event"] == "start":
            event["dtype"] = "float16"  # never chosen on a CPU

    found = compared(runs, "base", copied(runs, "float16", change))
    assert named(found["findings"]) == {"dtype"}


@pytest.mark.parametrize(("key", "value"), [("compiled", True), ("device_name", "another machine")])
def test_what_only_changes_the_speed_does_not_explain_the_loss(runs: Folder, key: str, value: object) -> None:
    def change(event: dict) -> None:
        if event["event"] == "start":
            event[key] = value
        if event["event"] == "iter":
            event["seconds"] /= 10

    found = compared(runs, "base", copied(runs, f"faster-{key}", change))
    assert named(found["findings"]) == set()
    assert {"compiled": "compile"}.get(key, key) in {each["key"] for each in found["config"]}


def test_losses_by_window_are_kept_for_the_best_and_the_last_evaluation(runs: Folder) -> None:
    files = sorted((runs.path / "base" / "windows").iterdir())
    assert [file.name for file in files] == ["best.bin", "last.bin"]
    assert all(file.stat().st_size < 1000 for file in files)


def test_the_time_in_all_is_the_one_that_the_run_measured(runs: Folder) -> None:
    (end,) = runs.events("base", "end")
    found = compared(runs, "base", trained(runs, "--n_embd=64"))
    (time,) = [row["wall_seconds"] for row in found["rows"] if row["runs"] == [0]]
    assert time == pytest.approx(end["wall_seconds"], rel=0.01)


def test_other_data_are_not_ranked(runs: Folder) -> None:
    other = Path(runs.path / "other.txt")
    other.write_text("0123456789 abc\n" * 800, encoding="utf-8")
    prepare([other], runs.path / "data/other", tokenizer="char")
    found = compared(runs, "base", trained(runs, "--dataset=data/other"))
    assert not found["ranked"]
    assert [f["reason"] for f in found["findings"]] == ["data"]
