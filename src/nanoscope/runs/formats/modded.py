"""modded-nanogpt and what grew out of it: one cumulative training clock, evaluations outside it."""

import re

from nanoscope.runs.fields import number, read_fields
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, Traits

_LINE = re.compile(r"step:(\d{1,9})/(\d{1,9})\s{1,4}(?:\|\s{1,4})?(?:(val_loss|train_loss|loss)[: ](\S{1,24})\s{1,4})?")


class ModdedNanoGPT(Format):
    name = "modded-nanogpt"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="none")

    def read(self, line: str) -> str | None:
        found = _LINE.search(line)
        if found is None and "window_size" in line:  # the script is in the log: its attention window follows a schedule
            self.log.facts["window_grows"] = True
        if found is None or "train_time" not in line:
            return None
        step, total, kind, value = int(found[1]), int(found[2]), found[3], found[4]
        rest = read_fields(line[found.end() :])
        clock_s = rest.get("elapsed_s")
        if kind == "val_loss":
            self.log.evaluation(step, number(value))
            if clock_s == clock_s:
                self.log.clock_at(step, clock_s)
            if step == total:
                self.log.finished()
            return "eval"
        if clock_s != clock_s:
            return None  # the clock is on the next line, or cut off
        self.log.step(step, number(value) if value else MISSING, clock_s=clock_s, total=total)
        return "step"


FORMAT = ModdedNanoGPT
