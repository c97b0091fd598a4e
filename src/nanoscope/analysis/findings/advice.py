"""What to do about it."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding

AdviceAction = Literal[
    "raise_eval_interval", "lower_eval_iters", "checkpoint_less", "stop_at_best", "use_best_checkpoint",
    "add_validation", "check_split", "regularise", "train_longer", "lower_learning_rate", "warm_up",
    "resume_from_checkpoint", "find_stalls", "stop_slowdown", "align_log_interval", "check_setup", "less_memory",
    "safer_precision", "lower_accumulation", "check_loader",
]  # fmt: skip


class Advice(Finding):
    """One thing to do, with its estimated gain; the list of a run is ranked by gain.

    `setting`, `from_value`, `to_value` are set if the advice is a setting ('eval_interval', 500, 2000).
    `saves_s` of `of_s`: seconds of the run's whole time (or of the time left, if that is known).
    """

    action: AdviceAction
    setting: str | None = None
    from_value: float | None = None
    to_value: float | None = None
    saves_s: float | None = None
    of_s: float | None = None
    loss_gain: tuple[float, float] | None = None  # a range
    step: int | None = None  # of the best validation loss, or of the last good checkpoint
    factor: int | None = None  # by which something is divided
