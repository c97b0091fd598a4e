"""LitGPT and Lit-LLaMA: they count iterations, of which several make an optimizer step."""

import re
from collections.abc import Iterable

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EndRecord, EvalRecord, Record, StepRecord
from nanoscope.runs.run import MISSING, Traits

_ITER = re.compile(
    r"iter\s{1,4}(\d{1,12})\s?\|?\s?(?:st[eE]p\s{1,4}(\d{1,12})\s?)?[|:]?\s?"
    r"loss(?: train)?(?: \(curr\))?:?\s{1,4}(\S{1,24}?),?\s{1,4}"
    r"(?:val(?:_loss valid)?(?: \([^)]{1,40}\))?:?\s{1,4}(\S{1,24})\s{1,4})?(?:\|\s)?"
    r"iter time:\s{0,4}([\d.]{1,20})\s?(ms|s)\b"
)


class LitGPT(Format):
    name = "litgpt"
    traits = Traits(trains_language_models=True, last_is_total_minus_one=False, evaluation_in="none", total_keys=())
    lines = (
        Line(
            EvalRecord,
            r"(?:(?:iter|step) {step}: val loss|Final evaluation \| val loss:) (?P<val>\S{1,24}?)(?:,| \||$)"
            r"(?: val time: {eval_ms}\s?ms)?",
            "val loss",
        ),
        Line(StepRecord, r"iter {step}: loss {loss}, time: {time_ms}\s?ms", "time: "),
        Line(EndRecord, "^(?:Training time:|Saving LoRA weights|Saved merged weights)", ""),
        Line(CheckpointRecord, "^Saving checkpoint to", "Saving checkpoint"),
    )
    settings = named(
        "global_batch_size max_steps micro_batch_size save_interval warmup_steps",
        max_seq_len="block_size",
        precision="dtype",
    )

    def __init__(self) -> None:
        super().__init__()
        self._last_val = MISSING  # each line repeats the last validation loss

    def parse(self, line: str) -> Iterable[Record]:
        found = None
        for found in _ITER.finditer(line) if "iter time" in line else ():  # a web page may have joined the lines
            iteration, step, loss, val_text, time, unit = found.groups()
            yield StepRecord(int(iteration), number(loss), number(time) / (1e3 if unit == "ms" else 1))
            val = number(val_text) if val_text else MISSING
            if val == val and not abs(val - self._last_val) < 0.002:
                self._last_val = val
                yield EvalRecord(int(iteration), val)
            self._set_total(int(iteration), int(step or 0))
        if found is None:
            for record in super().parse(line):
                if isinstance(record, EvalRecord):
                    self._last_val = record.val
                yield record

    def _set_total(self, iteration: int, step: int) -> None:
        """max_steps counts optimizer steps: convert it to iterations."""
        run = self.builder.current
        if run is not None and run.total_steps is None and step > 0:
            max_steps, per_step = run.config.get("max_steps"), round(iteration / step)
            if isinstance(max_steps, int) and iteration == per_step * step:
                run.total_steps = max_steps * per_step
