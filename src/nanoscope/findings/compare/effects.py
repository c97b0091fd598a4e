"""What the settings of runs do to the loss.

Runs of equal settings are repeats: their spread is the noise that a setting is judged by. The error of an evaluation
says how sure the loss of one model is, not what another seed would give: without repeats, a difference is one between
two models, and is put down to a setting only where it is far larger than seeds usually make it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, Literal

from nanoscope.findings.compare.losses import (
    SAME_STEPS,
    Losses,
    LossMeasure,
    NoiseSource,
    difference,
    is_identical,
    losses_of,
)
from nanoscope.findings.compare.runs import (
    KINDS,
    Compared,
    ComparedRun,
    Group,
    Setting,
    differs,
    learning_factors,
    settings_in,
    shows_all,
    shows_enough,
    value_of,
)
from nanoscope.findings.evidence import LIKELY, SURE, beyond_chance
from nanoscope.messages import Message, Said, sentences, verbatim

ASSUMED_SPREAD = 0.02  # of the loss, between seeds, where none was repeated: usually it is half of that
FEWEST_FREEDOM = 3  # from fewer repeats a spread is hardly known: it counts as at least the assumed one
MOST_GROUPS = 3  # in which the effect of one setting is given, with the other settings as they are there
MOST_SETTINGS = 4  # that a run is suggested for
MOST_LOSSES = 8  # that a sentence lists; of more it gives the best and the worst, and a table has them all
REPEATS_SPREAD = 0.01  # of the loss: runs that nothing tells apart and that differ by more are no repeats
LARGEST = 1e15
ORDER = ("differs", "models", "unclear", "within_noise")


class Measured(Compared):
    """Base of what is said about losses by one measure; at one step, or each at its own end."""

    measure: LossMeasure
    step: int | None

    def where(self) -> Message:
        """Where losses are compared."""
        if self.step is None:
            return Message("last validation loss") if self.measure == "val" else Message("last training loss")
        if self.measure == "val":
            return Message("validation loss at step {step:plain}")
        return Message("training loss at step {step:plain}")


class Effect(Measured):
    """These runs differ in one setting and in nothing else that matters to what is learnt.

    `losses` are those of the `values`, averaged over the runs that have that value; None: not finite. The verdict is
    `models` where the two models differ, but repeats would have to show that it is the setting which does that.
    """

    setting: str
    values: tuple[str, ...]
    losses: tuple[float | None, ...]
    runs: tuple[tuple[int, ...], ...]
    verdict: Literal["differs", "models", "unclear", "within_noise"]
    best: int  # index into `values`
    difference: float  # between the best and the worst finite loss
    noise: float | None  # what the verdict rests on: the error of that difference, or the assumed spread of seeds
    noise_from: NoiseSource | Literal["repeats", "seeds"] | None
    ties: tuple[str, ...]  # other values that are as good as the best one, within the noise
    edge: Literal["low", "high", "inside"] | None  # where the best lies in the range tried
    fixed: tuple[Setting, ...]  # other settings of these runs, where they vary in the comparison
    among: tuple[int, ...]  # these runs, where others are compared too and no setting of these tells which
    seed_differs: bool  # as well, and no run was repeated

    def said(self, names: Sequence[str]) -> Said:
        return sentences(
            _with(self.fixed),
            bool(self.among) and Message("Among {runs}:", runs=_listed([names[run] for run in self.among])),
            self._cause(),
            self.seed_differs and Message("The seed differs, too."),
            self._size(),
            bool(self.ties) and Message("Equally good within the error: {ties}.", ties=_listed(self.ties)),
            self.edge == "inside" and Message("The best lies inside the range tried."),
            self.edge in ("low", "high") and Message("The best lies at the end of the range tried."),
        )

    def _cause(self) -> Said:
        shown = {"where": self.where(), "losses": self._losses(), "best": self.values[self.best]}
        if self.confidence == "hint" and self.verdict in ("differs", "models"):
            return Message(
                "{setting} is the only difference that the logs show ({where}): {losses}. They don't show everything, "
                "so the cause may be another.",
                **shown,
            )
        match self.verdict:
            case "differs" if self.confidence == "sure":
                return Message("{setting} makes the difference ({where}): {losses}. Best: {best}.", **shown)
            case "differs":
                return Message("{setting} most likely makes the difference ({where}): {losses}. Best: {best}.", **shown)
            case "models":
                return Message(
                    "The models differ ({where}; {setting}): {losses}. Whether {setting} does that, only repeats with "
                    "other seeds would show.",
                    **shown,
                )
            case "unclear":
                return Message("{setting} may make a difference ({where}): {losses}.", **shown)
            case "within_noise":
                return Message("{setting} makes no difference beyond the noise ({where}): {losses}.", **shown)

    def _losses(self) -> Said:
        shown = list(zip(self.losses, self.values, strict=True))
        if len(shown) > MOST_LOSSES:
            finite = sorted((loss, index) for index, loss in enumerate(self.losses) if loss is not None)
            shown = [shown[finite[0][1]], shown[finite[-1][1]]]
        return _listed([
            Message("not finite with {value}", value=value)
            if loss is None
            else Message("{loss:loss} with {value}", loss=loss, value=value)
            for loss, value in shown
        ])  # fmt: skip

    def _size(self) -> Said:
        size = verbatim("{size:with_error}", size=(self.difference, self.noise))
        match self.noise_from:
            case "windows":
                return Message("From best to worst: {size}, compared window by window.", size=size)
            case "repeats":
                return Message("From best to worst: {size}, judged by the repeats.", size=size)
            case "errors":
                return Message("From best to worst: {size}, by the errors of the evaluations.", size=size)
            case "scatter":
                return Message("From best to worst: {size}, by the scatter of the losses.", size=size)
            case "seeds" if self.noise is not None:
                return Message(
                    "From best to worst: {size}. There are too few repeats to know what another seed would change; it "
                    "is assumed to be {noise:significant2}.",
                    size=_apart(self.difference),
                )
        return None


class Repeats(Measured):
    """Runs of the same settings: the noise against which all else is judged."""

    runs: tuple[int, ...]
    differ: Literal["seed", "nothing"]  # nothing: nothing in the logs tells them apart
    mean: float
    spread: float  # standard deviation
    low: float
    high: float
    fixed: tuple[Setting, ...]
    unexplained: Literal["settings", "some_settings", "no_settings"] | None  # that the logs show

    def text(self) -> Said:
        values = {"where": self.where(), "size": verbatim("{size:with_error2}", size=(self.mean, self.spread))}
        seeds = Message(
            "{n} repeat with another seed ({where}): {size}, between {low:loss} and {high:loss}.",
            "{n} repeats with other seeds ({where}): {size}, between {low:loss} and {high:loss}.",
            n=len(self.runs),
            **values,
        )
        alike = Message(
            "{n} run that the logs can't tell apart ({where}): {size}, between {low:loss} and {high:loss}.",
            "{n} runs that the logs can't tell apart ({where}): {size}, between {low:loss} and {high:loss}.",
            n=len(self.runs),
            **values,
        )
        return sentences(_with(self.fixed), seeds if self.differ == "seed" else alike, self._unexplained())

    def _unexplained(self) -> Said:
        match self.unexplained:
            case "settings":
                return Message("Unexplained: their settings are the same.")
            case "some_settings":
                return Message("Unexplained: the settings that the logs show are the same.")
            case "no_settings":
                return Message("Unexplained: the logs don't show the settings.")
            case None:
                return None


class Identical(Measured):
    """Runs whose losses agree to the last digit: whatever was changed between them had no effect."""

    runs: tuple[int, ...]
    settings: tuple[str, ...]  # the known ones that differ
    knows_settings: bool  # whether the logs show all of them
    loss: float

    def text(self) -> Said:
        same = Message(
            "{n} run is identical to the digit ({where}: {loss:loss}).",
            "{n} runs are identical to the digit ({where}: {loss:loss}).",
            n=len(self.runs),
            where=self.where(),
        )
        if self.settings:
            return sentences(same, Message("So {settings} changes nothing here.", settings=_listed(self.settings)))
        if self.knows_settings:
            return sentences(same, Message("Their settings are the same as well: the run can be repeated exactly."))
        return sentences(same, Message("If a setting was changed between them, it changes nothing."))


class Confounded(Compared):
    """Several settings differ between `run` and `other`, so none of them can be named as the cause."""

    run: int
    other: int
    settings: tuple[str, ...]
    difference: float | None  # loss of `run` minus loss of `other`
    measure: LossMeasure | None
    step: int | None
    tell_apart: tuple[Setting, ...]  # `run` again with one of these values would tell
    device_differs: bool

    def said(self, names: Sequence[str]) -> Said:
        run, values = names[self.run], _assigned(self.tell_apart)
        return sentences(
            self._differ(run, names[self.other]),
            len(self.tell_apart) == 1
            and Message("A run like {run}, but with {next}, would tell.", run=run, next=values),
            len(self.tell_apart) > 1
            and Message("Runs like {run}, each with one of {next}, would tell.", run=run, next=values),
            self.device_differs
            and Message(
                "It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, only "
                "more slowly."
            ),
        )

    def _differ(self, run: str, other: str) -> Said:
        shown = {"run": run, "other": other, "settings": _listed(self.settings)}
        if self.difference is None or self.measure is None:
            return Message("{run} and {other} differ in several settings: {settings}.", **shown)
        return Message(
            "{run} and {other} differ by {size} ({where}). Several settings differ: {settings}. These runs can't tell "
            "which one matters.",
            **shown,
            size=_apart(self.difference),
            where=Measured(self.measure, self.step).where(),
        )


def _with(fixed: Sequence[Setting]) -> Said:
    return Message("With {fixed}:", fixed=_assigned(fixed)) if fixed else None


def _apart(difference: float) -> Message:
    return verbatim("{size:significant2}", size=abs(difference))


def _assigned(settings: Sequence[Setting]) -> Message:
    return _listed([f"{key}={value}" for key, value in settings])


def _listed(items: Sequence[str | Message]) -> Message:
    return verbatim("{items:listed}", items=items)


# --- what several runs show ---


def findings_of(runs: Group, sure_of_data: bool) -> list[Compared]:
    """What runs of the same data show, the most important first; `sure_of_data`: that it is the same is known."""
    same = _grouped(runs, is_identical)
    runs = [max(group, key=lambda each: each.last_step) for group in same]
    factors = learning_factors(runs)
    repeated = [part for cell in by_settings(runs, factors) for part in _equally_long(cell) if len(part) > 1]
    noise = SeedNoise.of(repeated)
    effects = [effect for factor in factors for effect in _effects(factor, factors, runs, noise, sure_of_data)]
    effects.sort(key=lambda effect: (ORDER.index(effect.verdict), -effect.difference))
    entangled = set(factors) - {effect.setting for effect in effects}
    telling = [factor for factor in factors if differs([part[0] for part in repeated], factor)]
    found = [*map(_identical, same), *effects, _confounded(runs, factors, entangled)]
    return [each for each in (*found, *(_repeats(part, telling) for part in repeated)) if each is not None]


def _grouped(runs: Group, belong: Any) -> list[list[ComparedRun]]:
    """Groups of runs, each with those that belong to its first one."""
    groups: list[list[ComparedRun]] = []
    for each in runs:
        home = next((group for group in groups if belong(group[0], each)), None)
        if home is None:
            groups.append([each])
        else:
            home.append(each)
    return groups


def by_settings(runs: Group, factors: Sequence[str]) -> list[list[ComparedRun]]:
    """Groups of runs that are equal in these settings."""
    return _grouped(runs, lambda one, two: all(value_of(one, key) == value_of(two, key) for key in factors))


def _equally_long(runs: Group) -> list[list[ComparedRun]]:
    longest_first = sorted(runs, key=lambda each: -each.last_step)
    groups = _grouped(longest_first, lambda one, two: two.last_step >= (1 - SAME_STEPS) * one.last_step)
    return [sorted(group, key=lambda each: each.index) for group in groups]


def _places(runs: Group) -> tuple[int, ...]:
    return tuple(each.index for each in runs)


# --- one setting ---


@dataclass(frozen=True)
class SeedNoise:
    """How far apart runs of the same settings end: pooled over all repeats, or assumed where there are too few."""

    spread: float
    freedom: int

    @classmethod
    def of(cls, repeated: Sequence[Group]) -> "SeedNoise":
        known = [losses.finite(runs) for runs in repeated if (losses := losses_of(runs))]
        squares = sum((len(finite) - 1) * stdev(finite) ** 2 for finite in known if len(finite) > 1)
        freedom = sum(len(finite) - 1 for finite in known if finite)
        return cls(math.sqrt(squares / freedom) if freedom else 0.0, freedom)

    @property
    def is_measured(self) -> bool:
        return self.freedom >= FEWEST_FREEDOM


def _effects(factor: str, factors: Sequence[str], runs: Group, noise: SeedNoise, sure_of_data: bool) -> list[Effect]:
    """What one setting does, in each group of runs that are equal in all others."""
    others = [other for other in factors if other != factor]
    groups = [[each for each in group if factor in each.settings] for group in by_settings(runs, others)]
    groups = sorted((group for group in groups if differs(group, factor)), key=len, reverse=True)[:MOST_GROUPS]
    others = [other for other in others if differs([group[0] for group in groups], other)]
    found = []
    for group in groups:
        among = _places(group) if len(group) < len(runs) and not others else ()
        effect = _effect(factor, group, noise, fixed=settings_in(others, group[0]), among=among)
        if effect is not None:
            is_certain = sure_of_data and shows_enough(group)
            effect.confidence = effect.confidence if is_certain else "hint"
            found.append(effect)
    return found


def _effect(factor: str, group: Group, noise: SeedNoise, **where: Any) -> Effect | None:
    # Runs of other lengths follow other schedules: each is judged by its end.
    losses = losses_of(group, at_the_ends=factor in KINDS["length"] and len(_equally_long(group)) > 1)
    if losses is None or (factor in KINDS["results"] and not shows_enough(group)):  # what it follows from may be hidden
        return None
    cells = by_settings(group, [factor])
    numbers = _numbers([value_of(cell[0], factor) for cell in cells])
    if numbers:
        cells = [cell for _, cell in sorted(zip(numbers, cells, strict=True), key=lambda pair: pair[0])]
    values, means = [value_of(cell[0], factor) for cell in cells], [losses.mean(cell) for cell in cells]
    finite = sorted((index for index in range(len(cells)) if math.isfinite(means[index])), key=means.__getitem__)
    if not finite:
        return None
    judged, likely = _judge(losses, cells, means, finite, noise)
    made = judged["verdict"] == "differs"
    ties = sorted(index for index in finite[1:] if made and means[index] - means[finite[0]] < likely)
    edge = None
    if made and numbers and len(cells) > max(2, 2 * len(ties)):
        edge = "low" if finite[0] == 0 else "high" if finite[0] == len(cells) - 1 else "inside"
    return Effect(
        **where,
        **judged,
        setting=factor,
        values=tuple(values),
        losses=tuple(loss if math.isfinite(loss) else None for loss in means),
        runs=tuple(map(_places, cells)),
        measure=losses.measure,
        step=losses.step,
        best=finite[0],
        ties=tuple(values[index] for index in ties),
        edge=edge,  # type: ignore[arg-type]
        seed_differs=not noise.freedom and differs(group, "seed"),
    )


def _judge(
    losses: Losses, cells: Sequence[Group], means: Sequence[float], finite: Sequence[int], noise: SeedNoise
) -> tuple[dict[str, Any], float]:
    """The verdict on the best value against the worst, and the difference that is no chance: the more values there
    are, the further apart chance alone puts these two."""
    best, worst, pairs = finite[0], finite[-1], len(cells) * (len(cells) - 1) // 2
    size, freedom = means[worst] - means[best], noise.freedom if noise.is_measured else None
    spread = max(noise.spread, 0.0 if noise.is_measured else ASSUMED_SPREAD * abs(means[best]))
    error = spread * math.sqrt(1 / len(cells[best]) + 1 / len(cells[worst]))
    likely = beyond_chance(LIKELY, pairs, freedom) * error
    judged: dict[str, Any] = {"difference": size, "noise": error, "noise_from": "repeats" if freedom else "seeds"}
    if len(finite) < len(cells):  # one value broke its runs
        return judged | {"verdict": "differs", "noise": error if best != worst else None}, likely
    if size > likely:
        surely = beyond_chance(SURE, pairs, freedom) * error * (1 if freedom else 2)
        confidence, shown = "sure" if size > surely else "likely", error if freedom else spread
        return judged | {"verdict": "differs", "confidence": confidence, "noise": shown}, likely
    if freedom:
        return judged | {"verdict": "unclear" if size > 2 * error else "within_noise"}, likely
    model, by = difference(losses, cells[worst][0], cells[best][0])
    if model is None:
        return judged | {"verdict": "unclear", "confidence": "hint", "noise": None, "noise_from": None}, likely
    if max(len(cells[worst]), len(cells[best])) > 1:
        return judged | {"verdict": "unclear", "confidence": "hint", "noise": spread}, likely
    beyond = abs(model.sigmas) > beyond_chance(SURE, pairs)
    verdict = "models" if beyond else "within_noise" if abs(model.sigmas) < 2 else "unclear"
    judged = {"verdict": verdict, "difference": abs(model.value), "noise": model.error, "noise_from": by}
    return judged, likely


def _numbers(values: Sequence[str]) -> list[float]:
    """The values as numbers; empty if one of them is none, or too large to reckon with."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return []
    return numbers if all(abs(number) < LARGEST for number in numbers) else []


