"""Karpathy's lecture script (gpt.py, bigram.py): evaluation lines only."""

from nanoscope.runs.formats.base import Format
from nanoscope.runs.formats.nanogpt import read_evaluation
from nanoscope.runs.run import Traits


class Lecture(Format):
    name = "lecture-gpt"
    traits = Traits(last_is_total_minus_one=True, evaluation_in="none")

    def read(self, line: str) -> str | None:
        evaluation = read_evaluation(line) if "val loss" in line else None
        if evaluation is None:
            return None
        self.log.evaluation(*evaluation)
        return "eval"


FORMAT = Lecture
