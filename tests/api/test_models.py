"""`nanoscope.load`: text from a trained model."""

from pathlib import Path

import pytest
import torch

import nanoscope
from conftest import Nanoscope


@pytest.fixture(scope="module")
def model(small_run: Path) -> nanoscope.Model:
    return nanoscope.load(small_run, device="cpu")


def test_the_text_begins_with_the_prompt_and_depends_on_the_seed(model: nanoscope.Model) -> None:
    texts = [model.generate("row", max_new_tokens=20, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert all(text.startswith("row") and len(text) == 23 for text in texts)


@pytest.mark.slow
def test_the_text_is_that_of_the_command(model: nanoscope.Model, small_run: Path, nanoscope: Nanoscope) -> None:
    words = ("sample", "run", "--prompt", "row", "--max_new_tokens=20", "--device=cpu")
    assert nanoscope(*words, cwd=small_run.parent).stdout == model.generate("row", max_new_tokens=20) + "\n"


def test_the_pieces_of_a_stream_are_the_text(model: nanoscope.Model) -> None:
    pieces = list(model.stream("row", max_new_tokens=20))
    assert pieces[0] == "row"
    assert len(pieces) == 21
    assert "".join(pieces) == model.generate("row", max_new_tokens=20)


def test_several_samples_are_a_list(model: nanoscope.Model) -> None:
    texts = model.samples("row", 3, max_new_tokens=5)
    assert [text[:3] for text in texts] == ["row"] * 3
    assert model.samples("row", 1, max_new_tokens=5) == [model.generate("row", max_new_tokens=5)]
    with pytest.raises(nanoscope.UsageError, match="count must be positive"):
        model.samples("row", 0)


def test_wrong_options_are_reported(model: nanoscope.Model) -> None:
    with pytest.raises(nanoscope.UsageError, match="temperature must be"):
        model.generate(temperature=-1)
    with pytest.raises(nanoscope.UsageError, match="does not know 'ж'"):
        model.generate("ж")
    with pytest.raises(nanoscope.UsageError, match="is not a model"):
        nanoscope.load("runs/missing")


def test_weights_that_are_not_numbers_are_a_job_error(small_run: Path) -> None:
    model = nanoscope.load(small_run, device="cpu")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(nanoscope.JobError, match="invalid probabilities"):
        model.generate("row")


def test_a_stream_leaves_torch_as_it_was_between_the_pieces(model: nanoscope.Model) -> None:
    stream = model.stream("row", max_new_tokens=3)
    next(stream), next(stream)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_a_model_says_what_it_is(model: nanoscope.Model, small_run: Path) -> None:
    assert (model.opened.name, model.opened.step, model.notes) == ("run", 2, [])
    assert f"{model.module.parameter_count():,} parameters" in repr(model)
    assert nanoscope.Run(small_run).load("last").opened.step == 2
