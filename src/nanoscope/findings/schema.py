"""Findings by name and as JSON: the schema nanoscope.explain/1 of `explain --json`, and any finding field by field."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nanoscope.findings.analyse import Analysis, log_errors
from nanoscope.runs.run import Claim, Log

SCHEMA = "nanoscope.explain/1"


@cache
def paths(table: str) -> dict[str, Any]:
    """A table of paths.toml."""
    return tomllib.loads(Path(__file__).with_name("paths.toml").read_text("utf-8"))[table]  # type: ignore[no-any-return]


def explain_json(log: Log, analyses: Sequence[Analysis]) -> dict[str, Any]:
    """A whole log, in the schema's form."""
    document = {
        "schema": SCHEMA,
        "source": log.source,
        "format": log.format,
        "runs": [
            run_json(a) | {"doubts": list(map(_doubt, run.doubts))} for a, run in zip(analyses, log.runs, strict=True)
        ],
        "errors": log_errors(log.errors),
    }
    return plain(document)  # type: ignore[no-any-return]


def _doubt(doubt: Claim) -> dict[str, Any]:
    """What the log does not settle."""
    refused = [{"value": reading.size, "why": why} for reading, why in doubt.refused]
    readings = [*(reading for reading, _ in doubt.refused), *doubt.readings]
    said = [{"value": reading.size, "why": reading.why} for reading in readings]
    return {"field": doubt.name, "readings": said, "refused": refused}


def run_json(analysis: Analysis) -> dict[str, Any]:
    """One run, in the schema's form."""
    findings = [{"code": finding.code, **vars(finding)} for finding in (*analysis.verdicts, *analysis.mismatches)]
    return {name: _entry(analysis, name, path) for name, path in paths("explain").items()} | {"findings": findings}


def _entry(analysis: Analysis, name: str, path: Any) -> Any:
    if isinstance(path, dict):
        finding, _, field = next(iter(path.values())).partition(".")
        is_known = hasattr(getattr(analysis, finding), field)
        return {key: _entry(analysis, key, inner) for key, inner in path.items()} if is_known else None
    value = value_at(analysis, path)
    return 100 * value if name.endswith("_pct") and value is not None else value


def value_at(value: Any, path: str) -> Any:
    """What stands at the path; None if it leads nowhere."""
    part, _, rest = path.partition(".")
    if part == "*":
        return [value_at(item, rest) for item in value]
    if isinstance(value, Mapping):
        value = value.get(part)
    elif is_dataclass(value) or not isinstance(value, Sequence):
        value = getattr(value, part, None)
    elif part.lstrip("-").isdigit():
        value = next(iter(value[int(part) :]), None)
    else:
        value = next((item for item in value if _is_called(item, part)), None)
    return value_at(value, rest) if rest and value is not None else value


def _is_called(finding: Any, name: str) -> bool:
    values = vars(finding)
    return finding.code == name or values.get(name) is True or name in values.values()


def plain(value: Any) -> Any:
    """Findings as dicts and lists, with null for numbers that are not finite."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
