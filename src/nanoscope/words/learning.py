"""What was read, how far the run is, what the model has learnt, and how well it uses its device."""

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

NEARLY_ALL = 0.95  # of the steps: a run that prints every k-th step ends before its last one
LEAST_NOISE = 0.00005  # what four decimals can show
MOST_PERPLEXITY = 1e6


def _did_all_steps(run: f.RunProgress) -> bool:
    total, last = run.total_steps, run.last_step
    return total is not None and last is not None and bool(run.finished) and last >= NEARLY_ALL * total


def _began_above_uniform(loss: f.TrainLoss) -> bool:
    return loss.first_is_uniform is False and (loss.first or 0.0) > (loss.uniform_loss or 0.0)


# fmt: off
_PERPLEXITY = Say("perplexity {perplexity:significant}", lambda f: (f.perplexity or MOST_PERPLEXITY) < MOST_PERPLEXITY)
_BITS = Say("{bits_per_char:number2} bits per character", known("bits_per_char"))
_UNIFORM = Verbatim("ln({vocab_size:plain}) = {uniform_loss:number2}")

MESSAGES: dict[type[f.Finding], Words] = {
    f.LogSummary: Sentences(
        Say("The log begins at step {first_step:plain}, in the middle of the run.",
            has("begins_mid_run", "first_step")),
        Say("The run was resumed at step {resumed_at:steps}.", has("resumed_at")),
        Say("Steps are missing from the middle of the log.", has("elided")),
        Plural("{n} line was a repetition and was counted once.",
               "{n} lines were repetitions and were counted once.", "duplicates_dropped", has("duplicates_dropped")),
        Plural("{n} record was broken over several lines and put together again.",
               "{n} records were broken over several lines and put together again.",
               "rejoined_lines", has("rejoined_lines")),
    ),
    f.LogError: By(
        "kind",
        out_of_memory=Say("Line {line:plain}: memory ran out. {message:line}"),
        killed=Say("Line {line:plain}: the system ended the run. {message:line}"),
        interrupted=Say("Line {line:plain}: the run was stopped before its end. {message:line}"),
        exception=Say("Line {line:plain}: the program stopped with an error. {message:line}"),
    ),
    f.RunProgress: Sentences(
        First(
            Say("Finished: all {total_steps} steps are done.", _did_all_steps),
            Say("Finished early, at step {last_step} of {total_steps}.", has("total_steps", "finished")),
            Say("Finished at step {last_step}.", has("finished")),
            Say("At step {last_step} of {total_steps} ({share:percent}).", known("total_steps", "last_step"),
                share=lambda run: run.last_step / max(run.total_steps, 1)),
            Say("At step {last_step}.", known("last_step")),
        ),
        First(
            Say("{tokens_seen:large} tokens read: the data {passes_over_data:significant2} times over.",
                lambda run: (run.passes_over_data or 0) >= 1),
            Say("{tokens_seen:large} tokens read: {passes_over_data:percent} of the data.", known("passes_over_data")),
            Say("{tokens_seen:large} tokens read.", known("tokens_seen")),
        ),
    ),
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
                Say("Validation loss: {last:measured} at step {last_step:plain}", known("last_val", "stderr"),
                    last=lambda evals: (evals.last_val, evals.stderr)),
                Say("Validation loss: {last_val:loss} at step {last_step:plain}", known("last_val")),
            ),
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
    f.Gap: Say("Validation loss is {difference:significant2} above training loss ({share:percent}); at step "
               "{first_step:plain} it was {first_gap:significant2}. The model fits its training text ever better than "
               "new text.", difference=lambda gap: gap.val - gap.train),
    f.Schedule: By(
        "stage",
        warmup=First(
            Say("The learning rate is still warming up ({lr:rate} so far), so the loss says little yet.", known("lr")),
            Say("The learning rate is still warming up (until step {warmup_steps:plain}), so the loss says little yet.",
                known("warmup_steps")),
        ),
        ended=Say("The learning rate has come down as planned (from {highest:rate} to {lr:rate}): more steps need a "
                  "higher {setting} from the start, or a new schedule.", known("lr", "highest"), setting="max_iters"),
    ),
    f.GradientNorm: Clauses(
        Say("Gradient norm: usually {typical:significant2}, at most {highest:significant2} at step "
            "{highest_step:plain}"),
        Say("; {clipped_share:percent} of the printed steps were clipped ({setting})", known("clipped_share"),
            setting=Verbatim("grad_clip={clip:typed}")),
        Say("."),
    ),
    f.LossSpike: First(
        Say("The loss jumped from {before:loss} to {loss:loss} at step {step:plain} and was back at step "
            "{recovered_step:plain}.", known("recovered_step")),
        Say("The loss jumped from {before:loss} to {loss:loss} at step {step:plain} and wasn't back by the end of the "
            "log."),
    ),
    f.Mfu: Sentences(
        By(
            "reason",
            not_measured=Say("MFU was never measured: a negative figure only holds its place."),
            above_one=Say("The printed MFU of {logged:percent} is impossible: the trainer divides by the peak of "
                          "another device, or miscounts the work."),
            assumes_other_device=Say("The printed MFU of {logged:percent} is measured against the peak of "
                                     "{assumed_device}, which this is not."),
            device_unknown=Say("The printed MFU of {logged:percent} is true only on {assumed_device}, "
                               "whose peak it assumes."),
            moving_average=Say("The printed MFU (last {last:percent}) is a moving average that slow steps drag down; "
                               "between them it is {logged:percent}."),
            peak_unknown=Say("MFU {logged:percent} cannot be checked: the peak of this device is not known."),
            matches_device=Say("MFU {logged:percent}: this share of the device's arithmetic peak is used."),
            trainer_knows_device=Say("MFU {logged:percent}: this share of the device's arithmetic peak is used."),
        ),
        First(
            Say("On {device} (peak {peak}) it is {recomputed:percent}.", known("recomputed"),
                peak=Verbatim("{peak_tflops:significant} TFLOPS; {peak_source}")),
            Say("{option} works it out for your device.",
                lambda mfu: mfu.device is None and mfu.trust == "wrong_peak", option="--device NAME"),
        ),
    ),
}
