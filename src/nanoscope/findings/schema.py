"""Findings as JSON: the schema nanoscope.explain/1 of `explain --json`, and any finding field by field."""

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from nanoscope.findings.analyse import Analysis, log_errors
from nanoscope.findings.declared import Diverged, NonFinite
from nanoscope.findings.eta import Eta
from nanoscope.runs.run import Doubt, Log

SCHEMA = "nanoscope.explain/1"


def explain_json(log: Log, analyses: Sequence[Analysis]) -> dict[str, Any]:
    """A whole log, in the schema's form."""
    document = {
        "schema": SCHEMA,
        "source": log.source,
        "format": log.format,
        "runs": [
            run_json(a) | {"doubts": list(map(_doubt, run.doubts))} for a, run in zip(analyses, log.runs, strict=True)
        ],
        "errors": [{"line": e.line, "kind": e.kind, "message": e.message} for e in log_errors(log.errors)],
    }
    return plain(document)  # type: ignore[no-any-return]


def _doubt(doubt: Doubt) -> dict[str, Any]:
    """What the log does not settle."""
    readings = [{"value": value, "why": why} for value, why in doubt.readings]
    return {"field": doubt.name, "readings": readings, "refused": [{"value": v, "why": w} for v, w in doubt.refused]}


def run_json(analysis: Analysis) -> dict[str, Any]:
    """One run, in the schema's form."""
    a, normal, evals, mfu = analysis, analysis.timing, analysis.evals, analysis.mfu
    non_finite = next((v.step for v in a.verdicts if isinstance(v, NonFinite)), None)
    diverged = next((v.step for v in a.verdicts if isinstance(v, Diverged)), None)
    return {
        "steps_logged": a.summary.steps_logged,
        "first_step": a.summary.first_step,
        "last_step": a.summary.last_step,
        "total_steps": a.progress.total_steps,
        "finished": a.progress.finished,
        "step_time_s": normal
        and {
            "typical": normal.typical_s,
            "low": normal.low_s,
            "high": normal.high_s,
            "mean": normal.mean_s,
            "trend_pct": None if normal.trend_share is None else 100 * normal.trend_share,
        },
        "slow_steps": [
            {"step": s.step, "time_s": s.time_s, "extra_s": s.extra_s, "causes": list(s.causes)} for s in a.slow_steps
        ],
        "evals": evals
        and {
            key: getattr(evals, key)
            for key in (
                "metric", "count", "interval", "cost_s", "best_val", "best_step",
                "first_val", "last_val", "last_train", "last_step",
            )
        },
        "place": a.place,
        "checkpoints": {"count": a.checkpoints.count, "cost_s": a.checkpoints.cost_s},
        "loss": {
            "first": a.train_loss.first,
            "last": a.train_loss.last,
            "min": a.train_loss.min,
            "non_finite_from": non_finite,
            "diverged_at": diverged,
        },
        "verdicts": [verdict.code for verdict in a.verdicts],
        "findings": [{"code": finding.code, **vars(finding)} for finding in (*a.verdicts, *a.mismatches)],
        "throughput_tok_s": normal and normal.throughput_tok_s,
        "mfu": mfu
        and {
            "logged_pct": None if mfu.logged is None else 100 * mfu.logged,
            "trust": mfu.trust,
            "recomputed_pct": None if mfu.recomputed is None else 100 * mfu.recomputed,
            "logged_peak": {"device": mfu.assumed_device, "tflops": mfu.assumed_tflops},
            "recomputed_peak": {
                "device": mfu.device, "tflops": mfu.peak_tflops, "dtype": mfu.peak_dtype, "source": mfu.peak_source,
            },
        },
        "remaining_s": {
            "expected": a.eta.expected_s,
            "low": a.eta.low_s,
            "high": a.eta.high_s,
            "naive": a.eta.naive_s,
        }
        if isinstance(a.eta, Eta)
        else None,
        "reading": a.reading,
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Findings as dicts and lists, with null for numbers that are not finite."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
