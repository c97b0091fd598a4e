"""torchtitan: it prints no step times, so the logger's timestamps are the clock."""

from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EndRecord, EvalRecord, StepRecord
from nanoscope.runs.run import Traits


class TorchTitan(Format):
    name = "torchtitan"
    traits = Traits(
        trains_language_models=True,
        tok_s_per_device=True,
        last_is_total_minus_one=False,
        evaluation_in="next",
        total_keys=("max_iters", "steps", "training_steps"),
    )
    lines = (
        Line(EvalRecord, r"validate step:\s{0,8}{step}\s{1,8}loss:\s{0,8}{val}", "validate step"),
        Line(
            StepRecord,
            r"\bstep:\s{0,8}{step}\s{1,8}loss:\s{0,8}{loss}\s{1,8}(?=(?:grad_norm|m?memory|global_|tps|mtp))",
            "loss:",
            rest=("timestamp", "grad_norm", "tok_s", "mfu_pct"),
        ),
        Line(CheckpointRecord, "Saving (?:the|a full) checkpoint", "Saving "),
        Line(EndRecord, r"Training completed\s*$", "Training completed"),
    )
    settings = named("steps training_steps warmup_steps")
