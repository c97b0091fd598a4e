"""Karpathy's lecture script (gpt.py, bigram.py): evaluation lines only."""

from nanoscope.runs.formats.base import Format
from nanoscope.runs.formats.nanogpt import EVALUATION
from nanoscope.runs.run import Traits


class Lecture(Format):
    name = "lecture-gpt"
    traits = Traits(trains_language_models=True, last_is_total_minus_one=True, evaluation_in="none")
    lines = (EVALUATION,)
    priority = 1  # evaluations and nothing else: nanoGPT would have printed iterations or checkpoints too
