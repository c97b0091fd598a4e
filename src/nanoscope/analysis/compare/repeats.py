"""Runs of the same settings: repeats whose spread is the noise, identical ones, or a difference nobody can explain."""

import math
from collections.abc import Sequence

from nanoscope.analysis.compare.groups import Group, equally_long, places_of, settings_in
from nanoscope.analysis.compare.losses import is_identical, levels_at_equal_steps
from nanoscope.analysis.compare.noise import Noise, doubt
from nanoscope.analysis.compare.settings import differs, learning_factors, shows_all_settings
from nanoscope.analysis.findings import Identical, Learnt, Repeats, Unexplained, WithinNoise
from nanoscope.analysis.numbers import mean, sample_deviation

REPEATS_SPREAD = 0.01  # of the loss: runs that nothing tells apart and that differ by more are no repeats


def identical_runs(sides: Group) -> tuple[list[Identical], Group]:
    """Runs that printed the same losses to the digit, and the runs of which only one of each such group is left."""
    groups: list[Group] = []
    for side in sides:
        home = next((group for group in groups if is_identical(group[0], side)), None)
        if home is None:
            groups.append([side])
        else:
            home.append(side)
    found = []
    for group in groups:
        if len(group) > 1:
            level = levels_at_equal_steps(group)
            loss = level.of[group[0].place].loss if level else math.nan
            settings = (*learning_factors(group), *(["seed"] if differs(group, "seed") else []))
            step = level.step if level else None
            complete = all(map(shows_all_settings, group))
            measure = level.measure if level else "val"
            found.append(Identical(places_of(group), settings, complete, loss, measure, step, confidence="sure"))
    return found, [max(group, key=lambda side: side.last_step) for group in groups]


def noise_of_repeats(cells: Sequence[Group]) -> Noise:
    """The spread of runs that differ in their seed alone."""
    groups = [group for cell in cells for group in equally_long(cell)]
    repeated = [group for group in groups if len(group) > 1 and differs(group, "seed")]
    levels = [levels_at_equal_steps(cell) for cell in repeated]
    return Noise.of_repeats([level.loss for level in each.of.values()] for each in levels if each is not None)


def repeats(cell: Group, factors: Sequence[str]) -> list[Learnt]:
    """Runs of the same settings: repeats, or two runs whose difference is noise or unexplained."""
    levels = levels_at_equal_steps(cell)
    if levels is None:
        return []
    losses = {place: level.loss for place, level in levels.of.items() if level.is_finite}
    if len(losses) < 2:
        return []
    middle, values = mean(list(losses.values())), list(losses.values())
    spread = sample_deviation(values)
    has_seeds = differs(cell, "seed")
    if has_seeds or (len(values) > 2 and spread < REPEATS_SPREAD * abs(middle)):
        return [
            Repeats(
                tuple(losses),
                "seed" if has_seeds else "nothing",
                middle,
                spread,
                min(values),
                max(values),
                levels.measure,
                levels.step,
                settings_in(factors, cell[0]),
                confidence="sure" if has_seeds else "likely",
            )
        ]
    one, two = max(losses, key=losses.__getitem__), min(losses, key=losses.__getitem__)
    unsure = doubt(levels, [one], [two], Noise())
    difference = losses[one] - losses[two]
    if unsure.error is not None and unsure.source is not None and unsure.judge(difference) == "within_noise":
        return [WithinNoise(one, two, difference, unsure.error, unsure.source, levels.measure, levels.step or 0)]
    shown = [len(side.settings) for side in cell]
    knows = "settings" if all(map(shows_all_settings, cell)) else "some_settings" if all(shown) else "no_settings"
    return [Unexplained(one, two, difference, unsure.error, levels.measure, levels.step or 0, knows)]  # type: ignore[arg-type]
