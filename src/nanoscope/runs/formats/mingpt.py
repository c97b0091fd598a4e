"""minGPT: the present trainer, and the first one with its bar for every epoch."""

import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits

_STEP = re.compile(r"iter_dt ([\d.]{1,20})ms; iter (\d{1,12}): train loss (\S{1,24})")
_EPOCH_STEP = re.compile(
    r"epoch (\d{1,6}) iter (\d{1,12}): train loss (\d{1,6}\.\d{1,10}|nan|inf)\.? lr ([\d.e+-]{1,16})"
)
_RATE = re.compile(r", {1,4}([\d.]{1,12})(it/s|s/it)")
_SAVES = re.compile(r"saving (?:model|\S{1,200}\.pt\w?)\s{0,4}$")
_TEST = re.compile(r"\btest loss: (\S{1,24})$")


class MinGPT(Format):
    name = "mingpt"
    # iter_dt is the time of one iteration; sampling and saving fall into the next one, which is not printed.
    traits = Traits(last_is_total_minus_one=False, evaluation_in="none", total_keys=("max_iters",))

    def read(self, line: str) -> str | None:
        found = _STEP.search(line)
        if found:
            self.log.step(int(found[2]), number(found[3]), number(found[1]) / 1e3)
            return "step"
        found = _EPOCH_STEP.search(line)
        if found:
            rate = _RATE.search(line, found.end())
            time_s = MISSING
            if rate and (speed := number(rate[1])) > 0:
                time_s = 1 / speed if rate[2] == "it/s" else speed
            self.log.step(int(found[2]), number(found[3]), time_s, lr=number(found[4].rstrip(".")), epoch=int(found[1]))
            return "step"
        if "saving " in line and _SAVES.search(line):
            self.log.checkpoint()
            return "checkpoint"
        test = _TEST.search(line)
        if test:
            self.log.evaluation(None, number(test[1]))
            return "eval"
        return None


FORMAT = MinGPT
