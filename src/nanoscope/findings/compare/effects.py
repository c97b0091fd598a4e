"""What the settings of runs do to the loss.

Runs of equal settings are repeats: their spread is the noise that a setting is judged by. The error of an evaluation
says how sure the loss of one model is, not what another seed would give: without repeats, a difference is one between
two models, and is put down to a setting only where it is far larger than seeds usually make it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from nanoscope.findings.compare.declared import Compared, Confounded, Effect, Identical, Repeats
from nanoscope.findings.compare.losses import SAME_STEPS, Losses, difference, is_identical, losses_of
from nanoscope.findings.compare.runs import (
    LENGTH_KEYS,
    RESULTS,
    ComparedRun,
    Group,
    differs,
    learning_factors,
    settings_in,
    shows_all,
    shows_enough,
    value_of,
)
from nanoscope.findings.declared import Confidence
from nanoscope.findings.evidence import LIKELY, SURE, beyond_chance
from nanoscope.findings.numbers import mean, sample_deviation

ASSUMED_SPREAD = 0.02  # of the loss, between seeds, where none was repeated: usually it is half of that
FEWEST_FREEDOM = 3  # from fewer repeats a spread is hardly known: it counts as at least the assumed one
MOST_GROUPS = 3  # in which the effect of one setting is given, with the other settings as they are there
MOST_SETTINGS = 4  # that a run is suggested for
REPEATS_SPREAD = 0.01  # of the loss: runs that nothing tells apart and that differ by more are no repeats
LARGEST = 1e15
ORDER = ("differs", "models", "unclear", "within_noise")


def findings_of(runs: Group, sure_of_data: bool) -> list[Compared]:
    """What runs of the same data show, the most important first; `sure_of_data`: that it is the same is known."""
    same, runs = _identical(runs)
    factors = learning_factors(runs)
    cells = by_settings(runs, factors)
    repeated = [part for cell in cells for part in _equally_long(cell) if len(part) > 1]
    noise = SeedNoise.of(repeated)
    effects = [effect for factor in factors for effect in _effects(factor, factors, runs, noise, sure_of_data)]
    effects.sort(key=lambda effect: (ORDER.index(effect.verdict), -effect.difference))
    entangled = [factor for factor in factors if factor not in {effect.setting for effect in effects}]
    telling = [factor for factor in factors if differs([part[0] for part in repeated], factor)]
    found = [*same, *effects, *_confounded(runs, factors, entangled)]
    return [*found, *(repeats for part in repeated if (repeats := _repeats(part, telling)))]


def by_settings(runs: Group, factors: Sequence[str]) -> list[list[ComparedRun]]:
    """Groups of runs that are equal in these settings."""
    groups: dict[tuple[str, ...], list[ComparedRun]] = {}
    for each in runs:
        groups.setdefault(tuple(value_of(each, factor) for factor in factors), []).append(each)
    return list(groups.values())


def _equally_long(runs: Group) -> list[list[ComparedRun]]:
    groups: list[list[ComparedRun]] = []
    for each in sorted(runs, key=lambda each: -each.last_step):
        if groups and each.last_step >= (1 - SAME_STEPS) * groups[-1][0].last_step:
            groups[-1].append(each)
        else:
            groups.append([each])
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
        squares, freedom = 0.0, 0
        for runs in repeated:
            losses = losses_of(runs)
            finite = losses.finite(runs) if losses else []
            if len(finite) > 1:
                squares += (len(finite) - 1) * sample_deviation(finite) ** 2
                freedom += len(finite) - 1
        return cls(math.sqrt(squares / freedom) if freedom else 0.0, freedom)

    @property
    def is_measured(self) -> bool:
        return self.freedom >= FEWEST_FREEDOM

    def spread_at(self, loss: float) -> float:
        return self.spread if self.is_measured else max(self.spread, ASSUMED_SPREAD * abs(loss))


def _effects(factor: str, factors: Sequence[str], runs: Group, noise: SeedNoise, sure_of_data: bool) -> list[Effect]:
    """What one setting does, in each group of runs that are equal in all others."""
    others = [other for other in factors if other != factor]
    groups = [[each for each in group if factor in each.settings] for group in by_settings(runs, others)]
    groups = sorted((group for group in groups if differs(group, factor)), key=len, reverse=True)[:MOST_GROUPS]
    others = [other for other in others if differs([group[0] for group in groups], other)]
    found = (_effect(factor, others, group, noise, sure_of_data, len(group) < len(runs)) for group in groups)
    return [effect for effect in found if effect is not None]


def _effect(
    factor: str, others: Sequence[str], group: Group, noise: SeedNoise, sure_of_data: bool, some: bool
) -> Effect | None:
    # Runs of other lengths follow other schedules: each is judged by its end.
    losses = losses_of(group, at_the_ends=factor in LENGTH_KEYS and len(_equally_long(group)) > 1)
    if losses is None or (factor in RESULTS and not shows_enough(group)):  # what it follows from may be hidden
        return None
    cells = by_settings(group, [factor])
    numbers = _numbers([value_of(cell[0], factor) for cell in cells])
    if numbers:
        cells = [cell for _, cell in sorted(zip(numbers, cells, strict=True), key=lambda pair: pair[0])]
    means = [losses.mean(cell) for cell in cells]
    finite = sorted((index for index in range(len(cells)) if math.isfinite(means[index])), key=means.__getitem__)
    if not finite:
        return None
    best, worst = finite[0], finite[-1]
    judged = _judge(losses, cells, means, best, worst, noise)
    differs_ = judged.verdict == "differs"
    edge = ("low" if best == 0 else "high" if best == len(cells) - 1 else "inside") if differs_ and numbers else None
    ties = [i for i in finite[1:] if differs_ and means[i] - means[best] < judged.smallest]
    return Effect(
        setting=factor,
        values=tuple(value_of(cell[0], factor) for cell in cells),
        losses=tuple(loss if math.isfinite(loss) else None for loss in means),
        runs=tuple(map(_places, cells)),
        measure=losses.measure,
        step=losses.step,
        verdict=judged.verdict,  # type: ignore[arg-type]
        best=best,
        difference=judged.difference,
        noise=judged.error,
        noise_from=judged.source,  # type: ignore[arg-type]
        ties=tuple(value_of(cells[index][0], factor) for index in sorted(ties)),
        edge=edge if len(cells) > max(2, 2 * len(ties)) else None,  # type: ignore[arg-type]
        fixed=settings_in(others, group[0]),
        among=_places(group) if some and not others else (),
        seed_differs=not noise.freedom and differs(group, "seed"),
        confidence=judged.confidence if sure_of_data and shows_enough(group) else "hint",
    )


@dataclass(frozen=True)
class _Judged:
    verdict: str
    confidence: Confidence
    difference: float
    error: float | None  # the one that the verdict rests on
    source: str | None
    smallest: float = 0.0  # difference from the best value that is no chance


def _judge(
    losses: Losses, cells: Sequence[Group], means: Sequence[float], best: int, worst: int, noise: SeedNoise
) -> _Judged:
    """The best value against the worst: the more values there are, the further apart chance alone puts these two."""
    pairs = len(cells) * (len(cells) - 1) // 2
    size = means[worst] - means[best]
    freedom = noise.freedom if noise.is_measured else None
    per_run = noise.spread_at(means[best])
    error = per_run * math.sqrt(1 / len(cells[best]) + 1 / len(cells[worst]))
    source = "repeats" if noise.is_measured else "seeds"
    likely = beyond_chance(LIKELY, pairs, freedom) * error
    if len(cells) > sum(map(math.isfinite, means)):  # one value broke its runs
        return _Judged("differs", "likely", size, error if best != worst else None, source, likely)
    if size > likely:
        surely = beyond_chance(SURE, pairs, freedom) * error * (1 if noise.is_measured else 2)
        printed = error if noise.is_measured else per_run
        return _Judged("differs", "sure" if size > surely else "likely", size, printed, source, likely)
    if noise.is_measured:
        return _Judged("unclear" if size > 2 * error else "within_noise", "likely", size, error, source)
    model, by = difference(losses, cells[worst][0], cells[best][0])
    if model is None or max(len(cells[worst]), len(cells[best])) > 1:
        return _Judged("unclear", "hint", size, None if model is None else per_run, None if model is None else source)
    beyond = abs(model.sigmas) > beyond_chance(SURE, pairs)
    verdict = "models" if beyond else "within_noise" if abs(model.sigmas) < 2 else "unclear"
    return _Judged(verdict, "likely", abs(model.value), model.error, by)


def _numbers(values: Sequence[str]) -> list[float]:
    """The values as numbers; empty if one of them is none, or too large to reckon with."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return []
    return numbers if all(abs(number) < LARGEST for number in numbers) else []


