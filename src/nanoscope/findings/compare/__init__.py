"""Several runs side by side: which losses can be compared, what the settings do, what each run reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any, Literal

from nanoscope.findings.analyse import Analysis, Options, analyse
from nanoscope.findings.clock import wall_seconds
from nanoscope.findings.compare.effects import by_settings, findings_of
from nanoscope.findings.compare.losses import Losses, LossMeasure, difference, losses_of
from nanoscope.findings.compare.runs import (
    KINDS,
    Compared,
    ComparedRun,
    Group,
    Setting,
    UnknownData,
    differs,
    knows_data,
    learning_factors,
    obstacle,
    settings_in,
)
from nanoscope.findings.declared.base import Finding
from nanoscope.findings.schema import plain
from nanoscope.runs.run import ConfigValue, Run

SCHEMA = "nanoscope.compare/3"


class ComparisonRow(Finding):
    """A run at the step at which all are compared, or repeats of the same settings; the lowest loss first."""

    runs: tuple[int, ...]  # the lowest loss first
    steps: int
    loss: float | None  # of repeats, the mean; None: not finite, or nothing to compare it with
    spread: float | None  # of repeats, the standard deviation
    difference: float | None  # to the first row, and the error of the two models' evaluations
    difference_error: float | None
    best_val: float | None
    metric: Literal["loss", "bpb"]
    step_seconds: float | None
    wall_seconds: float | None
    settings: tuple[Setting, ...]  # in which it differs from the first row
    ranked: bool  # whether its loss can be held against that of the first row


class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    key: str
    values: tuple[ConfigValue | None, ...]


@dataclass(eq=False, repr=False)
class Comparison:
    """Several runs side by side."""

    names: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    findings: tuple[Compared, ...]
    rows: tuple[ComparisonRow, ...]
    config: tuple[ConfigDifference, ...]
    ranked: bool  # whether the losses are of the same data, tokens and unit
    measure: LossMeasure | None  # of the losses in the rows; None: the runs have no measure and step in common
    step: int | None


def compare(
    runs: Sequence[Run],
    names: Sequence[str],
    options: Options | None = None,
    analyses: Sequence[Analysis] | None = None,
    same_log: bool = False,
) -> Comparison:
    """Put two or more runs side by side; `same_log`: they come from one log, so they learn from the same data."""
    analyses = tuple(analyses or (analyse(run, options) for run in runs))
    compared = [ComparedRun(index, *pair) for index, pair in enumerate(zip(runs, analyses, strict=True))]
    groups = _comparable(compared)
    found: list[Compared] = []
    for group in groups:
        found += [why for why in [obstacle(groups[0][0], group[0])] if why and group is not groups[0]]
        if len(group) > 1:
            known = same_log or knows_data(group)
            found += [] if known else [UnknownData(tuple(each.index for each in group), confidence="hint")]
            found += findings_of(group, known)
    losses = losses_of(compared) if len(groups) == 1 else None
    return Comparison(
        names=tuple(names),
        analyses=analyses,
        findings=tuple(found),
        rows=tuple(row for group in groups for row in _rows(group, losses, group is groups[0])),
        config=_config_differences(compared),
        ranked=len(groups) == 1,
        measure=losses.measure if losses else None,
        step=losses.step if losses else None,
    )


def compare_equally_long(runs: Sequence[Run], analyses: Sequence[Analysis], names: Sequence[str]) -> Comparison | None:
    """What the runs of one log show together; None if fewer than two went equally far."""
    lengths = [analysis.progress.last_step or 0 for analysis in analyses]
    whole = [index for index, length in enumerate(lengths) if length and length >= 0.95 * max(lengths)]
    if len(whole) < 2:
        return None
    kept = [analyses[index] for index in whole]
    return compare([runs[index] for index in whole], [names[index] for index in whole], None, kept, same_log=True)


def comparison_json(comparison: Comparison, sources: Sequence[str]) -> dict[str, Any]:
    """The document of `compare --json`; `explain --json` has the analyses of the single runs."""
    document = {name: value for name, value in vars(comparison).items() if name != "analyses"}
    document["findings"] = [{"code": finding.code, **plain(finding)} for finding in comparison.findings]
    return plain({"schema": SCHEMA, "sources": list(sources), **document})  # type: ignore[no-any-return]


def _comparable(compared: Group) -> list[list[ComparedRun]]:
    """Groups of runs whose losses can be held against each other."""
    groups: list[list[ComparedRun]] = []
    for each in compared:
        home = next((group for group in groups if not any(obstacle(other, each) for other in group)), None)
        if home is None:
            groups.append([each])
        else:
            home.append(each)
    return groups


def _rows(group: Group, losses: Losses | None, ranked: bool) -> list[ComparisonRow]:
    """A row a run; where many were repeated with other seeds, one for all repeats."""
    factors = learning_factors(group)
    cells = by_settings(group, factors)
    is_repeated = len(cells) > 1 and len(group) > 4 and any(differs(cell, "seed") for cell in cells)
    if losses is None or not is_repeated:
        cells = [[each] for each in group]
    if losses is not None:
        cells = [sorted(cell, key=lambda each: losses.of[each.index].loss) for cell in cells]
        cells.sort(key=losses.mean)
    return [_row(cell, cells[0], factors, losses, ranked) for cell in cells]


def _row(cell: Group, first: Group, factors: Sequence[str], losses: Losses | None, ranked: bool) -> ComparisonRow:
    best, is_first = cell[0], cell is first
    timing, evals = best.analysis.timing, best.analysis.evals
    values = losses.finite(cell) if losses else []
    loss = losses.mean(cell) if losses and len(values) == len(cell) else None
    higher = error = None
    if losses and not is_first:
        model = difference(losses, best, first[0])[0] if len(cell) == len(first) == 1 else None
        higher = model.value if model else None if loss is None else loss - losses.mean(first)
        error = model.error if model else None
    known = [*factors, "seed"] if len(cell) == 1 and not is_first else factors
    return ComparisonRow(
        runs=tuple(each.index for each in cell),
        steps=best.last_step,
        loss=loss,
        spread=stdev(values) if loss is not None and len(cell) > 1 else None,
        difference=higher,
        difference_error=error,
        best_val=evals.best_val if evals else None,
        metric=evals.metric if evals else "loss",
        step_seconds=timing.typical_s if timing else None,
        wall_seconds=wall_seconds(best.run, best.analysis),
        settings=settings_in([key for key in known if is_first or differs([best, first[0]], key)], best),
        ranked=ranked,
    )


def _config_differences(compared: Group) -> tuple[ConfigDifference, ...]:
    hidden = {*KINDS["bookkeeping"]} - {*KINDS["measuring"]}
    keys = dict.fromkeys(
        key for each in compared for key in each.settings if key not in hidden and differs(compared, key)
    )
    return tuple(ConfigDifference(key, tuple(each.settings.get(key) for each in compared)) for key in keys)
