"""nanoGPT, old and new, and its forks (llama2.c's trainer among them)."""

import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits

# Searched, not matched: typed keys, timestamps or a worker's name may stand before the record.
_ITER = re.compile(
    r"iter\s{1,8}(\d{1,12})\s?:\s{0,4}loss\s{1,8}(\S{1,24}?),\s{1,4}time\s{1,4}([\d.]{1,20})\s?ms"
    r"(?:,\s{1,4}mfu\s{1,4}(-?[\d.]{1,12})\s?%)?"
)
_LLAMA2C = re.compile(
    r"(?:^|\s)(\d{1,12}) \| loss (\S{1,24}) \| lr (\S{1,16}) \| ([\d.]{1,20})ms(?: \| mfu (-?[\d.]{1,12})%)?"
)
_LR = re.compile(r"\blr:? ([\d.e+-]{1,16})")
EVALUATION = re.compile(
    r"step\s{1,8}(\d{1,12})\s?:\s{0,4}train loss:?\s{1,4}([^\s,]{1,24}),\s{0,4}val loss:?\s{1,4}([^\s,]{1,24})"
)


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
        found = _ITER.search(line)
        if found:
            step, loss, time_ms, mfu = found.groups()
            lr = _LR.search(line, found.end()) if len(line) > found.end() + 4 else None
            self.log.step(
                int(step),
                number(loss),
                float(time_ms) / 1e3 if time_ms.count(".") < 2 else MISSING,
                mfu_pct=number(mfu) if mfu else MISSING,
                lr=number(lr[1]) if lr else MISSING,
            )
            return "step"
        if "val loss" in line:
            evaluation = EVALUATION.search(line)
            if evaluation:
                self.log.evaluation(int(evaluation[1]), number(evaluation[3]), number(evaluation[2]))
                return "eval"
        if "saving checkpoint" in line:
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
