"""What the model has learnt."""

from nanoscope.analysis import findings as f
from nanoscope.ladder import in_words
from nanoscope.words.templates import (
    Bracketed,
    By,
    Clauses,
    First,
    Plural,
    Say,
    Sentences,
    Verbatim,
    Words,
    has,
    known,
)  # fmt: skip

LEAST_NOISE = 0.00005  # what four decimals can show
MOST_PERPLEXITY = 1e6


def _began_above_uniform(loss: f.TrainLoss) -> bool:
    return loss.first_is_uniform is False and (loss.first or 0.0) > (loss.uniform_loss or 0.0)


# fmt: off
_PERPLEXITY = Say("perplexity {perplexity:significant}", lambda f: (f.perplexity or MOST_PERPLEXITY) < MOST_PERPLEXITY)
_BITS = Say("{bits_per_char:number2} bits per character", known("bits_per_char"))
_UNIFORM = Verbatim("ln({vocab_size:plain}) = {uniform_loss:number2}")

MESSAGES: dict[type[f.Finding], Words] = {
    f.TrainLoss: Sentences(
        Clauses(
            First(
                Say("Training loss: from {first:loss} to {smoothed_last:loss}", has("moved")),
                Say("Training loss: about {smoothed_last:loss}", known("smoothed_last")),
            ),
            Say(", single lines ±{noise:significant2}", lambda f: (f.noise or 0.0) >= LEAST_NOISE),
            Say(", smoothed by the trainer", has("averaged")),
            Bracketed(_PERPLEXITY, _BITS),
            Say("."),
        ),
        First(
            Say("It began near {uniform}, as an untrained model should.", has("first_is_uniform"), uniform=_UNIFORM),
            Say("It began at {first:loss}, above {uniform}, the loss of pure guessing.",
                _began_above_uniform, uniform=_UNIFORM),
            Say("It began at {first:loss}, below {uniform}, the loss of pure guessing: the model was probably trained "
                "before.", known("first_is_uniform"), uniform=_UNIFORM),
        ),
    ),
    f.Evaluations: Clauses(
        By(
            "metric",
            loss=First(
                Say("Validation loss: {last:measured} at {last_step:at}", known("last_val", "stderr"),
                    last=lambda evals: (evals.last_val, evals.stderr)),
                Say("Validation loss: {last_val:loss} at {last_step:at}", known("last_val")),
            ),
            bpb=Say("Validation: {last_val:loss} bits per byte at {last_step:at}", known("last_val")),
        ),
        Bracketed(Say("training loss {last_train:loss}", known("last_train")), _PERPLEXITY, _BITS),
        First(
            Say("; the only evaluation.", lambda evals: evals.count == 1),
            Say("; the best so far.", lambda evals: evals.best_step == evals.last_step),
            Say("; the best was {best_val:loss} at {best_step:at}."),
        ),
    ),
    f.LossPlace: Sentences(
        Say("Compared with n-gram models, which only count what follows what in the training text, the best validation "
            "loss, {loss:loss}, is {place}.", place=lambda found: in_words(found.place)),
        Say("These models were counted on a sample of {train_tokens:large} training tokens.", has("sampled")),
    ),
    f.Checkpoints: Clauses(
        Plural("{n} checkpoint written", "{n} checkpoints written", "count", has("count")),
        First(
            Say(", at {last_step:at}", lambda checkpoints: checkpoints.count == 1),
            Say(", the last at {last_step:at}"),
        ),
        Say("."),
    ),
    f.Gap: Say("Validation loss is {difference:significant2} above training loss ({share:percent}); at "
               "{first_step:at} it was {first_gap:significant2}. The model fits its training text ever better than "
               "new text.", difference=lambda gap: gap.val - gap.train),
    f.Schedule: By(
        "stage",
        warmup=First(
            Say("The learning rate is still warming up ({lr:rate} so far), so the loss says little yet.", known("lr")),
            Say("The learning rate is still warming up (at {share:percent} of its full value), so the loss says little "
                "yet.", known("share")),
            Say("The learning rate is still warming up (until {warmup_steps:at}), so the loss says little yet.",
                known("warmup_steps")),
        ),
        ended=Say("The learning rate has come down from {highest:rate} to {lr:rate}: training longer needs a longer "
                  "schedule from the start.", known("lr", "highest")),
    ),
    f.GradientNorm: Clauses(
        Say("Gradient norm: usually {typical:significant2}, at most {highest:significant2} at "
            "{highest_step:at}"),
        Say("; {clipped_share:percent} of the printed steps were clipped ({setting})", known("clipped_share"),
            setting=Verbatim("grad_clip={clip:typed}")),
        Say("."),
    ),
    f.LossSpike: First(
        Say("The loss jumped from {before:loss} to {loss:loss} at {step:at} and had recovered by {recovered_step:at}.",
            known("recovered_step")),
        Say("The loss jumped from {before:loss} to {loss:loss} at {step:at} and hadn't recovered by the end of the "
            "log."),
    ),
}
