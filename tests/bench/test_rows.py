"""How rows are measured: in turns, in child processes that end with the bench, nanoGPT's code beside ours."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import SONG
from nanoscope.bench import rows
from nanoscope.bench.laps import Laps
from nanoscope.bench.rows import ROWS, Bench, compared, expected_minutes, measure, neighbour_times
from nanoscope.bench.workspace import Workspace, check_nanogpt
from nanoscope.data.dataset import open_dataset
from nanoscope.errors import JobError, UsageError

TINY = {"n_layer": 1, "n_head": 2, "n_embd": 16, "batch_size": 4, "block_size": 16, "dropout": 0.0}


@pytest.fixture
def workspace(tmp_path: Path, fake_nanogpt: Path) -> Workspace:
    """With a text that is there in place of one that may have to be fetched."""
    (tmp_path / "space").mkdir()
    space = Workspace(tmp_path / "space", fake_nanogpt)
    space.text = tmp_path / "song.txt"
    space.text.write_text(SONG, "utf-8")
    return space


def bench_of(space: Workspace, repeats: int = 1) -> tuple[Bench, list[str]]:
    said: list[str] = []
    return Bench(space, repeats, seeds=1, say=said.append), said


def test_the_first_laps_are_not_counted_and_there_are_never_fewer_than_three() -> None:
    laps = Laps(seconds=0)
    marks = 1
    while not laps.mark():
        marks += 1
    assert marks == 1 + Laps.WARM_UP + 3
    assert len(laps.ms) == 3


def test_both_sides_take_turns_and_each_begins_every_other_time(workspace: Workspace) -> None:
    bench, said = bench_of(workspace, repeats=2)
    order: list[str] = []
    bench.compare("row", "ms", lambda: order.append("ours") or 1.0, lambda: order.append("theirs") or 2.0)
    assert order == ["ours", "theirs", "theirs", "ours"]
    assert said[0] == "row: turn 1 of 2, nanoscope"


def test_a_ratio_is_the_median_turn_by_turn_with_its_lowest_and_highest() -> None:
    assert compared("row", "ms", [1.0, 2.0, 4.0], [2.0, 2.0, 16.0]) == {
        "row_ms": 2.0, "row_nanogpt_ms": 2.0, "row_ratio": 2.0, "row_ratio_low": 1.0, "row_ratio_high": 4.0,
    }  # fmt: skip


def test_where_more_is_better_the_ratio_is_still_above_one_if_ours_is() -> None:
    assert compared("row", "mb_per_second", [30.0], [10.0], higher_wins=True)["row_ratio"] == 3.0


def test_without_nanogpt_there_is_only_our_figure(workspace: Workspace) -> None:
    workspace.checkout = None
    bench, _ = bench_of(workspace)
    assert bench.compare("row", "ms", lambda: 3.0, lambda: pytest.fail("nanoGPT is not here")) == {"row_ms": 3.0}


def test_a_row_of_tasks_runs_both_sides_on_the_same_shape(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rows.SHAPES, "6x384", TINY)
    result = rows.memory(bench_of(workspace)[0])
    assert result.keys() == {
        f"memory_{key}" for key in ("added_mb", "nanogpt_added_mb", "ratio", "ratio_low", "ratio_high")
    }
    assert result["memory_added_mb"] > 0
    assert result["memory_nanogpt_added_mb"] > 0


def test_sampling_counts_every_stream(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BABY", TINY)
    monkeypatch.setattr(rows, "SAMPLE_TOKENS", 20)
    result = rows.sample(bench_of(workspace)[0], streams=2)
    assert result["sample2_tokens_per_second"] == 2 * 20 / result["sample2_seconds"]


def test_evaluation_is_measured_on_both_sides(workspace: Workspace) -> None:
    ours = workspace.ours("evaluation", shape=TINY, dataset=str(workspace.characters), eval_iters=2)
    theirs = workspace.theirs("evaluation", shape=TINY, dataset="data/shakespeare_char", vocab_size=65, eval_iters=2)
    assert ours["seconds"] > 0
    assert theirs["seconds"] > 0


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A run that was saved while it was measured, and what was measured."""
    space = Workspace(tmp_path_factory.mktemp("saved"), None)
    space.text = space.folder / "song.txt"
    space.text.write_text(SONG, "utf-8")
    told = {"shape": TINY, "dataset": str(space.characters), "seconds": 2, "quiet_steps": 5}
    return space, space.ours("checkpoint", **told)


