"""What to do about it."""

import math

from nanoscope.findings.declared.base import Finding
from nanoscope.messages import Message, Said, sentences, verbatim
from nanoscope.runs.trainers import flag

ACTIONS = {
    "raise_eval_interval": Message("Raise {setting} from {from_value:typed} to {to_value:typed}."),
    "lower_eval_iters": Message(
        "Lower {setting} from {from_value:typed} to {to_value:typed}: the error of an evaluation grows "
        "{times:significant2}-fold."
    ),
    "checkpoint_less": Message(
        "Write checkpoints less often, for example only when validation improves ({setting}).",
        setting="always_save_checkpoint=False",
    ),
    "stop_at_best": Message("Use the model from {step:at}, where validation loss was best, and stop there next time."),
    "use_best_checkpoint": Message("Use the checkpoint nearest to {step:at}, where validation loss was best."),
    "add_validation": Message(
        "Hold some text back and evaluate on it: only that shows whether the model learns or recites."
    ),
    "check_split": Message("Check how the text was split: no passage may be in both parts."),
    "regularise": Message("Make overfitting harder: more text, a smaller model, or more {setting}."),
    "train_longer": Message(
        "Train longer: it still improves. Set {assignment} from the start (with a learning-rate "
        "schedule of that length).",
        assignment=None,  # setting=value
    ),
    "lower_learning_rate": Message(
        "Lower {setting} from {from_value:typed}, for example to {to_value:typed}, and clip gradients ({clip}).",
        clip="grad_clip=1.0",
    ),
    "warm_up": Message("Warm the learning rate up over the first steps ({setting})."),
    "resume_from_checkpoint": Message("Resume from the checkpoint at {step:at}."),
    "find_stalls": Message(
        "Look for what holds the slow steps up: other programs, a slow disk, heat, power saving, swapping."
    ),
    "stop_slowdown": Message(
        "Find out why steps get slower: heat and power limits, memory filling up, another program."
    ),
    "align_log_interval": Message(
        "Lower {setting} from {from_value:typed} to {to_value:typed}: then the log shows what every evaluation costs."
    ),
    "check_setup": Message(
        "Check the set-up before anything else: the data's tokens and targets, {dtype}, the "
        "learning rate, the loss on one small batch.",
        dtype="dtype",
    ),
    "less_memory": Message(
        "Halve {setting} and double {accumulation}: the same training in less memory.",
        accumulation="gradient_accumulation_steps",
    ),
    "lower_accumulation": Message(
        "Lower {setting} from {from_value:typed} to {to_value:typed}, unless such large steps are meant."
    ),
    "check_loader": Message("Check the data loader: each step should read other text."),
    "safer_precision": Message(
        "Train in bfloat16 or float32 ({setting}), and lower the learning rate if that doesn't help."
    ),
}
# Where the trainer works the accumulation out by itself.
ACCUMULATES = Message("Halve {setting}: the trainer accumulates twice as much, for the same training in less memory.")
# Where the trainer cannot clip gradients, or does.
LOWER_TO, LOWER = (
    Message("Lower {setting} from {from_value:typed}, for example to {to_value:typed}."),
    Message("Lower {setting}."),
)
# Where the log does not say what the setting is now.
WITHOUT_VALUES = {
    "lower_eval_iters": Message(
        "Divide {setting} by {factor:number}: the error of an evaluation grows {times:significant2}-fold."
    ),
    "lower_learning_rate": Message("Lower {setting}, and clip gradients ({clip}).", clip="grad_clip=1.0"),
}


class Advice(Finding):
    """One thing to do, with its estimated gain; the list of a run is ranked by gain.

    `setting`, `from_value`, `to_value` are set if the advice is a setting ('eval_interval', 500, 2000).
    `saves_s` of `of_s`: seconds of the run's whole time (or of the time left, if that is known).
    The text calls settings as `trainer` does.
    """

    action: str  # of ACTIONS
    setting: str | None = None
    from_value: float | None = None
    to_value: float | None = None
    saves_s: float | None = None
    of_s: float | None = None
    step: int | None = None  # of the best validation loss, or of the last good checkpoint
    factor: int | None = None  # by which something is divided
    trainer: str = ""
    clips: bool = False  # whether gradients are clipped already

    @property
    def times(self) -> float:
        """By how much the error of an evaluation grows."""
        return math.sqrt(self.factor or 1)

    def text(self) -> Said:
        actions = ACTIONS if self.to_value is not None else ACTIONS | WITHOUT_VALUES
        said = actions[self.action]
        names: dict[str, object] = {
            key: flag(self.trainer, value)
            for key, value in {"setting": self.setting, **said.values}.items()
            if isinstance(value, str)
        }
        names["setting"] = names.get("setting") or self.setting
        if "assignment" in said.values:
            names["assignment"] = verbatim("{setting}={to_value:typed}", setting=names["setting"])
        if names.get("accumulation") == "":
            said = ACCUMULATES
        if names.get("clip") == "" or self.clips:
            said = LOWER if self.to_value is None else LOWER_TO
        return sentences(Message(said.template, **names), self._saving())

    def _saving(self) -> Said:
        if self.saves_s is None:
            return None
        if self.of_s is None:
            return Message("Saves about {saves_s:duration}.")
        return Message("Saves about {saves_s:duration} of {of_s:duration}.")
