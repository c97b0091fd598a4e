"""A run at a glance: its headline figures, and what its verdict rests on. All from its findings."""

import msgspec

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.clock import wall_seconds
from nanoscope.findings.eta import Eta, NoEta
from nanoscope.findings.mfu import share_of_device
from nanoscope.messages import NOTHING
from nanoscope.runs.run import Run
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence


class Tile(msgspec.Struct):
    """A figure with its label and what stands below it."""

    key: str
    concept: str  # that the label opens
    label: str
    value: str
    foot: list[str]
    unit: str = ""
    share: float | None = None  # of the steps, that is done
    seconds: float | None = None  # until the end


def tiles(run: Run, analysis: Analysis, language: Language) -> list[Tile]:
    """The tiles in their order, without the run's state, which the page knows best."""
    return [
        _loss(run, analysis, language),
        _progress(analysis, language),
        _time_left(run, analysis, language),
        _speed(analysis, language),
        _elapsed(run, analysis, language),
    ]


def facts(run: Run, language: Language) -> str:
    """What is trained on what: '10.7M · RTX 3060 · bfloat16 · compile'."""
    start = run.details.start if run.details else None
    parameters = run.config.get("parameters")
    known = [
        language.large(parameters) if isinstance(parameters, int | float) and parameters > 0 else None,
        (start and start.device_name) or run.config.get("device"),
        (start and start.dtype) or run.config.get("dtype"),
        "compile" if (start and start.compiled) or run.config.get("compile") is True else None,
    ]
    return " · ".join(str(fact) for fact in known if fact)


def evidence(analysis: Analysis, language: Language) -> list[tuple[str, str, str]]:
    """What the verdict is weighed against: title, text, and the concept of the title."""
    say = language.say
    found = (
        (say("Validation"), analysis.evals, "val_loss"),
        (say("Gap"), analysis.gap, "gap"),
        (say("Training"), analysis.train_loss, "train_loss"),
        (say("Learning rate"), analysis.schedule, "learning_rate"),
        (say("Gradients"), analysis.gradients, "gradient_norm"),
    )
    texts = ((title, sentence(finding, language), concept) for title, finding, concept in found if finding is not None)
    return [each for each in texts if each[1]]


def _tile(key: str, concept: str, label: str, value: str, foot: list[str | None]) -> Tile:
    return Tile(key, concept, label, value, [each for each in foot if each])


def _loss(run: Run, analysis: Analysis, language: Language) -> Tile:
    say, evals = language.say, analysis.evals
    if evals is None or evals.best_val is None or evals.best_step is None:
        train = analysis.train_loss
        first = say("first {loss:loss}", loss=train.first) if train.first is not None else None
        return _tile("loss", "train_loss", say("Training loss"), language.loss(train.smoothed_last), [first])
    best = next((e for e in run.evals if e.step == evals.best_step), None)
    error = f"± {language.significant(best.stderr, 2)}" if best and best.stderr else None
    last = evals.last_step is not None and evals.last_step != evals.best_step
    foot = [
        error,
        language.at(evals.best_step),
        say("last {loss:loss}", loss=evals.last_val) if last and evals.last_val is not None else None,
    ]
    in_loss = evals.metric == "loss"
    label = say("Val loss, best") if in_loss else say("Bits per byte, best")
    concept = "val_loss" if in_loss else "bits_per_char"
    return _tile("val", concept, label, language.loss(evals.best_val), foot)


def _progress(analysis: Analysis, language: Language) -> Tile:
    say, progress = language.say, analysis.progress
    label, last = say("Step") if progress.unit == "step" else say("Epoch"), progress.last_step
    tile = _tile("step", progress.unit, label, NOTHING if last is None else f"{last:,}", [])
    if progress.total_steps and last is not None and progress.steps_left is not None:
        tile.share = 1.0 if progress.finished else min(1.0, last / progress.total_steps)
        tile.unit, tile.foot = f"/ {progress.total_steps:,}", [language.percent(tile.share)]
    elif not progress.finished:
        tile.foot = [say("of an unknown number")]
    return tile


def _time_left(run: Run, analysis: Analysis, language: Language) -> Tile:
    say, eta = language.say, analysis.eta
    label = say("Time left")
    if analysis.progress.finished:
        return _tile("left", "time_left", label, NOTHING, [say("finished")])
    if isinstance(eta, Eta):
        between = language.between(language.duration(eta.low_s), language.duration(eta.high_s))
        return Tile("left", "time_left", label, language.duration(eta.expected_s), [between], seconds=eta.expected_s)
    reason = eta.reason if isinstance(eta, NoEta) else "no_times"
    why = {
        "total_unknown": say("the number of steps is unknown"),
        "no_times": say("the log has no times"),
        "no_normal_step": say("only steps with an evaluation in the log"),
        "not_finite": say("the loss is not a number"),
    }
    return _tile("left", "time_left", label, NOTHING, [why[reason]])


def _speed(analysis: Analysis, language: Language) -> Tile:
    say, timing = language.say, analysis.timing
    step = language.duration(timing.typical_s) if timing else NOTHING
    rate = timing.throughput_tok_s if timing else None
    mfu, peak = share_of_device(analysis.mfu, analysis.achieved)
    share = None if mfu is None else f"MFU {language.percent(mfu)}"
    if mfu is not None and peak is not None:
        share = say("MFU {share} of {peak} TFLOP/s", share=language.percent(mfu), peak=language.significant(peak))
    if rate is None:
        label = say("Step time") if analysis.progress.unit == "step" else say("Time per epoch")
        return _tile("speed", "step_time", label, step, [share])
    label = say("Tokens/s per device") if timing and timing.tok_s_per_device else say("Tokens/s")
    return _tile("speed", "tokens_s", label, language.large(rate), [share, say("step {time}", time=step)])


def _elapsed(run: Run, analysis: Analysis, language: Language) -> Tile:
    say, progress = language.say, analysis.progress
    seen = say("{n} tokens", n=language.large(progress.tokens_seen)) if progress.tokens_seen else None
    passes = progress.passes_over_data
    epochs = say("{n} epochs", n=language.significant(passes, 2)) if passes else None
    label = say("Time in all") if progress.finished else say("Elapsed")
    return _tile("elapsed", "", label, language.duration(wall_seconds(run, analysis)), [seen, epochs])
