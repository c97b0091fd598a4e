"""Which values of a log are said to be understood, and which columns are not used."""

import io

import pytest

from nanoscope.findings.analyse import analyse
from nanoscope.findings.declared import Reading
from nanoscope.runs.reader import read_stream


def reading(line: str) -> Reading:
    """Of a log with this line at steps 10 to 90, as '{step}' and '{loss}'."""
    text = "".join(line.format(step=step, loss=f"{4 - step / 100:.3f}") + "\n" for step in range(10, 100, 10))
    (run,) = read_stream(io.BytesIO(text.encode()), "train.log").runs
    return analyse(run).reading


def test_what_was_read_is_named_in_plain_words() -> None:
    line = "step={step} loss={loss} val_loss=4.1 lr=1e-3 grad_norm=0.5 dt=0.25s tok/s=8000 mem=3.1GB eta=0:10:00"

    assert reading(line) == Reading(
        ("step", "loss", "time", "lr", "grad_norm", "tokens_per_second", "val_loss", "eta", "memory"), ()
    )


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        ("step={step} loss={loss} acc=0.5 dt=0.25s", ("acc",)),
        ("it: {step}  loss: {loss} (3.9)  loss_box: 0.5  loss_mask: 0.25", ("loss_box", "loss_mask")),
        ('{{"step": {step}, "loss": {loss}, "wer": 0.4, "samples_per_second": 33.0}}', ("wer", "samples_per_second")),
        ("update {step}, loss {loss}, accuracy 0.5, took 2.5 s", ("accuracy",)),
        ("step={step} loss_box=0.5 loss={loss}", ("loss_box",)),
        ("[2026-01-05 10:00:{step}] rank=0 step={step} loss={loss}", ()),
    ],
)
def test_columns_that_are_not_used_are_named(line: str, ignored: tuple[str, ...]) -> None:
    assert reading(line).ignored == ignored


def test_a_column_of_a_table_is_named_as_in_its_head() -> None:
    text = "step,loss,top acc\n" + "".join(f"{step},{4 - step / 100},0.5\n" for step in range(10, 100, 10))
    (run,) = read_stream(io.BytesIO(text.encode()), "metrics.csv").runs

    assert analyse(run).reading.ignored == ("top acc",)
