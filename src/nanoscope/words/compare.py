"""Several runs side by side: what they show together, and the rows of their table."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Plural, Renderer, Say, Sentences, Verbatim, Words, has, known

MOST_LOSSES = 8  # that a sentence lists; of more it gives the best and the worst, and a table has them all

MEASURES = By(
    "measure",
    last_step=Say("last step"),
    last_train_loss=Say("last training loss"),
    last_val_loss=Say("last validation loss"),
    best_val_loss=Say("best validation loss"),
    last_val_bpb=Say("last validation, bits per byte"),
    best_val_bpb=Say("best validation, bits per byte"),
    val_at_equal_steps=Say("validation at step {at:plain}", at=lambda row: int(row.at)),
    train_at_equal_steps=Say("training loss at step {at:plain}", at=lambda row: int(row.at)),
    val_at_equal_tokens=Say("validation at {at:large} tokens"),
    val_at_equal_time=Say("validation after {at:duration}"),
    time_to_loss=Say("time to loss {at:significant}"),
    step_time=Say("normal step"),
    throughput=Say("tokens/s"),
    total_time=Say("total time"),
    mfu=Say("MFU"),
)
# How the values of a row are written; the other measures are losses.
FORMATS: dict[f.RowMeasure, str] = {
    "last_step": "typed",
    "time_to_loss": "duration",
    "step_time": "duration",
    "total_time": "duration",
    "throughput": "large",
    "mfu": "percent",
}
# Which run is ahead in the two measures that people ask about first.
LEADERS = By(
    "measure",
    step_time=Say("Fastest step: {run} ({value})."),
    best_val_loss=Say("Best validation loss: {run} ({value})."),
    best_val_bpb=Say("Best validation, in bits per byte: {run} ({value})."),
)


class Listed(Words):
    """A text for each item, joined by commas."""

    COMMA = Say(", ")

    def __init__(self, items: Callable[[Any], list[Any]], each: Words | None = None) -> None:
        self._items, self._each = items, each

    def write(self, finding: Any, language: Renderer) -> str:
        texts = [self._each.write(item, language) if self._each else str(item) for item in self._items(finding)]
        return self.COMMA.write(None, language).join(language.isolate(text) for text in texts)


class WithError(Words):
    """'0.43 ± 0.05': a value with as many decimals as its error has; without one, with two digits."""

    def __init__(self, value: str, error: str, digits: int = 1) -> None:
        self._value, self._error, self._digits = value, error, digits

    def write(self, finding: Any, language: Renderer) -> str:
        value, error = getattr(finding, self._value), getattr(finding, self._error)
        if error is None:
            return language.significant(value, 2)
        digits = self._digits + (abs(value) < 2 * error)  # where little is left, one digit would say '0.0 ± 0.1'
        decimals = max(0, min(4, digits - 1 - math.floor(math.log10(error)))) if error > 0 else 4
        return f"{language.number(value, decimals)} ± {language.number(error, decimals)}"


def _is(**wanted: object) -> Callable[[Any], bool]:
    return lambda finding: all(getattr(finding, field) == value for field, value in wanted.items())


def _losses(effect: f.Effect) -> list[Any]:
    pairs = [SimpleNamespace(value=v, loss=loss) for v, loss in zip(effect.values, effect.losses, strict=True)]
    finite = sorted((pair for pair in pairs if pair.loss is not None), key=lambda pair: pair.loss)
    return pairs if len(pairs) <= MOST_LOSSES else [finite[0], finite[-1]]


def _settings(pairs: str) -> Words:
    return Listed(lambda finding: [f"{key}={value}" for key, value in getattr(finding, pairs)])


def _own_then(finding: Any) -> float:
    return float(finding.losses_then[0])


def _other_then(finding: Any) -> float:
    return float(finding.losses_then[1])


# Where losses are compared: for findings with the fields `measure` and `step`.
WHERE = First(
    Say("validation loss at step {step:plain}", lambda finding: finding.measure == "val" and finding.step is not None),
    Say("training loss at step {step:plain}", lambda finding: finding.measure == "train" and finding.step is not None),
    Say("last validation loss", _is(measure="val")),
    Say("last training loss"),
)
SIZE = WithError("difference", "noise")
MEAN = WithError("mean", "spread", digits=2)
LOSS_OF_VALUE = First(Say("{loss:loss} with {value}", known("loss")), Say("not finite with {value}"))
LOSSES = Listed(_losses, LOSS_OF_VALUE)
BEST = Verbatim("{best}", best=lambda effect: effect.values[effect.best])
NAMES = Listed(lambda finding: list(finding.settings))
FIXED = _settings("fixed")

# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.NotComparable: By(
        "reason",
        unit=Say("The losses of {run} and {other} can't be compared: one is in bits per byte, the other per token."),
        vocabulary=Say("The losses of {run} and {other} can't be compared: their vocabularies have {one} and {two} "
                       "tokens.", one=lambda n: n.values[0], two=lambda n: n.values[1]),
        data=First(
            Say("The losses of {run} and {other} can't be compared: they learn from different data ({one}, {two}).",
                lambda finding: finding.values[0], one=lambda n: n.values[0], two=lambda n: n.values[1]),
            Say("The losses of {run} and {other} can't be compared: they learn from different data."),
        ),
        size=Say("The losses of {run} and {other} can't be compared: their training data have {one} and {two} tokens.",
                 one=lambda n: int(n.values[0]), two=lambda n: int(n.values[1])),
        start=Say("The losses of {run} and {other} probably can't be compared: they begin at {one} and {two}, so their "
                  "vocabularies or initial weights differ.",
                  one=lambda n: n.values[0], two=lambda n: n.values[1]),
    ),
    f.SameData: By(
        "evidence",
        fingerprint=Say("{one} and {two} are the same data: their fingerprints agree.",
                        one=lambda s: s.names[0], two=lambda s: s.names[1]),
        size=Say("{one} and {two} are the same data: as many tokens, and a vocabulary of {vocab_size:plain}.",
                 one=lambda s: s.names[0], two=lambda s: s.names[1]),
        vocabulary=Say("{one} and {two} are probably the same data: both have a vocabulary of {vocab_size:plain}.",
                       one=lambda s: s.names[0], two=lambda s: s.names[1]),
    ),
    f.UnknownData: Say("The logs don't say what the runs learn from. Their losses can be compared only if it is the "
                       "same text and tokenizer."),
    f.Effect: Sentences(
        Say("With {fixed}:", has("fixed"), fixed=FIXED),
        First(
            Say("{setting} makes the difference ({where}): {losses}. Best: {best}.",
                _is(verdict="differs", confidence="sure"), where=WHERE, losses=LOSSES, best=BEST),
            Say("{setting} is the only difference that the logs show ({where}): {losses}. They don't show everything, "
                "so the cause may be another.", _is(verdict="differs", confidence="hint"), where=WHERE, losses=LOSSES),
            Say("{setting}, the only setting that differs, most likely makes the difference ({where}): "
                "{losses}. Best: {best}.", _is(verdict="differs"), where=WHERE, losses=LOSSES, best=BEST),
            Say("{setting} may make a difference ({where}): {losses}.",
                _is(verdict="unclear"), where=WHERE, losses=LOSSES),
            Say("{setting} makes no difference beyond the noise ({where}): {losses}.", where=WHERE, losses=LOSSES),
        ),
        By(
            "noise_from",
            windows=Say("From best to worst: {size}, compared window by window.", size=SIZE),
            repeats=Say("From best to worst: {size}, judged by the repeats.", size=SIZE),
            errors=Say("From best to worst: {size}, by the errors of the evaluations.", size=SIZE),
            scatter=Say("From best to worst: {size}, by the scatter of the losses.", size=SIZE),
        ),
        Say("A repeat with another seed would show how much of this is chance.", has("small")),
        Say("Equally good within the error: {ties}.", has("ties"), ties=Listed(lambda effect: list(effect.ties))),
        First(
            Say("The best lies inside the range tried; to narrow it down, try {next}.",
                lambda e: e.edge == "inside" and e.try_next, next=Listed(lambda effect: list(effect.try_next))),
            Say("The best lies inside the range tried.", _is(edge="inside")),
            Say("The best lies at the end of the range tried: widen it, to {next} for example.",
                has("edge", "try_next"), next=Listed(lambda effect: list(effect.try_next))),
            Say("The best lies at the end of the range tried.", has("edge")),
        ),
    ),
    f.Repeats: Sentences(
        Say("With {fixed}:", has("fixed"), fixed=FIXED),
        First(
            Plural("{n} repeat with another seed ({where}): {size}, between {low:loss} and {high:loss}.",
                   "{n} repeats with other seeds ({where}): {size}, between {low:loss} and {high:loss}.",
                   "count", _is(differ="seed"), where=WHERE, size=MEAN),
            Plural("{n} run that the logs can't tell apart ({where}): {size}, between {low:loss} and "
                   "{high:loss}.",
                   "{n} runs that the logs can't tell apart ({where}): {size}, between {low:loss} and "
                   "{high:loss}.",
                   "count", where=WHERE, size=MEAN),
        ),
    ),
    f.Identical: Sentences(
        Plural("{n} run is identical to the digit ({where}: {loss:loss}).",
               "{n} runs are identical to the digit ({where}: {loss:loss}).", "count", where=WHERE),
        First(
            Say("So {settings} changes nothing here.", has("settings"), settings=NAMES),
            Say("Their settings are the same as well: the run can be repeated exactly.", has("knows_settings")),
            Say("If a setting was changed between them, it changes nothing."),
        ),
    ),
    f.Confounded: Sentences(
        First(
            Say("{run} and {other} differ by {size} ({where}). Several settings differ: {settings}. These runs can't "
                "tell which one matters.", known("difference"),
                size=Verbatim("{difference:significant2}", difference=lambda c: abs(c.difference)), where=WHERE,
                settings=NAMES),
            Say("{run} and {other} differ in several settings: {settings}.", settings=NAMES),
        ),
        Say("A run like {run}, but with {next}, would tell.", lambda c: len(c.tell_apart) == 1,
            next=_settings("tell_apart")),
        Say("Runs like {run}, each with one of {next}, would tell.", lambda c: len(c.tell_apart) > 1,
            next=_settings("tell_apart")),
    ),
    f.Unexplained: Sentences(
        First(
            Say("{run} is higher than {other} by {difference:significant2} ({where}), more than their noise.",
                known("noise"), where=WHERE),
            Say("{run} is higher than {other} by {difference:significant2} ({where}). The logs don't show "
                "how noisy these losses are.", where=WHERE),
        ),
        By(
            "knows",
            settings=Say("Unexplained: their settings are the same."),
            some_settings=Say("Unexplained: the settings that the logs show are the same."),
            no_settings=Say("Unexplained: the logs don't show the settings."),
        ),
    ),
    f.WithinNoise: Say("{run} and {other} differ by no more than their noise ({where}: {size}).",
                       where=WHERE, size=SIZE),
    f.FewerSteps: By(
        "verdict",
        explains=Say("{run} did fewer steps than {other} ({steps:plain}, {other_steps:plain}). At step "
                     "{equal_step:plain} they were equal within their noise ({run} {a:loss}; {other} {b:loss}): {run} "
                     "has been trained less.", a=_own_then, b=_other_then),
        differs_too=Say("{run} did fewer steps than {other} ({steps:plain}, {other_steps:plain}). That doesn't explain "
                        "it all: they already differed at step {equal_step:plain} ({run} {a:loss}; {other} {b:loss}).",
                        a=_own_then, b=_other_then),
        unclear=Say("{run} did fewer steps than {other} ({steps:plain}, {other_steps:plain}). Whether that explains "
                    "the difference is unclear: at step {equal_step:plain} their losses were {a:loss} and {b:loss}.",
                    a=_own_then, b=_other_then),
        no_common_step=Say("{run} did fewer steps than {other} ({steps:plain}, {other_steps:plain}), and the logs have "
                           "no step at which both can be compared."),
    ),
    f.ResumedWith: Say("{run} was resumed at step {step:plain} with other settings: {settings}. They hold only from "
                       "there on.", settings=_settings("settings")),
    f.Fault: By(
        "kind",
        overfitting=First(
            Say("{run} is past its best: its validation loss rises while its training loss falls, "
                "so its low training loss is not a good sign.", known("step")),
            Say("{run} is overfitting: its validation loss is far above its training loss, "
                "so its low training loss is not a good sign."),
        ),
        diverged=Say("{run} diverged at step {step:plain}: its last loss says nothing about its settings."),
        non_finite=Say("The loss of {run} is not finite from step {step:plain} on."),
    ),
    f.NoEffect: Say("It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, "
                    "only more slowly."),
    f.Work: By(
        "source",
        mfu=Say("A step of {run} does about {ratio:significant2} times the arithmetic of a step of {other} (by "
                "MFU × time): a larger model, or more tokens in a step."),
        sizes=Say("A step of {run} does about {ratio:significant2} times the arithmetic of a step of {other} (by "
                  "parameters × tokens)."),
    ),
    f.Speed: By(
        "reason",
        equal=Say("All runs are equally fast: {range:durations} a step, within their spread.",
                  range=lambda s: (s.other_seconds, s.seconds)),
        setting=Say("With {setting}={slow} a step takes {seconds:duration}, with {setting}={fast} "
                    "{other_seconds:duration}. No other setting in the logs that affects the speed differs.",
                    setting=lambda s: s.settings[0], slow=lambda s: s.values[0], fast=lambda s: s.values[1]),
        device=Say("The machine makes the difference in speed: {seconds:duration} a step on {slow}, "
                   "{other_seconds:duration} on {fast}.", slow=lambda s: s.values[0], fast=lambda s: s.values[1]),
        several=Say("A step of {run} takes {seconds:duration}, one of {other} {other_seconds:duration}. Several "
                    "settings that matter here differ: {settings}.", settings=NAMES),
        work=Say("A step of {run} takes {seconds:duration}, one of {other} {other_seconds:duration}: it does more "
                 "work."),
        machine=Say("A step of {run} takes {seconds:duration}, one of {other} {other_seconds:duration}, for about "
                    "the same arithmetic: the machine of {other} is faster or less busy."),
        same_machine=Say("A step of {run} takes {seconds:duration}, one of {other} {other_seconds:duration}, with the "
                         "same settings on the same machine. The logs don't show what slows {run} down."),
        unexplained=Say("A step of {run} takes {seconds:duration}, one of {other} {other_seconds:duration}. The "
                        "logs don't show why."),
    ),
    f.Continued: First(
        Say("Continued to step {to_step:plain} at the same pace, {run} would reach a validation loss of about "
            "{level:losses}.",
            known("low"), level=lambda continued: (continued.low, continued.high)),
        By(
            "why_not",
            overfitting=Say("Can't tell where {run} would be at step {to_step:plain}: it is overfitting."),
            too_short=Say("Can't tell where {run} would be at step {to_step:plain}: it has too few evaluations."),
            too_far=Say("Can't tell where {run} would be at step {to_step:plain}: that is more than twice its "
                        "steps."),
            unsteady=Say("Can't tell where {run} would be at step {to_step:plain}: its losses are too unsteady."),
            diverged=Say("Can't tell where {run} would be at step {to_step:plain}: it has diverged."),
        ),
    ),
}
# fmt: on


def row_value(row: f.ComparisonRow, value: float | None, language: Renderer) -> str:
    """One run's value of a row, in the row's unit."""
    return language.write(value, FORMATS.get(row.measure, "loss"))


def leader(row: f.ComparisonRow, language: Renderer, names: tuple[str, ...]) -> str:
    """Which run is ahead; empty for the measures that nobody asks about first."""
    if row.best is None:
        return ""
    value = row_value(row, row.values[row.best], language)
    return LEADERS.write(SimpleNamespace(measure=row.measure, run=names[row.best], value=value), language)


def compared(finding: f.Compared, language: Renderer, names: tuple[str, ...]) -> str:
    """A finding about runs, with their names instead of their numbers."""
    fields = {field: getattr(finding, field) for field in dir(finding) if not field.startswith("_")}
    runs = {field: names[number] for field, number in fields.items() if field in ("run", "other")}
    return MESSAGES[type(finding)].write(SimpleNamespace(**fields | runs), language)
