"""How rows are measured: in turns, in child processes that never outlive the benchmark."""

from pathlib import Path

import psutil
import pytest

import nanoscope
from benchmarks.nanogpt import rows
from benchmarks.nanogpt.rows import Bench, compared, measure, neighbour_times
from benchmarks.nanogpt.workspace import Workspace, check_nanogpt
from conftest import SONG
from nanoscope.data.dataset import open_dataset
from nanoscope.errors import JobError, UsageError

pytestmark = pytest.mark.slow

TINY = {"n_layer": 1, "n_head": 2, "n_embd": 16, "batch_size": 4, "block_size": 16, "dropout": 0.0}


@pytest.fixture
def workspace(tmp_path: Path, fake_nanogpt: Path) -> Workspace:
    """With a small text instead of one that may have to be downloaded."""
    (tmp_path / "space").mkdir()
    space = Workspace(tmp_path / "space", fake_nanogpt)
    space.text = tmp_path / "song.txt"
    space.text.write_text(SONG, "utf-8")
    return space


def bench_of(space: Workspace, repeats: int = 1) -> tuple[Bench, list[str]]:
    lines: list[str] = []
    return Bench(space, repeats, seeds=1, progress=lines.append), lines


def test_both_sides_take_turns_and_each_begins_every_other_time(workspace: Workspace) -> None:
    bench, lines = bench_of(workspace, repeats=2)
    order: list[str] = []
    bench.compare("row", "ms", lambda: order.append("ours") or 1.0, lambda: order.append("theirs") or 2.0)
    assert order == ["ours", "theirs", "theirs", "ours"]
    assert lines[0] == "row: turn 1 of 2, nanoscope"


def test_a_ratio_is_the_median_turn_by_turn_with_its_lowest_and_highest() -> None:
    assert compared("row", "ms", [1.0, 2.0, 4.0], [2.0, 2.0, 16.0]) == {
        "row_ms": 2.0, "row_nanogpt_ms": 2.0, "row_ratio": 2.0, "row_ratio_low": 1.0, "row_ratio_high": 4.0,
    }  # fmt: skip


def test_where_higher_wins_the_ratio_is_above_one_if_ours_is_higher() -> None:
    assert compared("row", "mb_per_second", [30.0], [10.0], higher_wins=True)["row_ratio"] == 3.0


def test_steps_of_both_sides_are_timed_on_the_same_shape(workspace: Workspace) -> None:
    ours = workspace.ours("step", shape=TINY, dataset=str(workspace.characters), iterations=3)
    theirs = workspace.theirs(
        "step", shape=TINY, dataset="data/shakespeare_char", vocab_size=65, compile=False, iterations=3
    )
    assert len(ours["ms"]) == len(theirs["ms"]) == 3
    assert ours.keys() == theirs.keys() == {"ms", "added_mb"}
    assert not (workspace.folder / "run").exists()


def test_sampling_counts_every_stream(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BABY", TINY)
    monkeypatch.setattr(rows, "SAMPLE_TOKENS", 20)
    result = rows.sample(bench_of(workspace)[0], streams=2)
    assert result["sample2_tokens_per_second"] == 2 * 20 / result["sample2_seconds"]


def test_evaluations_of_both_sides_are_timed(workspace: Workspace) -> None:
    ours = workspace.ours("evaluation", shape=TINY, dataset=str(workspace.characters), eval_iters=2)
    theirs = workspace.theirs("evaluation", shape=TINY, dataset="data/shakespeare_char", vocab_size=65, eval_iters=2)
    assert ours.keys() == theirs.keys() == {"seconds"}


def test_a_loss_covers_the_whole_validation_split(workspace: Workspace, small_run: Path) -> None:
    found = workspace.ours("loss", dataset=str(workspace.characters), block_size=16, run=str(small_run))
    assert found["windows"] == (len(open_dataset(workspace.characters).splits["val"]) - 1) // 16
    assert 0 < found["loss"] < 10


def test_windows_longer_than_a_models_context_are_refused(workspace: Workspace, small_run: Path) -> None:
    with pytest.raises(JobError, match="a context of 32 can't read windows of 64"):
        workspace.ours("loss", dataset=str(workspace.characters), block_size=64, run=str(small_run))


def test_only_iterations_after_an_evaluation_are_neighbours() -> None:
    durations = {number: 900.0 if number % 20 == 0 else 30.0 for number in range(101)} | {0: 5000.0}
    assert neighbour_times(durations, 20) == 30.0


def test_a_log_without_evaluations_has_no_neighbours() -> None:
    with pytest.raises(JobError, match="no iteration after an evaluation"):
        neighbour_times({0: 1.0, 1: 1.0}, 20)


# --- failures ----------------------------------------------------------------------------------------------------


def test_a_childs_last_line_of_standard_error_is_the_reason_of_a_failed_row(workspace: Workspace) -> None:
    result = measure(bench_of(workspace)[0], "time_to_loss")
    assert result == {"time_to_loss_failed": "nanoGPT's train.py failed: RuntimeError: no GPU"}


def test_a_child_that_times_out_is_killed_with_its_children(workspace: Workspace) -> None:
    nap = "import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {nap!r}]); {nap}"
    with pytest.raises(JobError, match=r"the nap timed out after 0\.02 minutes"):
        workspace.command(["-c", code], workspace.folder, "the nap", minutes=0.02)
    assert not [
        child for child in psutil.Process().children(recursive=True) if "sleep(600)" in " ".join(child.cmdline())
    ]


def test_children_find_nanoscope_from_any_folder_and_keep_bytecode(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import sys, nanoscope, benchmarks.nanogpt; print(nanoscope.__file__, sys.dont_write_bytecode)"
    printed, _ = workspace.command(["-c", code], workspace.folder, "the child")
    path, setting = printed.split()
    assert Path(path).samefile(nanoscope.__file__)
    assert setting == "False"


@pytest.mark.parametrize("missing", ["model.py", "train.py", "data/shakespeare_char/prepare.py"])
def test_a_folder_that_is_not_a_checkout_is_refused_by_the_file_it_lacks(missing: str, fake_nanogpt: Path) -> None:
    (fake_nanogpt / missing).unlink()
    with pytest.raises(UsageError, match=f"not a checkout of nanoGPT: it has no {missing}"):
        check_nanogpt(fake_nanogpt)


def test_nothing_is_written_into_the_users_checkout(workspace: Workspace, fake_nanogpt: Path) -> None:
    before = sorted(path for path in fake_nanogpt.rglob("*"))
    workspace.theirs("sample", shape=TINY, tokens=3)
    assert sorted(path for path in fake_nanogpt.rglob("*")) == before
    assert (workspace.nanogpt / "data/shakespeare_char/train.bin").is_file()