# --- several settings, or none ---


def _confounded(runs: Group, factors: Sequence[str], entangled: Sequence[str]) -> list[Confounded]:
    """Of the pairs that an entangled setting tells apart, one with the fewest differences."""
    pairs = [
        (sum(differs([a, b], factor) for factor in factors), abs(b.last_step - a.last_step), a.index, b.index, a, b)
        for a, b in combinations(runs, 2)
        if any(differs([a, b], factor) for factor in entangled)
    ]
    if not pairs:
        return []
    *_, one, two = min(pairs)
    settings = tuple(factor for factor in factors if differs([one, two], factor))
    if len(settings) < 2:  # the one setting has no effect to speak of: the runs have no step in common
        return []
    can_be_set = [key for key in settings if key not in RESULTS and key in two.settings]
    losses = losses_of([one, two])
    finite = losses is not None and len(losses.finite([one, two])) == 2
    return [
        Confounded(
            run=one.index,
            other=two.index,
            settings=settings,
            difference=losses.mean([one]) - losses.mean([two]) if losses and finite else None,
            measure=losses.measure if losses else None,
            step=losses.step if losses else None,
            tell_apart=settings_in(can_be_set[: min(MOST_SETTINGS, len(settings) - 1)], two),
            device_differs=differs([one, two], "device_name") or differs([one, two], "device"),
            confidence="sure",
        )
    ]


