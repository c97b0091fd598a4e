"""nanochat and its relatives: base training, mid-training and fine-tuning."""

import re

from nanoscope.runs.fields import number, read_fields
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Traits
from nanoscope.runs.text import without_prefix

_STEP = re.compile(
    r"[Ss]tep\s{1,8}(\d{1,9})(?:/(\d{1,9}))?\s{0,3}(?:\([\d.]{1,8}%\))?\s{0,3}\|\s{0,3}(?:[Ll]oss|Training loss)\b"
)
_EVALUATION = re.compile(r"[Ss]tep\s{1,8}(\d{1,9})\s{0,3}\|\s{0,3}Validation (bpb|loss):\s{0,3}(\S{1,24})")
_SAVED = re.compile(r"Saved model (?:parameters|file)? ?to:?(?:.{0,400}model_(\d{1,9})\.pt)?")


class Nanochat(Format):
    name = "nanochat"
    traits = Traits(last_is_total_minus_one=True, evaluation_in="none", total_keys=("num_iterations", "max_iters"))

    def read(self, line: str) -> str | None:
        found = _STEP.search(line)
        if found and ("lrm" in line or (line[found.end() : found.end() + 1] == ":" and (found[2] or "%)" in line))):
            fields = read_fields(line[found.start() :])
            if "time_s" not in fields and "num_tokens" not in line:
                return None  # cut by the terminal: the rest is on the next line
            self.log.step(
                int(found[1]),
                fields.get("loss"),
                fields.get("time_s"),
                grad_norm=fields.get("grad_norm"),
                tok_s=fields.get("tok_s"),
                mfu_pct=fields.get("mfu_pct"),
                total=int(found[2]) if found[2] else None,
            )
            run = self.log.current
            if run is not None and " mfu: " in line and "bf16_mfu" not in line:
                run.config.setdefault("mfu_assumes", "H100")  # before it learnt to look the device up
            return "step"
        if "Validation" in line:
            evaluation = _EVALUATION.search(line)
            if evaluation:
                metric = evaluation[2]
                self.log.evaluation(
                    int(evaluation[1]), number(evaluation[3]), metric="bpb" if metric == "bpb" else "loss"
                )
                return "eval"
        if "Saved model" in line:
            saved = _SAVED.search(line)
            if saved:
                self.log.checkpoint(int(saved[1]) if saved[1] else None)
                return "checkpoint"
        if without_prefix(line).startswith(("Total training time:", "=== Training complete")):
            self.log.finished()
            return "end"
        return None


FORMAT = Nanochat
