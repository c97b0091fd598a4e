"""What was read, how far the run is, what the model has learnt, and how well it uses its device."""

from nanoscope.analysis.findings import (
    Checkpoints,
    Evaluations,
    LogError,
    LossSpike,
    Mfu,
    Progress,
    Reading,
    TrainLoss,
    Warmup,
)
from nanoscope.words.language import Language

NEARLY_ALL = 0.95  # of the steps: a run that prints every k-th ends before its last one
MESSAGE_LIMIT = 160  # characters of an error's own text


def reading(finding: Reading, language: Language) -> str:
    """What had to be mended or is missing; empty for a clean log."""
    say, plural = language.say, language.plural
    notes = []
    if finding.begins_mid_run and finding.first_step is not None:
        notes.append(say("The log begins at step {step}, in the middle of the run.", step=str(finding.first_step)))
    if finding.resumed_at:
        steps = language.both([str(step) for step in finding.resumed_at[:4]])
        notes.append(say("The run was resumed at step {steps}.", steps=steps))
    if finding.elided:
        notes.append(say("Steps are missing from the middle of the log."))
    if finding.duplicates_dropped:
        notes.append(
            plural(
                "{n} line was a repetition and was counted once.",
                "{n} lines were repetitions and were counted once.",
                finding.duplicates_dropped,
            )
        )
    if finding.rejoined_lines:
        notes.append(
            plural(
                "{n} record was broken over several lines and put together again.",
                "{n} records were broken over several lines and put together again.",
                finding.rejoined_lines,
            )
        )
    return " ".join(notes)


def error(finding: LogError, language: Language) -> str:
    values = {
        "line": str(finding.line),
        "message": " ".join(finding.message.split())[:MESSAGE_LIMIT],
    }
    match finding.kind:
        case "out_of_memory":
            return language.say("Line {line}: memory ran out. {message}", **values)
        case "killed":
            return language.say("Line {line}: the system ended the run. {message}", **values)
        case "interrupted":
            return language.say("Line {line}: the run was stopped before its end. {message}", **values)
        case "exception":
            return language.say("Line {line}: the program stopped with an error. {message}", **values)


def progress(finding: Progress, language: Language) -> str:
    say = language.say
    sentences = []
    if finding.total_steps is not None and finding.last_step is not None:
        values = {"last": finding.last_step, "total": finding.total_steps}
        if finding.finished and finding.last_step >= NEARLY_ALL * finding.total_steps:
            sentences.append(say("Finished: all {total} steps are done.", total=finding.total_steps))
        elif finding.finished:
            sentences.append(say("Finished early, at step {last} of {total}.", **values))
        else:
            share = language.percent(finding.last_step / max(finding.total_steps, 1))
            sentences.append(say("At step {last} of {total} ({share}).", share=share, **values))
    elif finding.last_step is not None:
        if finding.finished:
            sentences.append(say("Finished at step {last}.", last=finding.last_step))
        else:
            sentences.append(say("At step {last}.", last=finding.last_step))
    if finding.tokens_seen is not None:
        tokens = language.large(finding.tokens_seen)
        passes = finding.passes_over_data
        if passes is not None and passes >= 1:
            times = language.significant(passes, 2)
            sentences.append(say("{tokens} tokens read: the data {passes} times over.", tokens=tokens, passes=times))
        elif passes is not None:
            share = language.percent(passes)
            sentences.append(say("{tokens} tokens read: {share} of the data.", tokens=tokens, share=share))
        else:
            sentences.append(say("{tokens} tokens read.", tokens=tokens))
    return " ".join(sentences)


def train_loss(finding: TrainLoss, language: Language) -> str:
    say, loss = language.say, language.loss
    now = finding.smoothed_last if finding.smoothed_last is not None else finding.last
    if now is None:
        return ""
    if finding.first is not None and finding.first != now:
        sentences = [say("Training loss: from {first} to {now}", first=loss(finding.first), now=loss(now))]
    else:
        sentences = [say("Training loss: {now}", now=loss(now))]
    if finding.noise and finding.noise >= 0.00005:  # what four decimals can show
        noise = language.significant(finding.noise, 2)
        sentences[0] += say(", single lines ±{noise}", noise=noise)
    sentences[0] += _other_measures(finding.perplexity, finding.bits_per_char, language) + say(".")
    if finding.uniform_loss is not None and finding.vocab_size is not None and finding.first is not None:
        values = {
            "first": loss(finding.first),
            "uniform": f"ln({finding.vocab_size}) = {language.number(finding.uniform_loss, 2)}",
        }
        if finding.first_is_uniform:
            sentences.append(say("It began near {uniform}, as an untrained model must.", **values))
        elif finding.first_is_uniform is False and finding.first > finding.uniform_loss:
            sentences.append(
                say("It began at {first}, above {uniform}, the loss of pure guessing: a poor start.", **values)
            )
        elif finding.first_is_uniform is False:
            sentences.append(say("It began at {first}, below {uniform}: the model had been trained before.", **values))
    return " ".join(sentences)


