"""What the comparison of diagnosis tools counts as right, wrong and silent."""

from pathlib import Path

import pytest

from benchmarks.diagnosis import RIGHT, SILENT, WRONG, Log, curves, evaluations, read_key
from benchmarks.diagnosis_tools import Answer
from nanoscope.runs.reader import read_log


def log(*faults: str, also: tuple[str, ...] = (), training: bool = True) -> Log:
    return Log(1, Path("1.log"), "", frozenset(faults), frozenset(also), training, ())


def answer(*problems: str, hints: tuple[str, ...] = (), read: bool = True) -> Answer:
    return Answer(read, set(problems), set(hints))


@pytest.mark.parametrize(
    ("truth", "said", "outcome"),
    [
        (log("overfitting"), answer("overfitting"), RIGHT),
        (log("overfitting"), answer(hints=("overfitting",)), RIGHT),
        (log("non_finite"), answer("diverged"), RIGHT),
        (log("overfitting"), answer(), SILENT),
        (log("overfitting"), answer(read=False), SILENT),
        (log("overfitting"), answer("overfitting", "plateau"), WRONG),
        (log("overfitting", also=("slow",)), answer("overfitting", "slow"), RIGHT),
        (log("diverged"), answer("improving"), WRONG),
        (log("slow"), answer("improving", "slow"), RIGHT),
        (log(), answer(), RIGHT),
        (log(), answer("improving"), RIGHT),
        (log(), answer("plateau"), WRONG),
        (log(), answer(hints=("plateau",)), RIGHT),
        (log(), answer(read=False), SILENT),
        (log(training=False), answer(read=False), RIGHT),
        (log(training=False), answer("plateau"), WRONG),
    ],
)
def test_what_is_right_wrong_and_silent(truth: Log, said: Answer, outcome: str) -> None:
    assert truth.outcome(said) == outcome


def test_a_log_is_known_by_the_number_its_name_begins_with(tmp_path: Path) -> None:
    (tmp_path / "072_whatever.log").write_text("")
    (found,) = read_key([tmp_path], {"072_whatever.log": {"args": ["--max_iters=9"]}})
    assert found.faults == {"overfitting"}
    assert found.options == ("--max_iters=9",)


def test_a_key_that_contradicts_the_facts_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "072.log").write_text("")
    read_key([tmp_path], {"072.log": {"checks": [{"path": "runs[0].verdicts", "lacks": "overfitting"}]}})
    assert "72: the key has {'overfitting'}, which is expected not to be said" in capsys.readouterr().err


LINES = """\
step 0: train loss 4.2000, val loss 4.2100
iter 0: loss 4.2000, time 900.00ms, mfu -100.00%
iter 10: loss 3.1000, time 100.00ms, mfu 1.00%
iter 20: loss nan, time 100.00ms, mfu 1.00%
step 20: train loss 2.9000, val loss 3.0000
"""


def test_other_tools_get_the_numbers_of_the_log_as_a_table(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LINES)
    (run,) = read_log(str(tmp_path / "log")).runs
    rows = curves(run)
    assert [(row["step"], row.get("loss"), row.get("eval_loss")) for row in rows] == [
        (0, 4.2, 4.21),
        (10, 3.1, None),
        (20, float("inf"), 3.0),
    ]
    assert [(row["step"], row["loss"], row["eval_loss"]) for row in evaluations(run)] == [
        (0, 4.2, 4.21),
        (20, 2.9, 3.0),
    ]
