"""What the settings of runs do to the loss.

Runs of equal settings are repeats: their spread is the noise. Runs that differ in one setting show what it does. What
always changes together with something else cannot be told apart from it.
"""

import math
from collections.abc import Sequence
from itertools import combinations

from nanoscope.analysis.compare.groups import Group, by_settings, equally_long, places_of, settings_in, values_of
from nanoscope.analysis.compare.losses import SAME_STEPS, Levels, levels_at_equal_steps, levels_at_the_ends
from nanoscope.analysis.compare.next_values import Edge, next_values
from nanoscope.analysis.compare.noise import ROUNDING, Doubt, Noise, doubt
from nanoscope.analysis.compare.repeats import identical_runs, noise_of_repeats, repeats
from nanoscope.analysis.compare.settings import (
    LENGTH_KEYS,
    MANY_SETTINGS,
    RESULTS,
    as_numbers,
    differs,
    learning_factors,
    shown_in_all,
    shows_all_settings,
    written,
)
from nanoscope.analysis.compare.windows import paired_difference
from nanoscope.analysis.findings import Confidence, Confounded, Effect, Learnt
from nanoscope.analysis.numbers import mean

MOST_GROUPS = 3  # in which the effect of one setting is given, with the other settings as they are there
MOST_SETTINGS = 4  # that a run is suggested for
SMALL_DIFFERENCE = 0.05  # of the loss: another seed may well change as much

ORDER = ("differs", "unclear", "within_noise")


def learnt(sides: Group, sure_of_data: bool) -> list[Learnt]:
    """What runs of the same data show, the most important first; `sure_of_data`: that it is the same is known."""
    same, sides = identical_runs(sides)
    if len(sides) < 2:
        return list(same)
    factors = learning_factors(sides)
    cells = by_settings(sides, factors)
    noise = noise_of_repeats(cells)
    effects = [effect for factor in factors for effect in _effects(factor, factors, sides, noise, sure_of_data)]
    effects.sort(key=lambda effect: (ORDER.index(effect.verdict), -effect.difference))
    explained = {effect.setting for effect in effects}
    entangled = [factor for factor in factors if factor not in explained]
    found: list[Learnt] = [*same, *effects]
    if entangled:
        found.extend(_confounded(sides, factors, entangled))
    repeated = [group for cell in cells for group in equally_long(cell) if len(group) > 1]
    telling = [factor for factor in factors if differs([group[0] for group in repeated], factor)]
    for group in repeated:
        found.extend(repeats(group, telling))
    return found


# --- one setting ---


def _effects(factor: str, factors: Sequence[str], sides: Group, noise: Noise, sure_of_data: bool) -> list[Effect]:
    """What one setting does, in each group of runs that are equal in all others."""
    others = [other for other in factors if other != factor]
    groups = [g for g in by_settings(sides, others) if len(values_of(g, factor)) > 1]
    groups.sort(key=lambda group: -len(group))
    groups = groups[:MOST_GROUPS]
    others = [other for other in others if differs([group[0] for group in groups], other)]
    found = (_effect(factor, others, group, noise, sure_of_data) for group in groups)
    return [effect for effect in found if effect is not None]