def _identical(runs: Group) -> tuple[list[Identical], Group]:
    """Runs that printed the same losses to the digit, and the runs of which only one of each such group is left."""
    groups: list[list[ComparedRun]] = []
    for each in runs:
        home = next((group for group in groups if is_identical(group[0], each)), None)
        if home is None:
            groups.append([each])
        else:
            home.append(each)
    found = []
    for group in groups:
        losses = losses_of(group) if len(group) > 1 else None
        if losses:
            settings = (*learning_factors(group), *(["seed"] if differs(group, "seed") else []))
            level = losses.of[group[0].index].loss
            found.append(Identical(_places(group), settings, shows_all(group), level, losses.measure, losses.step))
    return found, [max(group, key=lambda each: each.last_step) for group in groups]


def _repeats(runs: Group, factors: Sequence[str]) -> Repeats | None:
    """Runs that differ in their seed alone, or that nothing in the logs tells apart."""
    losses = losses_of(runs)
    values = losses.finite(runs) if losses else []
    if losses is None or len(values) < 2:
        return None
    spread = sample_deviation(values)
    has_seeds = differs(runs, "seed")
    unexplained = None
    if not has_seeds and not (len(runs) > 2 and spread < REPEATS_SPREAD * abs(mean(values))):
        ordered = sorted(runs, key=lambda each: losses.of[each.index].loss)
        apart, _ = difference(losses, ordered[-1], ordered[0])
        if apart is None or apart.sigmas > 2:
            stated = [each.run.config for each in runs]
            unexplained = "settings" if shows_all(runs) else "some_settings" if all(stated) else "no_settings"
    return Repeats(
        runs=_places(runs),
        differ="seed" if has_seeds else "nothing",
        mean=mean(values),
        spread=spread,
        low=min(values),
        high=max(values),
        measure=losses.measure,
        step=losses.step,
        fixed=settings_in(factors, runs[0]),
        unexplained=unexplained,  # type: ignore[arg-type]
        confidence="sure" if has_seeds else "likely",
    )