# --- several settings, or none ---


def _confounded(runs: Group, factors: Sequence[str], entangled: set[str]) -> Confounded | None:
    """Of the pairs that an entangled setting tells apart, one with the fewest differences."""
    told = [([key for key in factors if differs([a, b], key)], a, b) for a, b in combinations(runs, 2)]
    told = [pair for pair in told if entangled.intersection(pair[0])]
    if not told:
        return None
    settings, one, two = min(told, key=lambda pair: (len(pair[0]), abs(pair[2].last_step - pair[1].last_step)))
    if len(settings) < 2:  # the one setting has no effect to speak of: the runs have no step in common
        return None
    can_be_set = [key for key in settings if key not in KINDS["results"] and key in two.settings]
    losses = losses_of([one, two])
    finite = losses.finite([one, two]) if losses else []
    return Confounded(
        run=one.index,
        other=two.index,
        settings=tuple(settings),
        difference=finite[0] - finite[1] if len(finite) == 2 else None,
        measure=losses.measure if losses else None,
        step=losses.step if losses else None,
        tell_apart=settings_in(can_be_set[: min(MOST_SETTINGS, len(settings) - 1)], two),
        device_differs=differs([one, two], "device_name") or differs([one, two], "device"),
        confidence="sure",
    )


def _identical(group: Group) -> Identical | None:
    losses = losses_of(group) if len(group) > 1 else None
    if losses is None:
        return None
    settings = (*learning_factors(group), *(["seed"] if differs(group, "seed") else []))
    level = losses.of[group[0].index].loss
    return Identical(losses.measure, losses.step, _places(group), settings, shows_all(group), level)


def _repeats(runs: Group, factors: Sequence[str]) -> Repeats | None:
    """Runs that differ in their seed alone, or that nothing in the logs tells apart."""
    losses = losses_of(runs)
    values = losses.finite(runs) if losses else []
    if losses is None or len(values) < 2:
        return None
    spread, mean = stdev(values), fmean(values)
    has_seeds = differs(runs, "seed")
    unexplained = None
    if not has_seeds and not (len(runs) > 2 and spread < REPEATS_SPREAD * abs(mean)):
        ordered = sorted(runs, key=lambda each: losses.of[each.index].loss)
        apart, _ = difference(losses, ordered[-1], ordered[0])
        if apart is None or apart.sigmas > 2:
            stated = all(each.run.config for each in runs)
            unexplained = "settings" if shows_all(runs) else "some_settings" if stated else "no_settings"
    return Repeats(
        measure=losses.measure,
        step=losses.step,
        runs=_places(runs),
        differ="seed" if has_seeds else "nothing",
        mean=mean,
        spread=spread,
        low=min(values),
        high=max(values),
        fixed=settings_in(factors, runs[0]),
        unexplained=unexplained,  # type: ignore[arg-type]
        confidence="sure" if has_seeds else "likely",
    )