def _effect(factor: str, others: Sequence[str], group: Group, noise: Noise, sure_of_data: bool) -> Effect | None:
    longest = max(side.last_step for side in group)
    is_length = factor in LENGTH_KEYS and min(side.last_step for side in group) < (1 - SAME_STEPS) * longest
    # Runs of other lengths follow other schedules: each is judged by its end.
    levels = levels_at_the_ends(group) if is_length else levels_at_equal_steps(group)
    if levels is None:
        return None
    values = values_of(group, factor)
    places = [places_of([side for side in group if written(side.settings.get(factor)) == value]) for value in values]
    losses = [mean([levels.of[place].loss for place in each]) for each in places]
    order = sorted(range(len(values)), key=losses.__getitem__)
    best = order[0]
    if not math.isfinite(losses[best]):
        return None
    finite = [index for index in order if math.isfinite(losses[index])]
    above = {index: _difference(group, levels, places[index], places[best], noise) for index in finite[1:]}
    difference, unsure = above[finite[-1]] if above else (0.0, Doubt(None, None))
    broke = len(finite) < len(losses)
    verdict = "differs" if broke else unsure.judge(difference)
    ties = [index for index, (size, error) in above.items() if error.judge(size) == "within_noise"]
    lonely = verdict == "differs" and not broke and unsure.source != "repeats"
    small = lonely and difference < SMALL_DIFFERENCE * losses[best]
    numbers = as_numbers(values)
    edge: Edge | None = None
    try_next: tuple[str, ...] = ()
    if verdict == "differs" and numbers is not None and len(values) > max(2, 2 * len(ties)):
        edge, try_next = next_values(numbers, {best, *ties})
    return Effect(
        factor,
        tuple(values),
        tuple(None if math.isinf(loss) else loss for loss in losses),
        tuple(places),
        levels.measure,
        levels.step,
        verdict,
        best,
        difference,
        unsure.error,
        unsure.source,
        tuple(values[index] for index in sorted(ties)) if verdict == "differs" else (),
        edge,
        try_next,
        settings_in(others, group[0]),
        small,
        confidence=_confidence(group, verdict, noise, small, sure_of_data),
    )


def _difference(
    group: Group, levels: Levels, one: Sequence[int], two: Sequence[int], noise: Noise
) -> tuple[float, Doubt]:
    """How much higher the mean loss of some runs is than that of others, and the doubt about it."""
    difference = mean([levels.of[place].loss for place in one]) - mean([levels.of[place].loss for place in two])
    if len(one) == len(two) == 1 and not noise.freedom and levels.measure == "val":
        sides = {side.place: side for side in group}
        paired = paired_difference(sides[one[0]], sides[two[0]], levels.step)
        if paired is not None:
            return paired[0], Doubt(max(paired[1], ROUNDING), "windows")
    return difference, doubt(levels, one, two, noise)


def _confidence(group: Group, verdict: str, noise: Noise, small: bool, sure_of_data: bool) -> Confidence:
    if verdict == "unclear" or not sure_of_data or len({side.run.format for side in group}) > 1:
        return "hint"
    if all(map(shows_all_settings, group)):
        return "likely" if small or (noise.freedom < 2 and differs(group, "seed")) else "sure"
    return "likely" if shown_in_all(group) >= MANY_SETTINGS else "hint"


# --- several settings, or none ---


def _confounded(sides: Group, factors: Sequence[str], entangled: Sequence[str]) -> list[Confounded]:
    """Of the pairs that an entangled setting tells apart, one with the fewest differences."""
    pairs = [
        (sum(differs([a, b], factor) for factor in factors), -abs(b.last_step - a.last_step), a, b)
        for a, b in combinations(sides, 2)
        if any(differs([a, b], factor) for factor in entangled)
    ]
    fewest = min(count for count, *_ in pairs)
    _, _, one, two = next(pair for pair in pairs if pair[0] == fewest)
    settings = tuple(factor for factor in factors if differs([one, two], factor))
    if len(settings) < 2:  # the one setting has no effect to speak of: the runs have no step in common
        return []
    can_be_set = [key for key in settings if key not in RESULTS][: min(MOST_SETTINGS, len(settings) - 1)]
    levels = levels_at_equal_steps([one, two])
    finite = levels is not None and all(level.is_finite for level in levels.of.values())
    finding = Confounded(
        one.place,
        two.place,
        settings,
        levels.difference(one.place, two.place) if levels and finite else None,
        levels.measure if levels else None,
        levels.step if levels else None,
        settings_in(can_be_set, two),
        confidence="sure",
    )
    return [finding]
