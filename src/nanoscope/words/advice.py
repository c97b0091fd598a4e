"""What to do about it, with what it is estimated to bring."""

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Say, Sentences, Verbatim, Words, known

# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.Advice: Sentences(
        By(
            "action",
            raise_eval_interval=Say("Raise {setting} from {from_value:typed} to {to_value:typed}."),
            lower_eval_iters=First(
                Say("Lower {setting} from {from_value:typed} to {to_value:typed}: the error of an evaluation grows "
                    "{times:significant2}-fold.", known("from_value"), times=lambda advice: advice.factor**0.5),
                Say("Divide {setting} by {factor}: the error of an evaluation grows {times:significant2}-fold.",
                    times=lambda advice: advice.factor**0.5),
            ),
            checkpoint_less=Say("Write checkpoints less often, for example only when validation improves ({setting}).",
                                setting="always_save_checkpoint=False"),
            stop_at_best=Say("Use the model from {step:at}, where validation loss was best, and stop there next "
                             "time."),
            use_best_checkpoint=Say("Use the checkpoint nearest to {step:at}, where validation loss was best."),
            add_validation=Say("Hold some text back and evaluate on it: only that shows whether the model learns or "
                               "recites."),
            check_split=Say("Check how the text was split: no passage may be in both parts."),
            regularise=Say("Make overfitting harder: more text, a smaller model, or more {setting}."),
            train_longer=Say("Train longer: it still improves. Set {assignment} from the start (with a learning-rate "
                             "schedule of that length).", assignment=Verbatim("{setting}={to_value:typed}")),
            lower_learning_rate=First(
                Say("Lower {setting} from {from_value:typed}, for example to {to_value:typed}, and clip gradients "
                    "({clip}).", known("to_value"), clip="grad_clip=1.0"),
                Say("Lower {setting}, and clip gradients ({clip}).", clip="grad_clip=1.0"),
            ),
            warm_up=Say("Warm the learning rate up over the first steps ({setting})."),
            resume_from_checkpoint=Say("Resume from the checkpoint at {step:at}."),
            find_stalls=Say("Look for what holds the slow steps up: other programs, a slow disk, heat, power saving, "
                            "swapping."),
            stop_slowdown=Say("Find out why steps get slower: heat and power limits, memory filling up, another "
                              "program."),
            align_log_interval=Say("Lower {setting} from {from_value:typed} to {to_value:typed}: then the log shows "
                                   "what every evaluation costs."),
            check_setup=Say("Check the set-up before anything else: the data's tokens and targets, {dtype}, the "
                            "learning rate, the loss on one small batch.", dtype="dtype"),
            less_memory=Say("Halve {setting} and double {accumulation}: the same training in less memory.",
                            accumulation="gradient_accumulation_steps"),
            lower_accumulation=Say("Lower {setting} from {from_value:typed} to {to_value:typed}, unless such large "
                                   "steps are meant."),
            check_loader=Say("Check the data loader: each step should read other text."),
            safer_precision=Say("Train in bfloat16 or float32 ({setting}), and lower the learning rate if that "
                                "doesn't help."),
        ),
        First(
            Say("Saves about {saves_s:duration} of {of_s:duration}.", known("saves_s", "of_s")),
            Say("Saves about {saves_s:duration}.", known("saves_s")),
        ),
        Say("By the curve so far, the loss would end {gain:gains} lower.", known("loss_gain"),
            gain=lambda advice: advice.loss_gain),
    ),
}
