"""`nanoscope.evaluate`: the loss of models on a text."""

import json
from pathlib import Path

import pytest

import nanoscope
from conftest import Nanoscope
from nanoscope.findings.scores import Scores

Found = nanoscope.Answer[Scores]


@pytest.fixture(scope="module")
def dataset(small_run: Path) -> Path:
    return small_run.parent / "data/song"


@pytest.fixture(scope="module")
def evaluation(small_run: Path, dataset: Path) -> Found:
    return nanoscope.evaluate(small_run, dataset=dataset, device="cpu", lang="en")


def test_the_loss_of_a_run_has_an_error_is_that_of_its_training_and_can_be_read(
    evaluation: Found, small_run: Path
) -> None:
    (score,) = evaluation.found.scores
    assert score.loss == pytest.approx(nanoscope.Run(small_run).best_val_loss, rel=0.05)
    assert score.error is not None
    assert 0 < score.error < 0.1
    assert (evaluation.found.complete, evaluation.notes) == (True, [])
    assert "perplexity" in str(evaluation)
    assert "<pre" in evaluation._repr_html_()


@pytest.mark.slow
def test_the_document_is_that_of_the_command(
    evaluation: Found, small_run: Path, dataset: Path, nanoscope: Nanoscope
) -> None:
    printed = nanoscope(
        "eval", small_run, f"--dataset={dataset}", "--device=cpu", "--json", cwd=small_run.parent
    ).stdout
    assert evaluation.json() == json.loads(printed)


def test_models_are_compared_on_the_same_windows(small_run: Path, dataset: Path) -> None:
    models = [small_run, small_run / "checkpoints/step-000002"]
    both = nanoscope.evaluate(models, dataset=dataset, windows=4, device="cpu").found
    one, two = both.scores
    assert one.loss == two.loss
    assert (one.windows, two.windows, both.differences) == (4, 4, ())  # it is the same checkpoint


def test_a_text_file_is_a_dataset(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("row, row, row your boat gently\n" * 40, "utf-8")
    assert nanoscope.evaluate(small_run, dataset=tmp_path / "other.txt").found.scores[0].loss is not None


def test_wrong_arguments_are_usage_errors(small_run: Path) -> None:
    for wrong in ({"models": []}, {"windows": 0}):
        with pytest.raises(nanoscope.UsageError):
            nanoscope.evaluate(**{"models": small_run, **wrong})  # type: ignore[arg-type]
