"""The best validation loss among n-gram models: said only of a run that says what those reach on its own text."""

from pathlib import Path

import pytest

from nanoscope import cli
from nanoscope.findings.analyse import analyse
from nanoscope.findings.declared import LossPlace
from nanoscope.ladder import Ladder, Rung
from nanoscope.runs.events import End, Eval, Iter, Resume, Start, encode
from nanoscope.runs.load_many import NamedRun
from nanoscope.runs.reader import read_log
from nanoscope.views.report.payload import Options, describe

LADDER = Ladder("character", 4.17, [3.35, 2.48, 2.04, 1.72], train_tokens=1000, val_tokens=100)


def place(folder: Path, *events: object) -> LossPlace | None:
    (folder / "events.jsonl").write_text("".join(map(encode, events)), "utf-8")  # type: ignore[arg-type]
    (run,) = read_log(str(folder)).runs
    return analyse(run).place


def begun(**fields: object) -> list[object]:
    return [Start(dataset_fingerprint="a", **fields), *(Iter(step=step, loss=2.0) for step in range(20))]  # type: ignore[arg-type]


def test_the_best_evaluation_is_placed_with_its_own_error(tmp_path: Path) -> None:
    evals = [Eval(step=10, val_loss=1.9, val_stderr=0.01), Eval(step=20, val_loss=2.05, val_stderr=0.01)]
    found = place(tmp_path, *begun(ladder=LADDER), *evals)
    assert found is not None
    assert (found.step, found.loss, found.place.better, found.place.worse) == (10, 1.9, Rung(2.04, 2), Rung(1.72, 3))


def test_a_run_without_a_ladder_is_not_placed(tmp_path: Path) -> None:
    assert place(tmp_path, *begun(vocab_size=65), Eval(step=20, val_loss=1.9)) is None


def test_a_loss_that_is_not_finite_is_not_placed(tmp_path: Path) -> None:
    assert place(tmp_path, *begun(ladder=LADDER), Eval(step=20, val_loss=None)) is None


@pytest.mark.parametrize(("fingerprint", "is_placed"), [("a", True), ("b", False)])
def test_after_a_resume_on_other_data_nothing_is_placed(tmp_path: Path, fingerprint: str, is_placed: bool) -> None:
    start = Start(dataset_fingerprint=fingerprint, ladder=LADDER, first_step=20)
    again = [
        start,
        Resume(step=20),
        Iter(step=20, loss=2.0),
        Eval(step=21, val_loss=1.8),
        End(reason="finished", step=21),
    ]
    assert (place(tmp_path, *begun(ladder=LADDER), *again) is not None) == is_placed


def test_the_json_of_explain_has_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    place(tmp_path, *begun(ladder=LADDER), Eval(step=20, val_loss=1.9, val_stderr=0.01))
    assert cli.run(["explain", str(tmp_path), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["place"]["place"]["better"] == {"loss": 2.04, "known": 2}


def test_the_loss_chart_gets_the_rungs_with_their_names_in_every_language(tmp_path: Path) -> None:
    place(tmp_path, *begun(ladder=LADDER), Eval(step=20, val_loss=1.9, val_stderr=0.01))
    log = read_log(str(tmp_path))
    page = describe([NamedRun("mine", "", log.runs[0], log)], Options(), "en")
    assert page.runs[0].rungs == [3.35, 2.48, 2.04, 1.72]
    assert page.words["en"].runs[0].rungs[1:3] == [
        "knowing the last character",
        "knowing the last 2 characters",
    ]
    assert {len(words.runs[0].rungs) for words in page.words.values()} == {4}
