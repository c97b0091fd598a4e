"""LitGPT and Lit-LLaMA: counted in iterations, of which several make an optimizer step."""

import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits
from nanoscope.runs.text import without_prefix

_ITER = re.compile(
    r"iter\s{1,4}(\d{1,12})\s?\|?\s?(?:st[eE]p\s{1,4}(\d{1,12})\s?)?[|:]?\s?"
    r"loss(?: train)?(?: \(curr\))?:?\s{1,4}(\S{1,24}?),?\s{1,4}"
    r"(?:val(?:_loss valid)?(?: \([^)]{1,40}\))?:?\s{1,4}(\S{1,24})\s{1,4})?(?:\|\s)?"
    r"iter time:\s{0,4}([\d.]{1,20})\s?(ms|s)\b"
)
_OLD_ITER = re.compile(r"iter (\d{1,12}): loss (\S{1,24}?), time: ([\d.]{1,20})\s?ms")
_VAL = re.compile(
    r"(?:(?:iter|step) (\d{1,12}): val loss|Final evaluation \| val loss:) (\S{1,24}?)(?:,| \||$)"
    r"(?: val time: ([\d.]{1,20})\s?ms)?"
)


class LitGPT(Format):
    name = "litgpt"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="none", total_keys=())

    def __init__(self) -> None:
        super().__init__()
        self._last_val = MISSING  # each line repeats the last validation loss

    def read(self, line: str) -> str | None:
        found = None
        for found in _ITER.finditer(line):  # a web page may have joined the lines
            iteration, step, loss, val_text, time, unit = found.groups()
            self.log.step(int(iteration), number(loss), number(time) / (1e3 if unit == "ms" else 1))
            val = number(val_text) if val_text else MISSING
            if val == val and not abs(val - self._last_val) < 0.002:
                self.log.evaluation(int(iteration), val)
                self._last_val = val
            self._set_total(int(iteration), int(step or 0))
        if found:
            return "step"
        evaluation = _VAL.search(line)
        if evaluation:
            self._last_val = number(evaluation[2])
            self.log.evaluation(
                int(evaluation[1]) if evaluation[1] else None,
                self._last_val,
                seconds=number(evaluation[3]) / 1e3 if evaluation[3] else None,
            )
            return "eval"
        old = _OLD_ITER.search(line)
        if old:
            self.log.step(int(old[1]), number(old[2]), number(old[3]) / 1e3)
            return "step"
        plain = without_prefix(line)
        if plain.startswith(("Training time:", "Saving LoRA weights", "Saved merged weights")):
            self.log.finished()
            return "end"
        if plain.startswith("Saving checkpoint to"):
            self.log.checkpoint()
            return "checkpoint"
        return None

    def _set_total(self, iteration: int, step: int) -> None:
        """max_steps counts optimizer steps: bring it to iterations."""
        run = self.log.current
        if run is not None and run.total_steps is None and step > 0:
            max_steps, per_step = run.config.get("max_steps"), round(iteration / step)
            if isinstance(max_steps, int) and iteration == per_step * step:
                run.total_steps = max_steps * per_step


FORMAT = LitGPT
