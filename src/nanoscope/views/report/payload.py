"""Runs and their findings → one plain dict: numbers once, words in every language.

The page's script draws from nothing else, so whoever serves this dict (a file, a live server) shows the same page.
Numbers come as base64 of little-endian arrays, where NaN means 'not there'.
"""

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nanoscope.analysis.analyse import Options, analyse, log_errors
from nanoscope.analysis.compare import compare, seconds_at
from nanoscope.analysis.findings import Analysis, Comparison, Overfitting, SlowStep
from nanoscope.analysis.schema import plain
from nanoscope.runs.folder import RunFolderFacts
from nanoscope.runs.run import Log, Run
from nanoscope.untrusted import printable
from nanoscope.views.charts import stretch_medians
from nanoscope.views.comparison import short_names, tell
from nanoscope.views.report.labels import labels
from nanoscope.views.sections import MOST_ADVICE, safe_error, sections, source_line, tone
from nanoscope.words.language import LANGUAGES, Language
from nanoscope.words.notes import note
from nanoscope.words.sentences import sentence
from nanoscope.words.timing import causes_name
from nanoscope.words.verdicts import verdict_title

MOST_POINTS = 6000  # of a series; of more than these, each stretch keeps its lowest and its highest
MOST_EVALUATIONS = 1000
SMOOTH_STRETCHES = 200
MOST_EXPLAINED = 200  # slow steps with a sentence of their own, the costliest; the others have their cause
CLOCK_POINTS = 100
SERIES = ("loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")

Json = dict[str, Any]


@dataclass(eq=False)
class ReportedRun:
    """One run of a report: what it is called, what was read and found."""

    name: str
    run: Run
    analysis: Analysis
    log: Log
    facts: RunFolderFacts = field(default_factory=RunFolderFacts)


class Source(NamedTuple):
    """A run to be described: its name, and what was read."""

    name: str
    run: Run
    log: Log
    facts: RunFolderFacts


def describe(sources: Sequence[Source], options: Options, language: str) -> Json:
    """The payload of runs, each analysed; several are compared too."""
    runs = [ReportedRun(name, run, analyse(run, options, log), log, facts) for name, run, log, facts in sources]
    several = len(runs) > 1
    comparison = compare([each.run for each in runs], [each.name for each in runs], options) if several else None
    return payload(runs, comparison, language)


def payload(runs: Sequence[ReportedRun], comparison: Comparison | None, language: str) -> Json:
    """Everything that the page shows; `language` is the one it opens in."""
    names = short_names([reported.name for reported in runs])
    document = {
        "language": language,
        "runs": [{"label": name, **_numbers(reported)} for name, reported in zip(names, runs, strict=True)],
        "words": {code: _words(runs, comparison, Language(code)) for code in LANGUAGES},
    }
    return plain(document)  # type: ignore[no-any-return]


# --- words ---


def _words(runs: Sequence[ReportedRun], comparison: Comparison | None, language: Language) -> Json:
    return {
        "name": LANGUAGES[language.code],
        "direction": "rtl" if language.right_to_left else "ltr",
        "labels": labels(language),
        "runs": [_told(reported, language) for reported in runs],
        "comparison": comparison and vars(tell(comparison, language)),
    }


def _told(reported: ReportedRun, language: Language) -> Json:
    analysis = reported.analysis
    errors = log_errors([error for error in reported.log.errors if error.run in (None, reported.run)])
    notes = [(n, note(n, language)) for n in reported.facts.notes]
    reasons = {n.step: text for n, text in notes if n.kind in ("slow_step", "asleep")}
    phases = _phases(reported.run, analysis)
    wall_seconds = sum(seconds for _, seconds in phases)
    return {
        # Whom a report is sent to need not know the sender's folders.
        "source": source_line(replace(reported.log, source=Path(reported.log.source).name), language),
        "verdicts": [
            {"tone": tone(v), "title": verdict_title(v, language), "text": sentence(v, language)}
            for v in analysis.verdicts
        ],
        "errors": [sentence(safe_error(error), language) for error in errors],
        "advice": [sentence(advice, language) for advice in analysis.advice[:MOST_ADVICE]],
        "sections": [(title, [t for t in texts if t]) for title, texts in sections(analysis, language) if any(texts)],
        "notes": [text for _, text in notes],
        "slow": [f"{_slow_step(s, language)} {reasons.get(s.step, '')}".rstrip() for s in _costliest(analysis)],
        "causes": {_key(s.causes): causes_name(s.causes or ("stall",), language) for s in analysis.slow_steps},
        "phases": [f"{language.duration(s)} ({language.percent(s / wall_seconds)})" for _, s in phases],
    }


def _slow_step(slow: SlowStep, language: Language) -> str:
    time = language.isolate(language.duration(slow.time_s))
    return f"{language.say('step')} {slow.step}: {time}{language.say('. ')}{sentence(slow, language)}"


def _costliest(analysis: Analysis) -> list[SlowStep]:
    """The slow steps, costliest first, as far as each is told by itself."""
    return sorted(analysis.slow_steps, key=lambda s: -s.extra_s)[:MOST_EXPLAINED]


def _key(causes: Sequence[str]) -> str:
    return "+".join(causes) or "stall"


# --- numbers ---


