# ruff: noqa: E501 (a log line is as long as it is)
"""Reading files, directories and whatever else somebody may pass."""

import io
import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoscope.errors import JobError
from nanoscope.findings.analyse import Options, analyse
from nanoscope.findings.compare import compare
from nanoscope.findings.schema import explain_json
from nanoscope.runs.reader import read_log, read_stream
from nanoscope.runs.run import Log


def test_a_missing_file_is_reported_with_a_similar_name(tmp_path) -> None:
    (tmp_path / "train.log").write_text("iter 0: loss 4.0, time 9.00ms\n", encoding="utf-8")

    with pytest.raises(JobError, match=r"no file .*trian\.log.*Did you mean .*train\.log"):
        read_log(str(tmp_path / "trian.log"))


def test_a_directory_that_is_not_a_run_is_reported(tmp_path) -> None:
    with pytest.raises(JobError, match=r"directory.*events\.jsonl"):
        read_log(str(tmp_path))


def test_the_directory_of_a_run_is_read_through_its_events(tmp_path) -> None:
    (tmp_path / "events.jsonl").write_text(
        '{"event": "iter", "step": 3, "loss": 2.5, "seconds": 0.1}\n', encoding="utf-8"
    )

    log = read_log(str(tmp_path))
    assert log.format == "nanoscope"
    assert log.source == str(tmp_path)


def test_explaining_another_trainers_log_loads_nothing_of_nanoscopes_own_runs(tmp_path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {s}: loss 4.0, time 9.00ms, mfu 5.00%\n" for s in range(9)), encoding="utf-8")
    explain = f"import sys; from nanoscope import cli; cli.run(['explain', {str(log)!r}]); print(*sys.modules)"

    printed = subprocess.run([sys.executable, "-c", explain], capture_output=True, text=True, check=True).stdout

    loaded = printed.splitlines()[-1].split()
    assert "nanoscope.runs.assemble" in loaded
    assert {"nanoscope.runs.own", "nanoscope.runs.events", "msgspec"}.isdisjoint(
        loaded
    )  # loading them takes longer than reading a short log


PIECES = [
    "iter ", "step ", "step:", "loss ", "loss: ", "val loss ", "nan", "inf", "-100.00%", "1e999", "999999999999999999999",
    " | ", ", ", "ms", "time ", "dt: ", "tok/sec: ", "{'loss': ", "'}", "\x1b[31m", "^[[A", "\r", "\n", "\r\n", "\t", "> ", "```",
    '{"event": "iter", "step": ', '"loss": null}', "Traceback (most recent call last):", "KeyboardInterrupt", "Epoch 1 | iter ",
    " 10%|##  | 1/9 [00:01<00:08]", "train loss ", "mfu ", "=", "--max_iters=", "0", "7", ".5", "saving checkpoint to out",
    "Epoch 1/5\n", "Epoch: [1]  [2/6]  ", "200/200 [====] - 3s 9ms/step - ", "val_loss: ", "| step | loss |\n", "step\ttrain loss\n", "1\t2.5\n",
    "<td>", "</td>", "&lt;", '{"cells": [', '{"log_history": [', "eta: 1 day, 2:03:04 ", "It/sec ", " 2.5 loss, ", "[5]: loss=", "reducing to 3",
    "Train: 0 [ 5/9 ( 4%)] ", "Progress on:train 1it/9it rate:2.0it/s remaining:1:00 elapsed:0:01 postfix:loss=2", "ppl=", "num_updates=",
    "Resuming training from step 2", "validation loss: ", "train_time:", "12ms", "2031-01-01 00:00:00,1 ", "\x00", "é", "\ufeff",
]  # fmt: skip


def explained(log: Log, options: Options) -> dict[str, Any]:
    return explain_json(log, [analyse(run, options, log) for run in log.runs])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=120).map("".join))
def test_any_text_made_of_log_pieces_gives_valid_json(text) -> None:
    log = read_stream(io.BytesIO(text.encode()), "-")

    document = explained(log, Options(max_iters=1000))
    assert document["schema"] == "nanoscope.explain/1"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_can_be_read(data) -> None:
    if not data.startswith(b"\x1f\x8b"):  # a damaged gzip file is refused
        explained(read_stream(io.BytesIO(data), "-"), Options())


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda v: (
            st.lists(v, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["cells", "outputs", "data", "text", "text/html", "log_history", "loss", "step", "traceback"]
                ),
                v,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_document_in_the_shape_of_a_notebook_or_state_can_be_read(value) -> None:
    for document in ({"cells": value, "nbformat": 4}, {"best_metric": 1, "log_history": value}):
        explained(read_stream(io.BytesIO(json.dumps(document).encode()), "-"), Options())


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_log_with_damaged_bytes_can_be_read(rng: random.Random) -> None:
    lines = [f"iter {s}: loss {4 - s / 100:.4f}, time 100.{s % 10}0ms, mfu 5.00%" for s in range(60)]
    data = bytearray("\n".join(lines).encode())
    for _ in range(rng.randrange(1, 200)):
        data[rng.randrange(len(data))] = rng.randrange(256)

    explained(read_stream(io.BytesIO(bytes(data)), "-"), Options(max_iters=100))


ABSURD = [
    "--max_iters=1e999 --num_epochs=1e999\nstep 1 loss 4.0\nstep 2 loss 3.9\n",
    " 10%|#| 1/9 [00:01<00:08, 13..3it/s, loss=2.5]\n" * 4,
    "".join(f"{{'loss': 1e9{s}, 'learning_rate': 1e99999, 'epoch': 0.{s}}}\n" for s in range(1, 6)),
    "".join(f"Epoch [999999999999][{s}/999999999999] loss: 2.{s} eta: 9999 days, 23:59:59\n" for s in range(1, 6)),
    "step 1/9e999 loss: 4.0\n" * 3,
    "".join(f"iter {s}: loss {10.0 ** (s % 300)}, time 1e-300ms, mfu 5.00%\n" for s in range(60)),
    "".join(f"iter {s}: loss 0.0, time 99999999999.00ms, mfu 999999.00%\n" for s in range(60)),
    "".join(f"step {s}: train loss nan, val loss {s % 2}.0000\niter {s}: loss -1.0, time 0.01ms\n" for s in range(60)),
    "iter 999999999999: loss 1.0, time 1.00ms\niter 0: loss 1.0, time 1.00ms\n" * 30,
]


@pytest.mark.parametrize("text", ABSURD)
def test_absurd_numbers_can_be_analysed(text) -> None:
    log = read_stream(io.BytesIO(text.encode()), "-")

    explained(log, Options(max_iters=10))
    if len(log.runs) > 1:
        compare(log.runs[:2], ["a", "b"])


REPEATED = [
    "Epoch [",
    "1:00 ",
    "━",
    "%|",
    "[1/2] ",
    "1h2m",
    "&amp;",
    "step=1,",
    "saved model ",
    "2031-01-01 10:00:00 ",
    "[INFO]",
    "iter 1: ",
    "a=",
    "--a_a_a-a",
    "loss ",
    "1,000,",
    "| a ",
    "'a': ",
    "9" * 50,
    "A.",
    "step 1 | loss ",
    "[",
    "Error: ",
    "e",
    " ",
]


@pytest.mark.parametrize("piece", REPEATED)
def test_long_lines_that_repeat_one_piece_can_be_read(piece) -> None:
    line = (piece * 8000)[:8000]
    log = read_stream(io.BytesIO((line + "\n").encode() * 40), "-")

    assert log.lines == 40
