"""The results of the comparison with nanoGPT: the table and the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nanogpt.results import markdown, number, table, write_markdown
from nanoscope.errors import JobError

FACTS = {"cpu": "Abacus", "threads": 2, "platform": "Linux", "python": "3.11", "torch": "2.9", "nanoscope": "0.1",
         "dtype": "float32"}  # fmt: skip
SAMPLE = {"sample_seconds": 3.0, "sample_nanogpt_seconds": 60.0, "sample_ratio": 20.5, "sample_ratio_low": 18.0,
          "sample_ratio_high": 21.0}  # fmt: skip


def line_of(text: str, what: str) -> str:
    (found,) = [line for line in text.splitlines() if what in line]
    return " ".join(found.split())


def test_a_line_shows_both_sides_the_ratio_with_its_spread_and_the_targets() -> None:
    shown = line_of(table(FACTS | SAMPLE), "1,000 tokens, 6×384")
    assert "≥ 8 ≥ 20 20.5 (18.0 to 21.0) 3.00 s 60.0 s aim reached" in shown


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(2.0, "aim reached"), (1.99, "reached"), (1.3, "reached"), (1.29, "not reached")]
)
def test_a_ratio_is_reached_from_its_target_up(ratio: float, verdict: str) -> None:
    result = {"step_4x128_ms": 1.0, "step_4x128_nanogpt_ms": ratio, "step_4x128_ratio": ratio}
    assert line_of(table(FACTS | result), "step, 4×128").split("ms ")[-1] == verdict


@pytest.mark.parametrize(("times", "verdict"), [(1.0, "aim reached"), (1.1, "reached"), (1.11, "not reached")])
def test_where_lower_is_better_the_target_is_reached_from_above(times: float, verdict: str) -> None:
    result = {"neighbours_times": times, "neighbour_step_ratio": times}
    assert line_of(table(FACTS | result), "step after an evaluation").split("median ")[-1] == verdict


def test_a_loss_that_some_seeds_missed_is_not_reached_however_fast_the_others_were() -> None:
    result = {"time_to_loss_seconds": 5.0, "time_to_loss_ratio": 12.0, "time_to_loss_reached": "4 of 5"}
    assert line_of(table(FACTS | result), "whole command").endswith("not reached (4 of 5 seeds)")


def test_a_loss_that_no_seed_reached_is_not_reached() -> None:
    result = {"time_to_loss_seconds": 5.0, "time_to_loss_reached": "0 of 5"}
    assert line_of(table(FACTS | result), "whole command").endswith("not reached (0 of 5 seeds)")


def test_a_row_that_failed_is_listed_with_its_reason() -> None:
    assert "not measured: prepare: no disk" in table(FACTS | {"prepare_failed": "no disk"})


@pytest.mark.parametrize(("value", "shown"), [(123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (-0.5, "-0.50")])
def test_numbers_have_three_significant_digits(value: float, shown: str) -> None:
    assert number(value) == shown


# --- the file ----------------------------------------------------------------------------------------------------


def written(folder: Path, rows: dict[str, Any], facts: dict[str, Any] = FACTS) -> str:
    write_markdown(folder / "RESULTS.md", facts, rows, "python -m benchmarks.nanogpt --nanogpt PATH")
    return (folder / "RESULTS.md").read_text("utf-8")


def test_a_row_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    written(tmp_path, {"sample": SAMPLE, "prepare": {"prepare_mb_per_second": 40.0}})
    text = written(tmp_path, {"prepare": {"prepare_mb_per_second": 50.0}})
    assert "20.5 (18.0 to 21.0)" in text
    assert "50.0 MB/s" in text
    assert "40.0 MB/s" not in text


def test_a_row_that_failed_leaves_what_was_measured_before(tmp_path: Path) -> None:
    written(tmp_path, {"sample": SAMPLE})
    assert "20.5 (18.0 to 21.0)" in written(tmp_path, {"sample": {"sample_failed": "no luck"}})


def test_each_row_has_the_command_that_measures_it(tmp_path: Path) -> None:
    command = "`python -m benchmarks.nanogpt --nanogpt PATH --only sample`"
    assert f"| sample | {command} |" in written(tmp_path, {"sample": SAMPLE})


def test_sections_that_others_wrote_into_the_file_stay(tmp_path: Path) -> None:
    written(tmp_path, {"sample": SAMPLE})
    with (tmp_path / "RESULTS.md").open("a", encoding="utf-8") as file:
        file.write("\n## Checkpoints\n\n0.1 s\n")
    for _ in range(2):
        text = written(tmp_path, {"prepare": {"prepare_mb_per_second": 50.0}})
        assert text.endswith("nanoscope 0.1, float32.\n\n## Checkpoints\n\n0.1 s\n")
    assert text.count("## Checkpoints") == 1


def test_rows_from_two_machines_say_which(tmp_path: Path) -> None:
    written(tmp_path, {"sample": SAMPLE})
    text = written(tmp_path, {"prepare": {"prepare_mb_per_second": 50.0}}, FACTS | {"cpu": "Slide rule"})
    assert "Machine 1: Abacus" in text
    assert "Machine 2: Slide rule" in text
    assert line_of(text, "--only prepare").endswith("| 2 |")


def test_the_runs_of_each_seed_are_listed(tmp_path: Path) -> None:
    row = {"time_to_loss_seconds": 10.0, "time_to_loss_runs": [10.0, 11.0], "time_to_loss_losses": [1.88, 1.87]}
    text = written(tmp_path, {"time_to_loss": row | {"time_to_loss_target": 1.8982}})
    assert "(val loss, seconds, target 1.8982): seed 1: 1.8800 in 10.0; seed 2: 1.8700 in 11.0." in text


@pytest.mark.parametrize("damage", ["{", "[]", '{"sample": 3}', '{"sample": {"facts": {}, "result": {}}}'])
def test_a_damaged_store_is_reported_and_left_alone(damage: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(damage, "utf-8")
    with pytest.raises(JobError, match=r"results\.json is damaged"):
        written(tmp_path, {"prepare": {"prepare_mb_per_second": 50.0}})
    assert (tmp_path / "results.json").read_text("utf-8") == damage


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match="can't write"):
        written(tmp_path / "file", {"sample": SAMPLE})


def test_the_store_holds_what_was_measured(tmp_path: Path) -> None:
    written(tmp_path, {"sample": SAMPLE})
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["sample"]["result"] == SAMPLE


def test_the_committed_file_is_what_the_committed_store_gives() -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    kept = json.loads((folder / "results.json").read_text("utf-8"))
    assert (folder / "RESULTS.md").read_text("utf-8").startswith(markdown(kept))
