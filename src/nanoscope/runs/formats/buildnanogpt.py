"""build-nanogpt: its console (time includes evaluation and sampling) and its log.txt."""

import re

from nanoscope.runs.fields import number, read_fields
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Traits
from nanoscope.runs.text import without_prefix

_STEP = re.compile(r"step:?\s{0,8}(\d{1,9})\s{0,4}[|,]\s{0,4}(?:train )?loss:?\s{1,4}(\S{1,24}?)(?=[\s|,]|$)")
_VALIDATION = re.compile(
    r"^\W{0,4}(?:step:?\s{0,8}(\d{1,9})\s{0,4}[|,:]\s{0,4})?val(?:idation)?[ _]loss:?\s{1,4}(\S{1,24})\s{0,4}$"
)
_LOG_TXT = re.compile(r"(?:^|[^\d.])(\d{1,9}) (train|val|hella) (\d{1,6}\.\d{1,10}|nan|inf)\s{0,4}$")


class BuildNanoGPT(Format):
    name = "build-nanogpt"
    traits = Traits(last_is_total_minus_one=True, evaluation_in="same", total_keys=("max_steps",))

    def __init__(self) -> None:
        super().__init__()
        self._val: float | None = None  # printed before the step line it belongs to

    def read(self, line: str) -> str | None:
        found = _STEP.search(line)
        if found:
            fields = read_fields(line[found.start() :])
            if "time_s" in fields or "tok_s" in fields:
                step = int(found[1])
                self.log.step(
                    step,
                    number(found[2]),
                    fields.get("time_s"),
                    lr=fields.get("lr"),
                    grad_norm=fields.get("grad_norm"),
                    tok_s=fields.get("tok_s"),
                )
                if self._val is not None:
                    self.log.evaluation(step, self._val)
                    self._val = None
                return "step"
        validation = _VALIDATION.match(without_prefix(line)) if "loss" in line else None
        if validation:
            if validation[1]:
                self.log.evaluation(int(validation[1]), number(validation[2]))
            else:
                self._val = number(validation[2])
            return "eval"
        entry = _LOG_TXT.search(line)
        if entry:
            if entry[2] == "train":
                self.log.step(int(entry[1]), number(entry[3]))
                return "step"
            if entry[2] == "val":
                self.log.evaluation(int(entry[1]), number(entry[3]))
                return "eval"
            return "benchmark"
        return None

    def end(self) -> None:
        if self._val is not None and self.log.last_step is not None:
            self.log.evaluation(self.log.last_step + 1, self._val)


FORMAT = BuildNanoGPT
