"""The numbers that concepts are explained with are those of the findings, whatever the log."""

import io
import json
import math

import pytest

import example_logs
import generated_logs
from nanoscope.findings.analyse import analyse
from nanoscope.findings.known import Numbers, known_numbers
from nanoscope.runs.reader import read_stream
from nanoscope.words.concepts import CONCEPTS
from nanoscope.words.language import Language


def numbers_of(text: str) -> list[Numbers]:
    log = read_stream(io.BytesIO(text.encode()), "train.log")
    return [known_numbers(run, analyse(run, log=log)) for run in log.runs]


def settings(*lines: str) -> Numbers:
    (numbers,) = numbers_of(generated_logs.nanogpt(50, head=lines))
    return numbers


def test_the_loss_is_that_of_the_last_evaluation_and_its_perplexity_belongs_to_it():
    (numbers,) = numbers_of(example_logs.gpu())
    assert numbers.get("loss") == numbers.get("val")
    assert numbers.get("perplexity") == pytest.approx(math.exp(numbers.get("loss")))


def test_a_printed_mfu_is_a_number_of_the_log_also_where_it_is_not_believed():
    (numbers,) = numbers_of(generated_logs.nanogpt(200))
    assert numbers.get("mfu") is None
    assert "A100" in CONCEPTS["mfu"].teach(numbers, Language("en")).here


def test_without_evaluations_it_is_the_training_loss():
    (numbers,) = numbers_of(generated_logs.nanogpt(200))
    assert numbers.get("loss") == numbers.get("train")
    assert numbers.get("val") is None


def test_settings_come_from_the_log():
    numbers = settings("Overriding: batch_size = 12", "Overriding: block_size = 64", "Overriding: dropout = 0.0")
    assert (numbers.get("batch_size"), numbers.get("block_size"), numbers.get("at_once")) == (12, 64, 12 * 64)
    assert numbers.get("dropout") == 0.0


def test_settings_that_make_no_sense_are_not_used():
    numbers = settings("Overriding: batch_size = -3", "Overriding: block_size = nan", "Overriding: seed = many")
    assert (numbers.get("batch_size"), numbers.get("block_size"), numbers.get("seed")) == (None, None, None)


@pytest.mark.parametrize(("figures", "memory"), [({"gpu_peak_gb": 10.5, "gpu_gb": 2}, 10.5), ({"gpu_gb": 2}, 2)])
def test_memory_is_the_peak_of_the_gpu_where_it_is_known(figures: dict[str, float], memory: float):
    events = [{"event": "iter", "step": step, "loss": 4 - step / 10, "seconds": 1, **figures} for step in range(3)]
    (numbers,) = numbers_of("\n".join(json.dumps(event) for event in [{"event": "start", "version": 1}, *events]))
    assert numbers.get("memory_gb") == memory


@pytest.mark.slow
@pytest.mark.parametrize("code", ["en", "ar"])
def test_no_sentence_about_a_generated_log_has_a_hole(code):
    language = Language(code)
    for text in generated_logs.LOGS.values():
        for numbers in numbers_of(text):
            said = " ".join(concept.teach(numbers, language).here for concept in CONCEPTS.values())
            assert "None" not in said
            assert "—" not in said
