"""What to do about it, with what it is estimated to bring."""

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Say, Sentences, Verbatim, Words, known

# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.Advice: Sentences(
        By(
            "action",
            raise_eval_interval=Say("Raise {setting} from {from_value:typed} to {to_value:typed}."),
            checkpoint_less=Say("Write checkpoints less often, for example only when validation improves ({setting}).",
                                setting="always_save_checkpoint=False"),
            stop_at_best=Say("Stop near step {step:plain}, where validation loss is best."),
            use_best_checkpoint=First(
                Say("Use the checkpoint of step {step:plain}, not the last one.", known("step")),
                Say("Use the checkpoint with the best validation loss, not the last one."),
            ),
            add_validation=Say("Hold some text back and evaluate on it: only that shows whether the model learns or "
                               "recites."),
            regularise=Say("Make overfitting harder: more {setting}, a smaller model, or more text."),
            train_longer=Say("Train longer: it is still improving. Set {assignment} (and {decay} with it).",
                             assignment=Verbatim("{setting}={to_value:typed}"), decay="lr_decay_iters"),
            lower_learning_rate=Say("Lower {setting}, and clip gradients ({clip}).", clip="grad_clip=1.0"),
            resume_from_checkpoint=Say("Resume from the checkpoint of step {step:plain}, the last good one."),
            find_stalls=Say("Look for what holds the slow steps up: other programs, a slow disk, heat, power saving, "
                            "swapping."),
            stop_slowdown=Say("Find out why steps get slower: heat and power limits, memory filling up, another "
                              "program."),
            align_log_interval=Sentences(
                Say("Lower {setting} from {from_value:typed} to {to_value:typed}."),
                Say("Then the log shows what every evaluation costs."),
            ),
            check_setup=Say("Check the set-up before anything else: the data's tokens, {dtype}, the loss on one small "
                            "batch.", dtype="dtype"),
            less_memory=Say("Halve {setting} and double {accumulation}: the same training in less memory.",
                            accumulation="gradient_accumulation_steps"),
        ),
        First(
            Say("Saves about {saves_s:duration} of {of_s:duration}.", known("saves_s", "of_s")),
            Say("Saves about {saves_s:duration}.", known("saves_s")),
        ),
        Say("Loss lower by about {loss_gain:significant2}.", lambda advice: (advice.loss_gain or 0.0) > 0),
    ),
}
