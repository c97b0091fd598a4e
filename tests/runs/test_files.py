# ruff: noqa: E501 (a log line is as long as it is)
"""Files that are no console logs: they are told by their content and read like any other log."""

import gzip
import io
import json

import pytest

from nanoscope.errors import JobError
from nanoscope.runs.reader import read_stream

CONSOLE = "".join(f"iter {s}: loss {4 - s / 100:.4f}, time 100.00ms, mfu 3.00%\n" for s in range(0, 50, 10))


def notebook(*outputs: dict) -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["iter 900: loss 0.1, time 1.00ms"]},
        {"cell_type": "code", "source": ["print('iter 990: loss 0.1, time 1.00ms')"], "outputs": list(outputs)},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def test_the_outputs_of_a_notebook_are_read_and_its_source_is_not(read) -> None:
    log = read(notebook({"output_type": "stream", "name": "stdout", "text": CONSOLE.splitlines(keepends=True)}))

    assert log.format == "nanogpt"
    assert [list(run.steps.step) for run in log.runs] == [[0, 10, 20, 30, 40]]


def test_the_table_on_a_notebooks_page_is_read(read) -> None:
    rows = "".join(
        f"<tr>\n <td>{s}</td>\n <td>{3 - s / 100:.6f}</td>\n <td>2.500000</td>\n</tr>\n" for s in (10, 20, 30)
    )
    page = f"[30/60 00:30 &lt; 00:30, 1.00 it/s, Epoch 0/1]<table><tr><th>Step</th>\n<th>Training Loss</th>\n<th>Validation Loss</th></tr>\n{rows}</table>"
    (run,) = read(notebook({"output_type": "display_data", "data": {"text/html": page, "text/plain": "<object>"}})).runs

    assert list(run.steps.step) == [10, 20, 30]
    assert list(run.steps.loss) == pytest.approx([2.9, 2.8, 2.7])
    assert [e.val for e in run.evals] == [2.5, 2.5, 2.5]
    assert run.total_steps == 60


def test_the_error_of_a_notebooks_cell_is_found(read) -> None:
    outputs = [
        {"output_type": "stream", "text": CONSOLE},
        {"output_type": "error", "traceback": ["Traceback (most recent call last)", "ValueError: shapes differ"]},
    ]

    assert [error.message for error in read(notebook(*outputs)).errors] == ["ValueError: shapes differ"]


@pytest.mark.parametrize("indent", [2, None])
def test_the_trainer_state_of_hugging_face_is_read(read, indent) -> None:
    history = [
        {"epoch": s / 50, "grad_norm": 1.5, "learning_rate": 1e-5, "loss": 3 - s / 50, "step": s} for s in (10, 20, 30)
    ]
    history += [{"epoch": 0.6, "eval_loss": 2.25, "eval_runtime": 3.5, "step": 30}]
    state = {
        "best_metric": None,
        "epoch": 0.6,
        "global_step": 30,
        "log_history": history,
        "logging_steps": 10,
        "max_steps": 50,
    }
    log = read(json.dumps(state, indent=indent))

    (run,) = log.runs
    assert log.format == "hf-trainer"
    assert list(run.steps.step) == [10, 20, 30]
    assert [(e.step, e.val, e.seconds) for e in run.evals] == [(30, 2.25, 3.5)]
    assert run.config["max_steps"] == 50


def test_a_compressed_log_is_unpacked(read) -> None:
    assert [len(run.steps) for run in read(gzip.compress(CONSOLE.encode())).runs] == [5]


def test_a_compressed_log_that_is_damaged_is_reported() -> None:
    damaged = gzip.compress(CONSOLE.encode() * 100)[:60]

    with pytest.raises(JobError, match="Cannot unpack"):
        read_stream(io.BytesIO(damaged), "train.log.gz")


def test_a_log_compressed_twice_is_unpacked_and_one_compressed_300_times_is_refused(read) -> None:
    packed = CONSOLE.encode()
    assert [len(run.steps) for run in read(gzip.compress(gzip.compress(packed))).runs] == [5]
    for _ in range(300):
        packed = gzip.compress(packed)
    with pytest.raises(JobError, match="compressed 4 times or more"):
        read(packed)


@pytest.mark.parametrize("start", ['{"cells": [', '{"nbformat": 4,', '{"best_metric": null, "log_history": ['])
def test_a_log_that_only_begins_like_a_notebook_is_read_as_text(read, start) -> None:
    assert [len(run.steps) for run in read(f"{start}\n{CONSOLE * 1}").runs] == [5]
