"""What the model has learnt."""

from nanoscope.analysis import findings as f
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
                Say("Training loss: from {first:loss} to {smoothed_last:loss}", lambda f: f.first != f.smoothed_last),
                Say("Training loss: {smoothed_last:loss}", known("smoothed_last")),
            ),
            Say(", single lines ±{noise:significant2}", lambda f: (f.noise or 0.0) >= LEAST_NOISE),
            Bracketed(_PERPLEXITY, _BITS),
            Say("."),
        ),
        First(
            Say("It began near {uniform}, as an untrained model must.", has("first_is_uniform"), uniform=_UNIFORM),
            Say("It began at {first:loss}, above {uniform}, the loss of pure guessing: a poor start.",
                _began_above_uniform, uniform=_UNIFORM),
            Say("It began at {first:loss}, below {uniform}: the model had been trained before.",
                known("first_is_uniform"), uniform=_UNIFORM),
        ),
    ),
    f.Evaluations: Clauses(
        By(
            "metric",
            loss=Say("Validation loss: {last_val:loss} at step {last_step:plain}", known("last_val")),
            bpb=Say("Validation: {last_val:loss} bits per byte at step {last_step:plain}", known("last_val")),
        ),
        Bracketed(Say("training loss {last_train:loss}", known("last_train")), _PERPLEXITY, _BITS),
        First(
            Say("; the only evaluation.", lambda evals: evals.count == 1),
            Say("; the best so far.", lambda evals: evals.best_step == evals.last_step),
            Say("; the best was {best_val:loss} at step {best_step:plain}."),
        ),
    ),
    f.Checkpoints: Clauses(
        Plural("{n} checkpoint written", "{n} checkpoints written", "count", has("count")),
        First(
            Say(", at step {last_step:plain}", lambda checkpoints: checkpoints.count == 1),
            Say(", the last at step {last_step:plain}"),
        ),
        Say("."),
    ),
    f.LossSpike: Say("The loss jumped from {before:loss} to {loss:loss} at step {step:plain} and was back at step "
                     "{recovered_step:plain}."),
    f.Warmup: Say("The learning rate is still warming up (step {last_step:plain} of {warmup_steps:plain}): "
                  "the loss says little yet."),
}