def _numbers(reported: ReportedRun) -> Json:
    run, analysis, facts = reported.run, reported.analysis, reported.facts
    columns = {name: getattr(run.steps, name) for name in SERIES}
    estimated = dict(zip(facts.eta_steps, facts.eta_seconds, strict=True))
    columns["eta_s"] = [estimated.get(step, math.nan) for step in run.steps.step] if estimated else []
    lowest = {"mfu_pct": 0.0, "time_s": 1e-12}  # nanoGPT prints -100 % before it has measured
    drawn = {name: _series(run.steps.step, column, lowest.get(name)) for name, column in columns.items()}
    evals = [e for e in run.evals if math.isfinite(e.val)]
    evals = [evals[i] for i in extremes([e.val for e in evals], MOST_EVALUATIONS)]
    slow = _costliest(analysis)
    told = set(map(id, slow))
    slow_steps = {s.step for s in analysis.slow_steps}
    slow += [s for s in analysis.slow_steps if id(s) not in told]
    onset = next((v.onset_step for v in analysis.verdicts if isinstance(v, Overfitting)), None)
    return {
        "name": printable(reported.name),
        "metric": analysis.evals.metric if analysis.evals else "loss",
        "steps": _steps(run.steps.step),
        "series": {name: column for name, column in drawn.items() if column},
        "smooth": _smooth(_points(run.steps.step, run.steps.loss)),
        "pace": _smooth([(step, y) for step, y in _points(run.steps.step, run.steps.time_s) if step not in slow_steps]),
        "evals": [(e.step, e.val, e.stderr, e.train_loss) for e in evals],
        "best": analysis.evals and (analysis.evals.best_step, analysis.evals.best_val),
        "onset": onset,
        "slow": [(s.step, float(f"{s.time_s:.6g}"), _key(s.causes)) for s in slow],
        "phases": _phases(run, analysis),
        "tokens_per_step": analysis.progress.tokens_per_step,
        "clock": _clock(run, analysis),
        "config": facts.config or [(printable(str(k)), printable(str(v))) for k, v in run.config.items()],
        "environment": facts.environment,
        "samples": facts.samples,
    }


def _series(steps: Sequence[int], values: Sequence[float], lowest: float | None) -> Json | None:
    """A column as the script reads it; nothing where it has no two numbers."""
    finite = [y if math.isfinite(y) and (lowest is None or y >= lowest) else math.nan for y in values]
    if sum(y == y for y in finite) < 2:
        return None
    if len(finite) <= MOST_POINTS:
        return {"y": _base64(array("f", finite))}
    kept = extremes(finite, MOST_POINTS)
    return {"x": _steps([steps[i] for i in kept]), "y": _base64(array("f", [finite[i] for i in kept]))}


def extremes(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` values, among them the lowest and the highest of every stretch: spikes stay."""
    if len(values) <= most:
        return list(range(len(values)))
    size = math.ceil(2 * len(values) / (most - 2))
    kept = {0, len(values) - 1}
    for start in range(0, len(values), size):
        stretch = [i for i in range(start, min(start + size, len(values))) if values[i] == values[i]]
        if stretch:
            kept |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
    return sorted(kept)


def _steps(steps: Sequence[int]) -> Json:
    """Steps at equal distances, as they usually are, need three numbers."""
    every = steps[1] - steps[0] if len(steps) > 1 else 1
    if steps and all(step == steps[0] + i * every for i, step in enumerate(steps)):
        return {"first": steps[0], "every": every, "count": len(steps)}
    return {"each": _base64(array("d", steps))}


def _base64(numbers: "array[float]") -> str:
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _points(steps: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(step), y) for step, y in zip(steps, values, strict=True) if math.isfinite(y)]


def _smooth(points: Sequence[tuple[float, float]]) -> list[tuple[int, float]]:
    """Medians of stretches: long ones, so that the noise of single batches goes even in a short run."""
    stretches = min(SMOOTH_STRETCHES, max(len(points) // 3, 2))
    return [(int(x), float(f"{y:.5g}")) for x, y in stretch_medians(points, stretches // 2)]


def _phases(run: Run, analysis: Analysis) -> list[tuple[str, float]]:
    """Seconds by phase: as the run counted them, or as the printed times tell."""
    if run.phases:
        names = {"step": "steps"}
        counted = [(names.get(name, name), seconds) for name, seconds in run.phases.items() if seconds > 0]
        rest = (run.wall_seconds or 0.0) - sum(seconds for _, seconds in counted)
        if "step" not in run.phases and rest > 0:  # it has not ended: what is not something else is training
            counted.append(("steps", rest))
        return counted
    costs = [cost for cost in analysis.phase_costs if cost.share > 0]
    if not costs:
        return []
    short = {"evaluation": "eval"}
    known = [(short.get(cost.phase, cost.phase), cost.total_s) for cost in costs]
    wall = costs[0].total_s / costs[0].share
    return [("steps", max(0.0, wall - sum(seconds for _, seconds in known))), *known]


def _clock(run: Run, analysis: Analysis) -> list[tuple[int, float]]:
    """When the run was at some of its steps, to lay runs over each other at equal times."""
    steps = sorted({*run.steps.step[:1], *run.steps.step[-1:], *(e.step for e in run.evals)})
    evaluated = [e.step for e in run.evals]
    some = {steps[round(i * (len(steps) - 1) / (CLOCK_POINTS - 1))] for i in range(CLOCK_POINTS)} if steps else set()
    times = [(step, seconds_at(float(step), analysis, evaluated)) for step in sorted(some)]
    return [(step, seconds) for step, seconds in times if seconds is not None]
