"""llm.c: the console of the CUDA and CPU trainers, and main.log."""

import re

from nanoscope.runs.fields import number, read_fields
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits
from nanoscope.runs.text import without_prefix

_STEP = re.compile(r"step\s{1,8}(\d{1,9})/(\d{1,9})\s?[|:]\s{0,4}(?:train )?loss\s{1,8}(\S{1,24})")
_CPU_STEP = re.compile(r"step (\d{1,9}): train loss (\S{1,24}) \(took ([\d.]{1,20}) ms\)")
_MFU = re.compile(r"(-?[\d.]{1,12})% (?:bf16 |fp16 |fp32 |tf32 )?MFU")
_VAL = re.compile(r"^\W{0,4}val loss:? (\S{1,24})\s{0,4}$")
_MAIN_LOG = re.compile(r"^s:(\d{1,9}) (tel|trl):(\S{1,24})(?: lr:(\S{1,16}))?(?: norm:(\S{1,16}))?")


class LlmC(Format):
    name = "llm.c"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="none", total_keys=("train_num_batches", "max_steps"))

    def read(self, line: str) -> str | None:
        found = _STEP.search(line)
        if found:
            rest = read_fields(line[found.end(3) :])
            if "time_s" not in rest:
                return None  # cut by the terminal: the rest is on the next line
            mfu = _MFU.search(line)
            self.log.step(
                int(found[1]),
                number(found[3]),
                rest.get("time_s"),
                lr=rest.get("lr"),
                grad_norm=rest.get("grad_norm"),
                tok_s=rest.get("tok_s"),
                mfu_pct=number(mfu[1]) if mfu else MISSING,
                total=int(found[2]),
            )
            return "step"
        if "val loss" in line:
            val = _VAL.match(without_prefix(line))
            if val:
                self.log.evaluation(self.log.last_step or 0, number(val[1]))
                return "eval"
        cpu = _CPU_STEP.search(line)
        if cpu:
            self.log.step(int(cpu[1]), number(cpu[2]), number(cpu[3]) / 1e3)
            return "step"
        if line.startswith("s:"):
            entry = _MAIN_LOG.match(line)
            if entry:
                if entry[2] == "tel":
                    self.log.evaluation(int(entry[1]), number(entry[3]))
                    return "eval"
                self.log.step(
                    int(entry[1]),
                    number(entry[3]),
                    lr=number(entry[4]) if entry[4] else MISSING,
                    grad_norm=number(entry[5]) if entry[5] else MISSING,
                )
                return "step"
        if line.startswith("Writing model to "):
            self.log.checkpoint()
            return "checkpoint"
        return None


FORMAT = LlmC
