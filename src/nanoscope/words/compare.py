"""Several runs side by side: what they show together."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Plural, Renderer, Say, Sentences, Verbatim, Words, has, known

MOST_LOSSES = 8  # that a sentence lists; of more it gives the best and the worst, and a table has them all


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


def _is_only_shown(effect: f.Effect) -> bool:
    return effect.confidence == "hint" and effect.verdict in ("differs", "models")


def _losses(effect: f.Effect) -> list[Any]:
    pairs = [SimpleNamespace(value=v, loss=loss) for v, loss in zip(effect.values, effect.losses, strict=True)]
    finite = sorted((pair for pair in pairs if pair.loss is not None), key=lambda pair: pair.loss)
    return pairs if len(pairs) <= MOST_LOSSES else [finite[0], finite[-1]]


def _settings(pairs: str) -> Words:
    return Listed(lambda finding: [f"{key}={value}" for key, value in getattr(finding, pairs)])


# Where losses are compared: for findings with the fields `measure` and `step`.
WHERE = First(
    Say("validation loss at step {step:plain}", lambda finding: finding.measure == "val" and finding.step is not None),
    Say("training loss at step {step:plain}", lambda finding: finding.measure == "train" and finding.step is not None),
    Say("last validation loss", _is(measure="val")),
    Say("last training loss"),
)
SIZE = WithError("difference", "noise")
APART = Verbatim("{difference:significant2}", difference=lambda finding: abs(finding.difference))
LOSSES = Listed(_losses, First(Say("{loss:loss} with {value}", known("loss")), Say("not finite with {value}")))
BEST = Verbatim("{best}", best=lambda effect: effect.values[effect.best])
NAMES = Listed(lambda finding: list(finding.settings))
FIXED = Say("With {fixed}:", has("fixed"), fixed=_settings("fixed"))

# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.NotComparable: By(
        "reason",
        unit=Say("The losses of {run} and {other} can't be compared: one is in bits per byte, the other per token."),
        vocabulary=Say("The losses of {run} and {other} can't be compared: their vocabularies have {one} and {two} "
                       "tokens.", one=lambda n: n.values[0], two=lambda n: n.values[1]),
        data=Say("The losses of {run} and {other} can't be compared: they learn from different data."),
        start=Say("The losses of {run} and {other} probably can't be compared: they begin at {one} and {two}, so their "
                  "vocabularies or initial weights differ.",
                  one=lambda n: n.values[0], two=lambda n: n.values[1]),
    ),
    f.UnknownData: Say("The logs don't say what the runs learn from. Their losses can be compared only if it is the "
                       "same text and tokenizer."),
    f.Effect: Sentences(
        FIXED,
        Say("Among {runs}:", has("among"), runs=Listed(lambda effect: list(effect.among))),
        First(
            Say("{setting} is the only difference that the logs show ({where}): {losses}. They don't show everything, "
                "so the cause may be another.",
                _is_only_shown, where=WHERE, losses=LOSSES),
            Say("{setting} makes the difference ({where}): {losses}. Best: {best}.",
                _is(verdict="differs", confidence="sure"), where=WHERE, losses=LOSSES, best=BEST),
            Say("{setting} most likely makes the difference ({where}): {losses}. Best: {best}.",
                _is(verdict="differs"), where=WHERE, losses=LOSSES, best=BEST),
            Say("The models differ ({where}; {setting}): {losses}. Whether {setting} does that, only repeats with "
                "other seeds would show.", _is(verdict="models"), where=WHERE, losses=LOSSES),
            Say("{setting} may make a difference ({where}): {losses}.",
                _is(verdict="unclear"), where=WHERE, losses=LOSSES),
            Say("{setting} makes no difference beyond the noise ({where}): {losses}.", where=WHERE, losses=LOSSES),
        ),
        Say("The seed differs, too.", has("seed_differs")),
        By(
            "noise_from",
            windows=Say("From best to worst: {size}, compared window by window.", size=SIZE),
            repeats=Say("From best to worst: {size}, judged by the repeats.", size=SIZE),
            errors=Say("From best to worst: {size}, by the errors of the evaluations.", size=SIZE),
            scatter=Say("From best to worst: {size}, by the scatter of the losses.", size=SIZE),
            seeds=Say("From best to worst: {size}. There are too few repeats to know what another seed would change; "
                      "it is assumed to be {noise:significant2}.", known("noise"), size=APART),
        ),
        Say("Equally good within the error: {ties}.", has("ties"), ties=Listed(lambda effect: list(effect.ties))),
        First(
            Say("The best lies inside the range tried.", _is(edge="inside")),
            Say("The best lies at the end of the range tried.", has("edge")),
        ),
    ),
    f.Repeats: Sentences(
        FIXED,
        First(
            Plural("{n} repeat with another seed ({where}): {size}, between {low:loss} and {high:loss}.",
                   "{n} repeats with other seeds ({where}): {size}, between {low:loss} and {high:loss}.",
                   "count", _is(differ="seed"), where=WHERE, size=WithError("mean", "spread", digits=2)),
            Plural("{n} run that the logs can't tell apart ({where}): {size}, between {low:loss} and "
                   "{high:loss}.",
                   "{n} runs that the logs can't tell apart ({where}): {size}, between {low:loss} and "
                   "{high:loss}.",
                   "count", where=WHERE, size=WithError("mean", "spread", digits=2)),
        ),
        By(
            "unexplained",
            settings=Say("Unexplained: their settings are the same."),
            some_settings=Say("Unexplained: the settings that the logs show are the same."),
            no_settings=Say("Unexplained: the logs don't show the settings."),
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
                "tell which one matters.", known("difference"), size=APART, where=WHERE, settings=NAMES),
            Say("{run} and {other} differ in several settings: {settings}.", settings=NAMES),
        ),
        Say("A run like {run}, but with {next}, would tell.", lambda c: len(c.tell_apart) == 1,
            next=_settings("tell_apart")),
        Say("Runs like {run}, each with one of {next}, would tell.", lambda c: len(c.tell_apart) > 1,
            next=_settings("tell_apart")),
        Say("It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, only more "
            "slowly.", has("device_differs")),
    ),
}
# fmt: on


def compared(finding: f.Compared, language: Renderer, names: tuple[str, ...]) -> str:
    """A finding about runs, with their names instead of their numbers."""
    fields = {field: getattr(finding, field) for field in dir(finding) if not field.startswith("_")}
    fields |= {field: names[number] for field, number in fields.items() if field in ("run", "other")}
    fields["among"] = [names[number] for number in fields.get("among", ())]
    return MESSAGES[type(finding)].write(SimpleNamespace(**fields), language)