def test_checkpoints_are_really_written_while_steps_go_on(saved: tuple[Workspace, dict[str, Any]]) -> None:
    space, found = saved
    assert found["saves"] > 1
    assert found["blocked_ms"] > 0
    assert found["synchronous_ms"] > 0
    assert list((space.folder / "run/checkpoints").glob("step-*/model.safetensors"))


def test_the_loss_is_over_the_whole_validation_split(saved: tuple[Workspace, dict[str, Any]]) -> None:
    space, _ = saved
    found = space.ours("loss", dataset=str(space.characters), block_size=16, run=str(space.folder / "run"))
    assert found["windows"] == (len(open_dataset(space.characters).split("val")) - 1) // 16
    assert 0 < found["loss"] < 10


def test_windows_longer_than_a_models_context_are_refused(saved: tuple[Workspace, dict[str, Any]]) -> None:
    space, _ = saved
    with pytest.raises(JobError, match="a context of 16 cannot be compared over windows of 64"):
        space.ours("loss", dataset=str(space.characters), block_size=64, run=str(space.folder / "run"))


def test_nanogpts_iterations_that_hold_an_evaluation_are_told_from_the_others() -> None:
    durations = {number: 900.0 if number % 20 == 0 else 30.0 for number in range(101)} | {0: 5000.0}
    assert neighbour_times(durations, 20) == 30.0


def test_a_log_without_evaluations_is_told() -> None:
    with pytest.raises(JobError, match="no iteration after an evaluation"):
        neighbour_times({0: 1.0, 1: 1.0}, 20)


# --- what goes wrong ---------------------------------------------------------------------------------------------


def test_what_a_child_complains_of_last_is_the_reason_and_the_bench_goes_on(workspace: Workspace) -> None:
    result = measure(bench_of(workspace)[0], "time_to_loss")
    assert result == {"time_to_loss_failed": "nanoGPT's train.py failed: RuntimeError: no GPU"}


def test_a_child_that_takes_too_long_is_ended_with_its_children(workspace: Workspace) -> None:
    nap = "import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {nap!r}]); {nap}"
    with pytest.raises(JobError, match=r"the nap was ended after 0\.02 minutes"):
        workspace.command(["-c", code], workspace.folder, "the nap", minutes=0.02)
    assert not [
        child for child in psutil.Process().children(recursive=True) if "sleep(600)" in " ".join(child.cmdline())
    ]


def test_children_find_nanoscope_from_any_folder_and_keep_bytecode(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import sys, nanoscope; print(nanoscope.__file__, sys.dont_write_bytecode)"
    printed, _ = workspace.command(["-c", code], workspace.folder, "the child")
    path, setting = printed.split()
    assert Path(path).samefile(Path(rows.__file__).parents[1] / "__init__.py")
    assert setting == "False"


@pytest.mark.parametrize("missing", ["model.py", "train.py", "data/shakespeare_char/prepare.py"])
def test_a_folder_that_is_no_checkout_is_told_by_the_file_it_lacks(missing: str, fake_nanogpt: Path) -> None:
    (fake_nanogpt / missing).unlink()
    with pytest.raises(UsageError, match=f"no checkout of nanoGPT: it has no {missing}"):
        check_nanogpt(fake_nanogpt)


def test_nothing_is_written_into_the_users_checkout(workspace: Workspace, fake_nanogpt: Path) -> None:
    before = sorted(path for path in fake_nanogpt.rglob("*"))
    workspace.theirs("sample", shape=TINY, tokens=3)
    assert sorted(path for path in fake_nanogpt.rglob("*")) == before
    assert (workspace.nanogpt / "data/shakespeare_char/train.bin").is_file()


def test_the_time_to_expect_grows_with_turns_and_seeds() -> None:
    assert expected_minutes(["step"], 4, 1) == 4 * ROWS["step"].minutes
    assert expected_minutes(["time_to_loss"], 4, 2) == 2 * ROWS["time_to_loss"].minutes
