"""modded-nanogpt and its descendants: one cumulative training clock, with evaluations outside it."""

import re
from collections.abc import Iterable

from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import EndRecord, EvalRecord, Record, StepRecord
from nanoscope.runs.run import Traits

_LAST_EVALUATION = re.compile(r"step:(\d{1,9})/\1\s{1,4}(?:\|\s{1,4})?val_loss")


class ModdedNanoGPT(Format):
    name = "modded-nanogpt"
    traits = Traits(trains_language_models=True, last_is_total_minus_one=False, evaluation_in="none")
    lines = (
        Line(
            EvalRecord,
            r"step:{step}/{total}\s{1,4}(?:\|\s{1,4})?val_loss[: ]{val}\s{1,4}",
            "train_time",
            rest=("elapsed_s",),
        ),
        Line(
            StepRecord,
            r"step:{step}/{total}\s{1,4}(?:\|\s{1,4})?(?:(?:train_)?loss[: ]{loss}\s{1,4})?",
            "train_time",
            needs=("elapsed_s",),
        ),
    )
    settings = named(
        "iterations num_iterations save_every train_steps world_size",
        model_dim="n_embd", num_layers="n_layer", sequence_length="block_size", val_loss_every="eval_interval",
    )  # fmt: skip

    def parse(self, line: str) -> Iterable[Record]:
        records = super().parse(line)
        if not records and "window_size" in line:  # the script is in the log: its attention window follows a schedule
            self.builder.facts["window_grows"] = True
        return (*records, EndRecord()) if records and _LAST_EVALUATION.search(line) else records
