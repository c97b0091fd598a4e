"""What a resume keeps: one test for each row of the table in docs/resume.md."""

import contextlib
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from nanoscope import config
from nanoscope.config import KEYS, OPTIONS, SHAPE_KEYS
from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.training.resume import Resumed, continue_run
from small_runs import Folder

pytestmark = pytest.mark.slow
ONCE = {key for key, item in KEYS.items() if item.metadata["holds"] == "invocation"}


@pytest.fixture
def run(folder: Folder) -> Folder:
    """With a run of 2 iterations in `run`."""
    folder.train("--max_iters=2", "--eval_interval=2", "--max_minutes=9")
    return folder


def resumed(run: Folder, *words: str) -> Resumed:
    with contextlib.chdir(run.path):
        return continue_run(resolve([*words, "--out_dir=run", "--init_from=resume"]))


def refusal(run: Folder, *words: str) -> str:
    with pytest.raises(UsageError) as caught:
        resumed(run, *words)
    return str(caught.value)


def settings(run: Folder) -> dict[str, object]:
    return tomllib.loads((run.path / "run/config.toml").read_text("utf-8"))


def options_of_the_command(run: Folder, flags: set[str]) -> None:
    assert flags - {"init_from"} == set(OPTIONS)
    assert settings(run).keys().isdisjoint(OPTIONS)
    assert settings(run)["init_from"] == "scratch"
    assert resumed(run).config.max_minutes == 0
    found = resumed(run, "--max_minutes=5")
    assert (found.config.max_minutes, found.changed, found.for_session) == (5, {}, {"max_minutes": (0.0, 5.0)})


def for_this_invocation(run: Folder, flags: set[str]) -> None:
    assert flags == ONCE - set(OPTIONS)
    run.run("train", "run", "--init_from=resume", "--max_iters=4", "--log_interval=3", "--patience=7")
    assert (settings(run)["log_interval"], settings(run)["patience"], settings(run)["max_iters"]) == (1, 0, 4)
    assert run.events(kind="resume")[-1]["for_session"] == {"log_interval": [1, 3], "patience": [0, 7]}
    assert resumed(run).config.patience == 0


def shape(run: Folder, flags: set[str]) -> None:
    assert flags == set(SHAPE_KEYS)
    assert "n_layer=3 was typed, but run has n_layer=2" in refusal(run, "--n_layer=3")
    assert resumed(run, "--n_layer=2").changed == {}


def optimizer_of_the_vocabulary(run: Folder, flags: set[str]) -> None:
    assert "output_lr=0.1 was typed, but run has output_lr=0.0" in refusal(run, *(f"--{flag}=0.1" for flag in flags))


def for_good(run: Folder, flags: set[str]) -> None:
    run.run("train", "run", "--init_from=resume", "--max_iters=4", "--weight_decay=0.3", "--batch_size=2")
    assert (settings(run)["weight_decay"], settings(run)["max_iters"], settings(run)["batch_size"]) == (0.3, 4, 2)
    changed = run.events(kind="resume")[-1]["changed"]
    assert isinstance(changed, dict)
    assert changed.keys() == {"max_iters", "weight_decay", "batch_size", "tokens_per_step"}


def sources_beside_the_run(run: Folder, flags: set[str]) -> None:
    (run.path / "mine.toml").write_text("n_layer = 5\nmax_iters = 9\nmax_minutes = 3\n", "utf-8")
    found = resumed(run, "mine.toml")
    assert (found.config.n_layer, found.config.max_iters, found.config.max_minutes) == (2, 2, 3)
    assert list(map(str, found.notes)) == ["not used, because the run has its own settings: n_layer=5, max_iters=9"]


def evaluations(run: Folder, flags: set[str]) -> None:
    found = resumed(run, "--eval_only=True", "--weight_decay=0.3")
    assert (found.changed, found.for_session["weight_decay"]) == ({}, (0.1, 0.3))
    before = {path: path.read_bytes() for path in run.path.rglob("run/**/*") if path.is_file()}
    run.run("train", "run", "--init_from=resume", "--eval_only=True", "--weight_decay=0.3")
    assert before == {path: path.read_bytes() for path in run.path.rglob("run/**/*") if path.is_file()}


def other_tokens(run: Folder, flags: set[str]) -> None:
    run.run("prepare", "tiny.txt", "--out", "data/bytes", "--tokenizer", "byte")
    out = run.run("train", "run", "--init_from=resume", "--max_iters=4", "--dataset=data/bytes", status=2)
    assert "data/bytes has another tokenizer than the run" in out


def other_data(run: Folder, flags: set[str]) -> None:
    text = (run.path / "tiny.txt").read_text("utf-8")
    (run.path / "other.txt").write_text(text[::-1], "utf-8")
    run.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = run.run("train", "run", "--init_from=resume", "--max_iters=4", "--dataset=data/other")
    assert "note: the data in data/other is not what the run was trained on until now" in out
    assert "evaluations now use other windows or other data: the best val loss so far" in out


def dtype_of_a_cpu(run: Folder, flags: set[str]) -> None:
    file = run.path / "run/config.toml"
    for dtype in ("float32", "bfloat16"):
        file.write_text(re.sub('cpu_dtype = ".*"', f'cpu_dtype = "{dtype}"', file.read_text("utf-8")), "utf-8")
        assert resumed(run).cpu_dtype == dtype


def removed_settings(run: Folder, flags: set[str]) -> None:
    file = run.path / "run/config.toml"
    file.write_text("once_a_setting = 1\n" + file.read_text("utf-8"), "utf-8")
    assert "unknown key once_a_setting" in refusal(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nanoscope.config_sources.REMOVED", (*config.REMOVED, "once_a_setting"))
        assert resumed(run).changed == {}


RULES: dict[str, Callable[[Folder, set[str]], None]] = {
    "`--max_minutes`": options_of_the_command,
    "`--device`": for_this_invocation,
    "`--recipe`": shape,
    "`--output_lr`": optimizer_of_the_vocabulary,
    "every other flag": for_good,
    "a preset or config file": sources_beside_the_run,
    "any flag with `--eval_only=True`": evaluations,
    "data in other tokens": other_tokens,
    "other data in the same tokens": other_data,
    "nothing: `dtype=auto` on a CPU": dtype_of_a_cpu,
    "a setting of an earlier version": removed_settings,
}


def rows() -> dict[str, str]:
    """The first cell of each row of the table, by its first words."""
    text = (Path(__file__).parents[2] / "docs/resume.md").read_text("utf-8")
    table = text.partition("| given on a resume |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    return {cell.partition(",")[0]: cell for cell in cells}


def test_each_rule_has_a_row_and_each_row_a_test() -> None:
    assert list(rows()) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_resume_keeps_what_the_docs_say(rule: str, run: Folder) -> None:
    RULES[rule](run, set(re.findall(r"`--(\w+)", rows()[rule])))


def test_plan_and_train_ask_the_same_function(run: Folder) -> None:
    shutil.copytree(run.path / "run", run.path / "copy")
    out = run.run("plan", "copy", "--max_iters=50", "--n_layer=3", status=2)
    assert "n_layer=3 was typed, but copy has n_layer=2" in out
