"""`nanoscope.evaluate`: the loss of models on a text."""

import json
from pathlib import Path

import pytest

import nanoscope
from conftest import Nanoscope


@pytest.fixture(scope="module")
def dataset(small_run: Path) -> Path:
    return small_run.parent / "data/song"


@pytest.fixture(scope="module")
def found(small_run: Path, dataset: Path) -> nanoscope.Evaluation:
    return nanoscope.evaluate(small_run, dataset=dataset, device="cpu", lang="en")


def test_the_loss_of_a_run_has_an_error_and_is_that_of_its_training(
    found: nanoscope.Evaluation, small_run: Path
) -> None:
    assert found.loss == pytest.approx(nanoscope.Run(small_run).best_val_loss, rel=0.05)
    assert found.error is not None
    assert 0 < found.error < 0.1
    assert (found.complete, found.notes) == (True, [])
    assert repr(found).startswith("<Evaluation of run on ")


@pytest.mark.slow
def test_the_document_is_that_of_the_command(
    found: nanoscope.Evaluation, small_run: Path, dataset: Path, nanoscope: Nanoscope
) -> None:
    printed = nanoscope(
        "eval", small_run, f"--dataset={dataset}", "--device=cpu", "--json", cwd=small_run.parent
    ).stdout
    assert found.json() == json.loads(printed)


def test_it_shows_itself_as_text_and_in_a_notebook(found: nanoscope.Evaluation) -> None:
    assert "perplexity" in str(found)
    assert "<div" in found._repr_html_()


def test_models_are_compared_on_the_same_windows(small_run: Path, dataset: Path) -> None:
    models = [small_run, small_run / "checkpoints/step-000002"]
    both = nanoscope.evaluate(models, dataset=dataset, windows=4, device="cpu")
    one, two = both.scores
    assert one.loss == two.loss
    assert (one.windows, two.windows, both.differences) == (4, 4, ())  # it is the same checkpoint


def test_a_text_file_is_a_dataset(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("row, row, row your boat gently\n" * 40, "utf-8")
    assert nanoscope.Run(small_run).evaluate(dataset=tmp_path / "other.txt").loss is not None


@pytest.mark.parametrize("wrong", [{"models": []}, {"windows": 0}])
def test_wrong_arguments_are_usage_errors(small_run: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(nanoscope.UsageError):
        nanoscope.evaluate(**{"models": small_run, **wrong})  # type: ignore[arg-type]
