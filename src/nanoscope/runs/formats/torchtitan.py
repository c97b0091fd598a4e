"""torchtitan: no step times, so the logger's timestamps are the clock."""

import re

from nanoscope.runs.fields import number, read_fields, timestamp_s
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Traits

_STEP = re.compile(
    r"\bstep:\s{0,8}(\d{1,12})\s{1,8}loss:\s{0,8}(\S{1,24})\s{1,8}(?=(?:grad_norm|m?memory|global_|tps|mtp))"
)
_VALIDATE = re.compile(r"validate step:\s{0,8}(\d{1,12})\s{1,8}loss:\s{0,8}(\S{1,24})")


class TorchTitan(Format):
    name = "torchtitan"
    traits = Traits(
        last_is_total_minus_one=False,
        evaluation_in="next",
        total_keys=("max_iters", "steps", "training_steps"),
    )

    def read(self, line: str) -> str | None:
        if "validate step" in line:
            validation = _VALIDATE.search(line)
            if validation:
                self.log.evaluation(int(validation[1]), number(validation[2]))
                return "eval"
        found = _STEP.search(line)
        if found:
            fields = read_fields(line[found.end() :])
            self.log.step(
                int(found[1]),
                number(found[2]),
                clock_s=timestamp_s(line),
                clock="timestamps",
                grad_norm=fields.get("grad_norm"),
                tok_s=fields.get("tok_s"),
                mfu_pct=fields.get("mfu_pct"),
            )
            return "step"
        if "Saving the checkpoint" in line or "Saving a full checkpoint" in line:
            self.log.checkpoint()
            return "checkpoint"
        if line.rstrip().endswith("Training completed"):
            self.log.finished()
            return "end"
        return None


FORMAT = TorchTitan
