"""A comparison as JSON: the schema nanoscope.compare/2 of `compare --json`."""

from collections.abc import Sequence
from typing import Any

from nanoscope.analysis.findings import Compared, Comparison
from nanoscope.analysis.schema import plain

SCHEMA = "nanoscope.compare/2"


def comparison_json(comparison: Comparison, sources: Sequence[str]) -> dict[str, Any]:
    """Names, findings and rows; `explain --json` has the analyses of the single runs."""
    experiment = comparison.experiment
    document = {
        "schema": SCHEMA,
        "sources": list(sources),
        "names": comparison.names,
        "ranked": experiment.ranked,
        "data": _findings(experiment.data),
        "learning": _findings(experiment.learnt),
        "does_not_explain": _findings(experiment.does_not_explain),
        "timing": _findings(experiment.speed),
        "continued": _findings(comparison.continued),
        "rows": comparison.rows,
        "ranking": comparison.ranking,
        "config": comparison.config,
    }
    return plain(document)  # type: ignore[no-any-return]


def _findings(findings: Sequence[Compared]) -> list[dict[str, Any]]:
    return [{"code": finding.code, **plain(finding)} for finding in findings]
