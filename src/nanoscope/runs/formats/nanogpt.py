"""nanoGPT, old and new, and its forks (llama2.c's trainer among them)."""

import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits

# The line as nanoGPT itself prints it, to the letter: most lines of most logs, and much quicker than what follows.
_PLAIN_ITER = re.compile(r"iter (\d{1,12}): loss (\d{1,6}\.\d{1,8}), time (\d{1,10}\.\d\d)ms, mfu (-?\d{1,6}\.\d\d)%")
# Searched, not matched: typed keys, timestamps or a worker's name may stand before the record.
_ITER = re.compile(
    r"iter\s{1,8}(\d{1,12})\s?:\s{0,4}loss\s{1,8}(\S{1,24}?),\s{1,4}(?:[\w ]{1,24}[ :=][\d.e+-]{1,16},\s{1,4}){0,4}"
    r"time\s{1,4}(\d{1,12}(?:\.\d{0,6})?)\s?ms(?:,\s{1,4}mfu\s{1,4}(-?\d{1,6}(?:\.\d{0,6})?)\s?%)?"
)
_LLAMA2C = re.compile(
    r"(?:^|\s)(\d{1,12}) \| loss (\S{1,24}) \| lr (\S{1,16}) \| ([\d.]{1,20})ms(?: \| mfu (-?[\d.]{1,12})%)?"
)
_LR = re.compile(r"\blr:? ([\d.e+-]{1,16})")
_EVALUATION = re.compile(
    r"step\s{1,8}(\d{1,12})\s?:\s{0,4}train loss:?\s{1,4}([^\s,]{1,24})(?: \([^)]{1,80}\) \||,)\s{0,4}"
    r"val loss:?\s{1,4}([^\s,]{1,24})"
)
_SAVES = re.compile(r"sav(?:ing|ed)(?: \w{1,12})? checkpoint\b")


def read_evaluation(line: str) -> tuple[int, float, float] | None:
    """Step, validation and training loss of an evaluation line; None if a terminal cut the last number."""
    found = _EVALUATION.search(line)
    if found is None:
        return None
    step, train, val = found.groups()
    missing = len(train.partition(".")[2]) - len(val.partition(".")[2])  # one digit may be a zero that is not printed
    if found.end() == len(line) and missing >= 2 and val[-1:] in ".0123456789":
        return None
    return int(step), number(val), number(train)


class NanoGPT(Format):
    name = "nanogpt"
    traits = Traits(
        last_is_total_minus_one=False,
        evaluation_in="same",
        mfu_assumes="A100",
        mfu_is_moving_average=True,
        total_keys=("max_iters",),
    )

    def read(self, line: str) -> str | None:
        found = _PLAIN_ITER.fullmatch(line)
        if found:
            step, loss, time_ms, mfu = found.groups()
            self.log.step(int(step), float(loss), float(time_ms) / 1e3, mfu_pct=float(mfu))
            return "step"
        found = _ITER.search(line)
        if found:
            step, loss, time_ms, mfu = found.groups()
            end = found.end()
            lr = _LR.search(line, found.end(2)) if len(line) > end + 4 or end - found.end(2) > 48 else None
            self.log.step(
                int(step),
                number(loss),
                float(time_ms) / 1e3,
                mfu_pct=float(mfu) if mfu else MISSING,
                lr=number(lr[1]) if lr else MISSING,
            )
            if len(line) > end + 30 and "iter " in line[end:]:
                self.read(line[end:])  # someone has joined the lines
            return "step"
        if "val loss" in line:
            evaluation = read_evaluation(line)
            if evaluation:
                self.log.evaluation(*evaluation)
                return "eval"
        if "checkpoint" in line and _SAVES.search(line):
            self.log.checkpoint()
            return "checkpoint"
        fork = _LLAMA2C.search(line) if " | loss " in line else None
        if fork:
            step, loss, lr_text, time_ms, mfu = fork.groups()
            self.log.step(
                int(step),
                number(loss),
                number(time_ms) / 1e3,
                lr=number(lr_text),
                mfu_pct=number(mfu) if mfu else MISSING,
            )
            return "step"
        return None


FORMAT = NanoGPT
