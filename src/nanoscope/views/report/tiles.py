"""A run at a glance: its headline figures, and what its verdict rests on. All from its findings."""

import msgspec

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.clock import wall_seconds
from nanoscope.findings.eta import Eta, NoEta
from nanoscope.findings.mfu import share_of_device
from nanoscope.messages import NOTHING
from nanoscope.runs.details import RunDetails
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
    start, parameters = (run.details or RunDetails()).start, run.config.get("parameters")
    known = [
        isinstance(parameters, int | float) and parameters > 0 and language.large(parameters),
        start.device_name or run.config.get("device"),
        start.dtype or run.config.get("dtype"),
        (start.compiled or run.config.get("compile") is True) and "compile",
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


def _loss(run: Run, analysis: Analysis, language: Language) -> Tile:
    say, evals, train = language.say, analysis.evals, analysis.train_loss
    if evals is None or evals.best_val is None or evals.best_step is None:
        foot = [] if train.first is None else [say("first {loss:loss}", loss=train.first)]
        return Tile("loss", "train_loss", say("Training loss"), language.loss(train.smoothed_last), foot)
    error = next((e.stderr for e in run.evals if e.step == evals.best_step), None)
    foot = [f"± {language.significant(error, 2)}"] if error else []
    foot.append(language.at(evals.best_step))
    if evals.last_val is not None and evals.last_step not in (None, evals.best_step):
        foot.append(say("last {loss:loss}", loss=evals.last_val))
    value = language.loss(evals.best_val)
    if evals.metric == "loss":
        return Tile("val", "val_loss", say("Val loss, best"), value, foot)
    return Tile("val", "bits_per_char", say("Bits per byte, best"), value, foot)


def _progress(analysis: Analysis, language: Language) -> Tile:
    say, progress = language.say, analysis.progress
    label, last = say("Step") if progress.unit == "step" else say("Epoch"), progress.last_step
    tile = Tile("step", progress.unit, label, NOTHING if last is None else f"{last:,}", [])
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
        return Tile("left", "time_left", label, NOTHING, [say("finished")])
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
    return Tile("left", "time_left", label, NOTHING, [why[reason]])


def _speed(analysis: Analysis, language: Language) -> Tile:
    say, timing = language.say, analysis.timing
    step = language.duration(timing.typical_s) if timing else NOTHING
    mfu, peak = share_of_device(analysis.mfu, analysis.achieved)
    share, foot = language.percent(mfu), []
    if mfu is not None and peak is not None:
        foot = [say("MFU {share} of {peak} TFLOP/s", share=share, peak=language.significant(peak))]
    elif mfu is not None:
        foot = [f"MFU {share}"]
    if timing is None or timing.throughput_tok_s is None:
        label = say("Step time") if analysis.progress.unit == "step" else say("Time per epoch")
        return Tile("speed", "step_time", label, step, foot)
    label = say("Tokens/s per device") if timing.tok_s_per_device else say("Tokens/s")
    return Tile(
        "speed", "tokens_s", label, language.large(timing.throughput_tok_s), [*foot, say("step {time}", time=step)]
    )


def _elapsed(run: Run, analysis: Analysis, language: Language) -> Tile:
    say, progress = language.say, analysis.progress
    foot = []
    if progress.tokens_seen:
        foot.append(say("{n} tokens", n=language.large(progress.tokens_seen)))
    if progress.passes_over_data:
        foot.append(say("{n} epochs", n=language.significant(progress.passes_over_data, 2)))
    label = say("Time in all") if progress.finished else say("Elapsed")
    return Tile("elapsed", "", label, language.duration(wall_seconds(run, analysis)), foot)
