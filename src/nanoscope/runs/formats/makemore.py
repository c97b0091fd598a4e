"""makemore."""

import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Traits

_STEP = re.compile(r"step (\d{1,12}) \| loss (\S{1,24}) \| step time ([\d.]{1,20})\s?ms")
_EVALUATION = re.compile(r"step (\d{1,12}) train loss: (\S{1,24}) test loss: (\S{1,24})")


class Makemore(Format):
    name = "makemore"
    traits = Traits(last_is_total_minus_one=True, evaluation_in="none", total_keys=("max_steps",))

    def read(self, line: str) -> str | None:
        found = _STEP.search(line)
        if found:
            self.log.step(int(found[1]), number(found[2]), number(found[3]) / 1e3)
            return "step"
        evaluation = _EVALUATION.search(line)
        if evaluation:
            self.log.evaluation(int(evaluation[1]), number(evaluation[3]), number(evaluation[2]))
            return "eval"
        if "is the best so far, saving model" in line:
            self.log.checkpoint()
            return "checkpoint"
        return None


FORMAT = Makemore
