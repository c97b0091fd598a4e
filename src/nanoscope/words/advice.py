"""What to do about it, with what it is estimated to bring."""

import math

from nanoscope.analysis.findings import Advice
from nanoscope.words.language import Language


def advice(finding: Advice, language: Language) -> str:
    return " ".join(part for part in (_what(finding, language), gain(finding, language)) if part)


def _what(finding: Advice, language: Language) -> str:
    say = language.say
    step = None if finding.step is None else str(finding.step)
    match finding.action:
        case "raise_eval_interval":
            return _change(finding, "eval_interval", language) or say(
                "Raise {setting}: evaluating less often costs less time.", setting="eval_interval"
            )
        case "checkpoint_less":
            return say(
                "Write checkpoints less often, for example only when validation improves ({setting}).",
                setting="always_save_checkpoint=False",
            )
        case "stop_at_best":
            if step is None:
                return say("Stop where validation loss is best, and keep that checkpoint.")
            return say("Stop near step {step}, where validation loss is best.", step=step)
        case "use_best_checkpoint":
            if step is None:
                return say("Use the checkpoint with the best validation loss, not the last one.")
            return say("Use the checkpoint of step {step}, not the last one.", step=step)
        case "add_validation":
            return say("Hold some text back and evaluate on it: only that shows whether the model learns or recites.")
        case "regularise":
            return say(
                "Make overfitting harder: more {dropout}, a smaller model, or more text.",
                dropout="dropout",
            )
        case "train_longer":
            if finding.to_value is not None and math.isfinite(finding.to_value):
                return say(
                    "Train longer: it is still improving. Set {setting} (and {decay} with it).",
                    setting=_assignment(finding.setting or "max_iters", finding.to_value),
                    decay="lr_decay_iters",
                )
            return say("Train longer: it is still improving.")
        case "lower_learning_rate":
            return _change(finding, "learning_rate", language) or say(
                "Lower {setting}, and clip gradients ({clip}).", setting="learning_rate", clip="grad_clip=1.0"
            )
        case "resume_from_checkpoint":
            if step is None:
                return say("Resume from the last good checkpoint.")
            return say(
                "Resume from the checkpoint of step {step}, the last good one.",
                step=step,
            )
        case "find_stalls":
            return say(
                "Look for what holds the slow steps up: other programs, a slow disk, heat, power saving, swapping."
            )
        case "stop_slowdown":
            return say("Find out why steps get slower: heat and power limits, memory filling up, another program.")
        case "align_log_interval":
            visible = say("Then the log shows what every evaluation costs.")
            change = _change(finding, "log_interval", language) or say(
                "Choose {log_interval} so that it divides {eval_interval}.",
                log_interval="log_interval",
                eval_interval="eval_interval",
            )
            return f"{change} {visible}"
        case "check_setup":
            return say(
                "Check the set-up before anything else: the data's tokens, {dtype}, the loss on one small batch.",
                dtype="dtype",
            )
        case "less_memory":
            return say(
                "Halve {batch} and double {accumulation}: the same training in less memory.",
                batch="batch_size",
                accumulation="gradient_accumulation_steps",
            )


def _change(finding: Advice, setting: str, language: Language) -> str:
    if finding.to_value is None or not math.isfinite(finding.to_value):
        return ""
    setting = finding.setting or setting
    if finding.from_value is None or not math.isfinite(finding.from_value):
        return language.say("Set {assignment}.", assignment=_assignment(setting, finding.to_value))
    values = {"setting": setting, "before": _plain(finding.from_value), "after": _plain(finding.to_value)}
    if finding.to_value > finding.from_value:
        return language.say("Raise {setting} from {before} to {after}.", **values)
    return language.say("Lower {setting} from {before} to {after}.", **values)


def _assignment(setting: str, value: float) -> str:
    return f"{setting}={_plain(value)}"


def _plain(value: float) -> str:
    """A value as one types it into a command line."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def gain(finding: Advice, language: Language) -> str:
    """What following the advice brings, as far as the log lets it be computed."""
    sentences = []
    if finding.saves_s is not None:
        saves = language.duration(finding.saves_s)
        if finding.of_s is not None:
            sentences.append(
                language.say("Saves about {saves} of {whole}.", saves=saves, whole=language.duration(finding.of_s))
            )
        else:
            sentences.append(language.say("Saves about {saves}.", saves=saves))
    if finding.loss_gain is not None and finding.loss_gain > 0:
        sentences.append(language.say("Loss lower by about {gain}.", gain=language.significant(finding.loss_gain, 2)))
    return " ".join(sentences)
