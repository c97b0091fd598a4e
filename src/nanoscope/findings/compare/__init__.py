"""Several runs side by side: which losses can be compared, what the settings do, what each run reached."""

from collections.abc import Sequence
from typing import Any

from nanoscope.findings.analyse import Analysis, Options, analyse
from nanoscope.findings.clock import wall_seconds
from nanoscope.findings.compare.declared import Compared, Comparison, ComparisonRow, ConfigDifference, UnknownData
from nanoscope.findings.compare.effects import by_settings, findings_of
from nanoscope.findings.compare.losses import Losses, difference, losses_of
from nanoscope.findings.compare.runs import (
    BOOKKEEPING,
    ComparedRun,
    Group,
    differs,
    knows_data,
    learning_factors,
    obstacle,
    settings_in,
)
from nanoscope.findings.numbers import sample_deviation
from nanoscope.findings.schema import plain
from nanoscope.runs.run import Run

SCHEMA = "nanoscope.compare/3"


def compare(
    runs: Sequence[Run],
    names: Sequence[str],
    options: Options | None = None,
    analyses: Sequence[Analysis] | None = None,
    same_log: bool = False,
) -> Comparison:
    """Put two or more runs side by side; `same_log`: they come from one log, so they learn from the same data."""
    analyses = tuple(analyses or (analyse(run, options) for run in runs))
    compared = [ComparedRun.of(index, *pair) for index, pair in enumerate(zip(runs, analyses, strict=True))]
    groups = _comparable(compared)
    found: list[Compared] = []
    for group in groups:
        found += [why for why in [obstacle(groups[0][0], group[0])] if why and group is not groups[0]]
        known = same_log or knows_data(group)
        if len(group) > 1:
            found += [*([] if known else [UnknownData(tuple(each.index for each in group), confidence="hint")])]
            found += findings_of(group, known)
    losses = losses_of(groups[0]) if len(groups) == 1 else None
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
    parts = [[each[index] for index in whole] for each in (runs, names, analyses)]
    return compare(parts[0], parts[1], analyses=parts[2], same_log=True) if len(whole) > 1 else None  # type: ignore[arg-type]


def comparison_json(comparison: Comparison, sources: Sequence[str]) -> dict[str, Any]:
    """The document of `compare --json`; `explain --json` has the analyses of the single runs."""
    document = {name: value for name, value in vars(comparison).items() if name not in ("analyses", "findings")}
    findings = [{"code": finding.code, **plain(finding)} for finding in comparison.findings]
    return plain({"schema": SCHEMA, "sources": list(sources), "findings": findings, **document})  # type: ignore[no-any-return]


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
    if losses is None:
        cells = [[each] for each in group]
    else:
        level = losses.of
        cells = cells if is_repeated else [[each] for each in group]
        cells = [sorted(cell, key=lambda each: level[each.index].loss) for cell in cells]
        cells.sort(key=lambda cell: losses.mean(cell))
    return [_row(cell, cells[0], factors, losses, ranked) for cell in cells]


def _row(cell: Group, first: Group, factors: Sequence[str], losses: Losses | None, ranked: bool) -> ComparisonRow:
    best = cell[0]
    timing, evals = best.analysis.timing, best.analysis.evals
    values = losses.finite(cell) if losses else []
    loss = losses.mean(cell) if losses and len(values) == len(cell) else None
    higher = loss - losses.mean(first) if losses and loss is not None and cell is not first else None
    error = None
    if losses and len(cell) == len(first) == 1 and cell is not first:
        error, _ = difference(losses, best, first[0])
    known = [*factors, "seed"] if len(cell) == 1 else factors
    telling = factors if cell is first else [key for key in known if differs([best, first[0]], key)]
    return ComparisonRow(
        runs=tuple(each.index for each in cell),
        steps=best.last_step,
        loss=loss,
        spread=sample_deviation(values) if loss is not None and len(cell) > 1 else None,
        difference=error.value if error else higher,
        difference_error=error.error if error else None,
        best_val=evals.best_val if evals else None,
        metric=evals.metric if evals else "loss",
        step_seconds=timing.typical_s if timing else None,
        wall_seconds=wall_seconds(best.run, best.analysis),
        settings=settings_in(telling, best),
        ranked=ranked,
    )


def _config_differences(compared: Group) -> tuple[ConfigDifference, ...]:
    hidden = BOOKKEEPING - {"eval_interval", "eval_iters"}
    keys = dict.fromkeys(key for each in compared for key in each.settings if key not in hidden)
    return tuple(
        ConfigDifference(key, tuple(each.settings.get(key) for each in compared))
        for key in keys
        if differs(compared, key)
    )
