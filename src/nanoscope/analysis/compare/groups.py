"""Runs in groups: of equal settings, of equal length."""

from collections.abc import Sequence

from nanoscope.analysis.compare.losses import SAME_STEPS
from nanoscope.analysis.compare.settings import as_numbers, written
from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import Setting

Group = list[Side]


def by_settings(sides: Group, factors: Sequence[str]) -> list[Group]:
    """Groups of runs that are equal in these settings."""
    groups: dict[tuple[str, ...], Group] = {}
    for side in sides:
        groups.setdefault(tuple(written(side.settings.get(factor)) for factor in factors), []).append(side)
    return list(groups.values())


def values_of(group: Group, factor: str) -> list[str]:
    """The values of a setting, in rising order if they are numbers."""
    values = list(dict.fromkeys(written(side.settings[factor]) for side in group if factor in side.settings))
    return sorted(values, key=float) if as_numbers(values) is not None else values


def settings_in(factors: Sequence[str], side: Side) -> tuple[Setting, ...]:
    return tuple((factor, written(side.settings.get(factor))) for factor in factors if factor in side.settings)


def places_of(group: Group) -> tuple[int, ...]:
    return tuple(side.place for side in group)


def equally_long(sides: Group) -> list[Group]:
    """Groups of runs of about the same length, the longest first."""
    groups: list[Group] = []
    for side in sorted(sides, key=lambda side: -side.last_step):
        if groups and side.last_step >= (1 - SAME_STEPS) * groups[-1][0].last_step:
            groups[-1].append(side)
        else:
            groups.append([side])
    return [sorted(group, key=lambda side: side.place) for group in groups]
