"""build-nanogpt: its console (where a step's time includes evaluation and sampling) and its log.txt."""

import re
from collections.abc import Iterable

from nanoscope.runs.fields import number, read_fields
from nanoscope.runs.formats.base import Format, Line, named, step_record
from nanoscope.runs.records import EvalRecord, OtherRecord, Record, StepRecord
from nanoscope.runs.run import Traits

_STEP = re.compile(r"step:?\s{0,8}(\d{1,9})\s{0,4}[|,]\s{0,4}(?:train )?loss:?\s{1,4}(\S{1,24}?)(?=[\s|,]|$)")
_LOG_TXT_VALUE = r"\d{1,6}\.\d{1,10}|nan|inf"


class BuildNanoGPT(Format):
    name = "build-nanogpt"
    traits = Traits(
        trains_language_models=True,
        last_is_total_minus_one=True,
        evaluation_in="same",
        evaluates_every=250,
        evaluates_last=True,
        total_keys=("max_steps",),
    )
    lines = (
        Line(
            EvalRecord,
            r"^\W{0,4}(?:step:?\s{0,8}{step}\s{0,4}[|,:]\s{0,4})?val(?:idation)?[ _]loss:?\s{1,4}{val}\s{0,4}$",
            "loss",
        ),
        Line(StepRecord, rf"(?:^|[^\d.]){{step}} train (?P<loss>{_LOG_TXT_VALUE})\s{{0,4}}$", " train "),
        Line(EvalRecord, rf"(?:^|[^\d.]){{step}} val (?P<val>{_LOG_TXT_VALUE})\s{{0,4}}$", " val "),
        Line(OtherRecord, rf"(?:^|[^\d.])\d{{1,9}} hella (?:{_LOG_TXT_VALUE})\s{{0,4}}$", " hella "),
    )
    priority = -1  # its step line is so plain that it also fits other trainers' lines
    settings = named("max_steps total_batch_size warmup_steps")
    header = (
        ("tokens_per_step", r"total desired batch size\s?[:=]?\s?([\d,]+)"),
        ("train_tokens", r"loaded ([\d,]+) tokens"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._val: float | None = None  # printed without a step, before the step line that it belongs to

    def parse(self, line: str) -> Iterable[Record]:
        found = _STEP.search(line)
        fields = read_fields(line[found.start() :]) if found else None
        if found and fields and ("time_s" in fields or "tok_s" in fields):
            step = int(found[1])
            yield step_record(step, fields, loss=number(found[2]))
            if self._val is not None:
                yield EvalRecord(step, self._val)
                self._val = None
            return
        for record in super().parse(line):
            if isinstance(record, EvalRecord) and record.step is None:
                self._val = record.val
                record = OtherRecord("eval")
            yield record

    def end(self) -> None:
        if self._val is not None and self.builder.last_step is not None:
            self.builder.place(EvalRecord(self.builder.last_step + 1, self._val))
