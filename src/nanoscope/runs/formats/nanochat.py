"""nanochat and its relatives: base training, mid-training and fine-tuning."""

import re
from collections.abc import Iterable

from nanoscope.runs.fields import read_fields
from nanoscope.runs.formats.base import Format, Line, named, step_record
from nanoscope.runs.records import CheckpointRecord, EndRecord, EvalRecord, Record
from nanoscope.runs.run import Traits

_STEP = re.compile(
    r"[Ss]tep\s{1,8}(\d{1,9})(?:/(\d{1,9}))?\s{0,3}(?:\([\d.]{1,8}%\))?\s{0,3}\|\s{0,3}(?:[Ll]oss|Training loss)\b"
)


class Nanochat(Format):
    name = "nanochat"
    traits = Traits(
        trains_language_models=True,
        last_is_total_minus_one=True,
        evaluation_in="none",
        total_keys=("num_iterations", "max_iters"),
    )
    lines = (
        Line(EvalRecord, r"[Ss]tep\s{1,8}{step}\s{0,3}\|\s{0,3}Validation {metric}:\s{0,3}{val}", "Validation"),
        Line(CheckpointRecord, r"Saved model (?:parameters|file)? ?to:?(?:.{0,400}model_{step}\.pt)?", "Saved model"),
        Line(EndRecord, "^(?:Total training time:|=== Training complete|training_seconds:)", "raining"),
        Line(EvalRecord, r"^val_{metric}:\s{1,20}{val}\s{0,4}$", "val_"),  # autoresearch, at its end
    )
    settings = named(
        "depth device_batch_size eval_every num_iterations sample_every save_every total_batch_size",
        max_seq_len="block_size", model_dim="n_embd", num_layers="n_layer",
    )  # fmt: skip
    header = (
        ("tokens_per_step", r"total batch size\s?[:=]?\s?([\d,]+)"),
        ("max_iters", r"number of iterations(?: from [^:]{1,40})?\s?[:=]\s?([\d,]+)"),
        ("flops_per_token", r"estimated flops per token:\s?(\d\.\d{1,8}e[+]\d{1,2})\b"),
        ("peak_flops", r"\bpeak flops \(bf16\):\s?(\d\.\d{1,8}e[+]\d{1,2})\b"),
    )

    def parse(self, line: str) -> Iterable[Record]:
        found = _STEP.search(line)
        if not (
            found and ("lrm" in line or (line[found.end() : found.end() + 1] == ":" and (found[2] or "%)" in line)))
        ):
            yield from super().parse(line)
            return
        fields = read_fields(line[found.start() :])
        if "time_s" not in fields and "num_tokens" not in line:
            return  # cut by the terminal: the rest is on the next line
        yield step_record(int(found[1]), fields, total=int(found[2]) if found[2] else None)
        run = self.builder.current
        if run is not None and " mfu: " in line and "bf16_mfu" not in line:
            run.config["mfu_assumes"] = "H100"  # later versions look the device up, and say bf16_mfu
