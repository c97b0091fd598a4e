"""Karpathy's lecture script (gpt.py, bigram.py): evaluation lines only."""

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.formats.nanogpt import EVALUATION
from nanoscope.runs.run import Traits


class Lecture(Format):
    name = "lecture-gpt"
    traits = Traits(last_is_total_minus_one=True, evaluation_in="none")

    def read(self, line: str) -> str | None:
        found = EVALUATION.search(line) if "val loss" in line else None
        if found is None:
            return None
        self.log.evaluation(int(found[1]), number(found[3]), number(found[2]))
        return "eval"


FORMAT = Lecture
