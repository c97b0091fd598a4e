"""makemore."""

from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EvalRecord, StepRecord
from nanoscope.runs.run import Traits


class Makemore(Format):
    name = "makemore"
    traits = Traits(
        trains_language_models=True, last_is_total_minus_one=True, evaluation_in="none", total_keys=("max_steps",)
    )
    lines = (
        Line(StepRecord, r"step {step} \| loss {loss} \| step time {time_ms}\s?ms", "step time"),
        Line(EvalRecord, r"step {step} train loss: {train_loss} test loss: {val}", "test loss"),
        Line(CheckpointRecord, "is the best so far, saving model", "saving model"),
    )
    settings = named("max_steps")
    header = (("vocab_size", r"number of unique characters in the vocabulary\s?:\s?([\d,]+)"),)
