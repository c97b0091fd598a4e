"""minGPT: the present trainer, and the first one with a progress bar for every epoch."""

from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EvalRecord, StepRecord
from nanoscope.runs.run import Traits


class MinGPT(Format):
    name = "mingpt"
    # iter_dt is the time of one iteration; sampling and saving fall into the next one, which is not printed.
    traits = Traits(
        trains_language_models=True, last_is_total_minus_one=False, evaluation_in="none", total_keys=("max_iters",)
    )
    lines = (
        Line(StepRecord, r"iter_dt {time_ms}ms; iter {step}: train loss {loss}", "iter_dt"),
        Line(
            StepRecord,
            r"epoch {epoch} iter {step}: train loss (?P<loss>\d{1,6}\.\d{1,10}|nan|inf)\.? lr (?P<lr>[\d.e+-]{1,16})"
            r"(?:.*?, {1,4}(?:{steps_s}it/s|{time_s}s/it))?",
            "epoch ",
        ),
        Line(CheckpointRecord, r"saving (?:model(?: with new top score.{0,40})?|\S{1,200}\.pt\w?)\s{0,4}$", "saving "),
        Line(EvalRecord, r"\btest loss: {val}$", "test loss"),
    )
    settings = named("model_type")
    header = (
        ("vocab_size", r"data has [\d,]+ characters, ([\d,]+) unique"),
        ("train_tokens", r"data has ([\d,]+) characters"),
    )