def _other_measures(
    perplexity: float | None, bits_per_char: float | None, language: Language, train: float | None = None
) -> str:
    """' (training loss 1.76, perplexity 4.4, 2.13 bits per character)', as far as known."""
    parts = []
    if train is not None:
        parts.append(language.say("training loss {train}", train=language.loss(train)))
    if perplexity is not None and perplexity < 1e6:
        parts.append(language.say("perplexity {value}", value=language.significant(perplexity)))
    if bits_per_char is not None:
        bits = language.number(bits_per_char, 2)
        parts.append(language.say("{bits} bits per character", bits=bits))
    return f" ({language.say(', ').join(parts)})" if parts else ""


def evaluations(finding: Evaluations, language: Language) -> str:
    say, loss = language.say, language.loss
    if finding.last_val is None or finding.last_step is None:
        return ""
    values = {"last": loss(finding.last_val), "step": str(finding.last_step)}
    best_is_last = finding.best_step is None or finding.best_step == finding.last_step
    if finding.metric == "bpb":
        text = say("Validation: {last} bits per byte at step {step}", **values)
    else:
        text = say("Validation loss: {last} at step {step}", **values)
    text += _other_measures(finding.perplexity, finding.bits_per_char, language, finding.last_train)
    if finding.count == 1:
        text += say("; the only evaluation.")
    elif best_is_last:
        text += say("; the best so far.")
    else:
        text += say(
            "; the best was {best} at step {best_step}.",
            best=loss(finding.best_val),
            best_step=str(finding.best_step),
        )
    return text


def checkpoints(finding: Checkpoints, language: Language) -> str:
    if not finding.count:
        return ""
    text = language.plural("{n} checkpoint written", "{n} checkpoints written", finding.count)
    if finding.last_step is not None and finding.count == 1:
        text += language.say(", at step {step}", step=str(finding.last_step))
    elif finding.last_step is not None:
        text += language.say(", the last at step {step}", step=str(finding.last_step))
    return text + language.say(".")


def loss_spike(finding: LossSpike, language: Language) -> str:
    return language.say(
        "The loss jumped from {before} to {loss} at step {step} and was back at step {recovered}.",
        before=language.loss(finding.before),
        loss=language.loss(finding.loss),
        step=str(finding.step),
        recovered=str(finding.recovered_step),
    )


def warmup(finding: Warmup, language: Language) -> str:
    return language.say(
        "The learning rate is still warming up (step {step} of {warmup}): the loss says little yet.",
        step=str(finding.last_step),
        warmup=str(finding.warmup_steps),
    )


def mfu(finding: Mfu, language: Language) -> str:
    say = language.say
    logged, assumed = language.percent(finding.logged), _device(finding.assumed_device, language)
    match finding.reason:
        case "not_measured":
            sentences = [say("MFU was never measured: a negative figure only holds its place.")]
        case "above_one":
            sentences = [
                say(
                    "The printed MFU of {logged} is impossible: the trainer divides by the peak of another "
                    "device, or miscounts the work.",
                    logged=logged,
                )
            ]
        case "assumes_other_device":
            sentences = [
                say(
                    "The printed MFU of {logged} is measured against the peak of {assumed}, which this is not.",
                    logged=logged,
                    assumed=assumed,
                )
            ]
        case "device_unknown":
            sentences = [
                say(
                    "The printed MFU of {logged} is true only on {assumed}, whose peak it assumes.",
                    logged=logged,
                    assumed=assumed,
                )
            ]
        case "moving_average":
            sentences = [
                say(
                    "The printed MFU (last {last}) is a moving average that slow steps drag down; "
                    "between them it is {logged}.",
                    last=language.percent(finding.last),
                    logged=logged,
                )
            ]
        case "peak_unknown":
            sentences = [say("MFU {logged} cannot be checked: the peak of this device is not known.", logged=logged)]
        case "matches_device" | "trainer_knows_device":
            sentences = [say("MFU {logged}: this share of the device's arithmetic peak is used.", logged=logged)]
    if finding.recomputed is not None:
        peak = language.significant(finding.peak_tflops) + " TFLOPS"
        sentences.append(
            say(
                "On {device} (peak {peak}) it is {recomputed}.",
                device=_device(finding.device, language),
                peak="; ".join(filter(None, (peak, finding.peak_source))),
                recomputed=language.percent(finding.recomputed),
            )
        )
    elif finding.device is None and finding.trust == "wrong_peak":
        sentences.append(say("{option} works it out for your device.", option="--device NAME"))
    elif finding.reason == "moving_average" and finding.lag:
        sentences.append(
            say("The slow steps alone take {lag} off the printed figure.", lag=language.percent(finding.lag))
        )
    return " ".join(sentences)


def _device(name: str | None, language: Language) -> str:
    return name or language.say("another device")
