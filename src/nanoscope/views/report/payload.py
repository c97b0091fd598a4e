"""Runs and their findings → one plain dict: numbers once, words in every language.

The page's script draws from nothing else, so whoever serves this dict (a file, a live server) shows the same page.
Numbers come as base64 of little-endian arrays, where NaN means 'not there'.
"""

import base64
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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
LEAST_POINTS = 600  # of a series, of however many runs
MOST_EVALUATIONS = 1000
SMOOTH_STRETCHES = 200
MOST_EXPLAINED = 200  # slow steps with a sentence of their own, the costliest; the others have their cause
CLOCK_POINTS = 100
SERIES = ("loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct")

Json = dict[str, Any]


class Source(NamedTuple):
    """A run to be described: its name, and what was read."""

    name: str
    run: Run
    log: Log
    facts: RunFolderFacts


@dataclass(eq=False)
class DescribedRun:
    """All that a page shows of one run: its numbers, and what is said about them in each language."""

    name: str
    run: Run
    analysis: Analysis
    numbers: Json
    series: Mapping[str, "tuple[array[int], array[float]]"]  # steps and values, thinned
    told: Mapping[str, Json]


def describe(sources: Sequence[Source], options: Options, language: str) -> Json:
    """The payload of runs; several are compared too."""
    return payload([describe_run(source, options) for source in sources], language)


def describe_run(source: Source, options: Options) -> DescribedRun:
    """One run, analysed and put into words."""
    analysis = analyse(source.run, options, source.log)
    told = {code: _told(source, analysis, Language(code)) for code in LANGUAGES}
    return DescribedRun(source.name, source.run, analysis, _numbers(source, analysis), _all_series(source), plain(told))


def payload(runs: Sequence[DescribedRun], language: str) -> Json:
    """Everything that the page shows; `language` is the one it opens in."""
    names = [each.name for each in runs]
    comparison = None
    if len(runs) > 1:
        comparison = compare([each.run for each in runs], names, analyses=[each.analysis for each in runs])
    most_points = max(MOST_POINTS // len(runs), LEAST_POINTS)
    document = {
        "language": language,
        "runs": [
            {"label": label, **each.numbers, **_encoded(each.series, most_points)}
            for label, each in zip(short_names(names), runs, strict=True)
        ],
        "words": {code: _words(runs, comparison, Language(code)) for code in LANGUAGES},
    }
    return plain(document)  # type: ignore[no-any-return]


# --- words ---


def _words(runs: Sequence[DescribedRun], comparison: Comparison | None, language: Language) -> Json:
    return {
        "name": LANGUAGES[language.code],
        "direction": "rtl" if language.right_to_left else "ltr",
        "labels": labels(language),
        "runs": [each.told[language.code] for each in runs],
        "comparison": comparison and vars(tell(comparison, language)),
    }


def _told(source: Source, analysis: Analysis, language: Language) -> Json:
    errors = log_errors([error for error in source.log.errors if error.run in (None, source.run)])
    notes = [(n, note(n, language)) for n in source.facts.notes]
    reasons = {n.step: text for n, text in notes if n.kind in ("slow_step", "asleep")}
    phases = _phases(source.run, analysis)
    wall_seconds = sum(seconds for _, seconds in phases)
    return {
        # Whom a report is sent to need not know the sender's folders.
        "source": source_line(replace(source.log, source=Path(source.log.source).name), language),
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


def _numbers(source: Source, analysis: Analysis) -> Json:
    run, facts = source.run, source.facts
    evals = [e for e in run.evals if math.isfinite(e.val)]
    evals = [evals[i] for i in extremes([e.val for e in evals], MOST_EVALUATIONS)]
    slow = _costliest(analysis)
    told = set(map(id, slow))
    slow_steps = {s.step for s in analysis.slow_steps}
    slow += [s for s in analysis.slow_steps if id(s) not in told]
    onset = next((v.onset_step for v in analysis.verdicts if isinstance(v, Overfitting)), None)
    return {
        "name": printable(source.name),
        "metric": analysis.evals.metric if analysis.evals else "loss",
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


def _all_series(source: Source) -> "dict[str, tuple[array[int], array[float]]]":
    """The columns that have at least two numbers, each with the steps that were kept of it."""
    steps, facts = source.run.steps, source.facts
    columns: dict[str, Sequence[float]] = {name: getattr(steps, name) for name in SERIES}
    estimated = dict(zip(facts.eta_steps, facts.eta_seconds, strict=True))
    columns["eta_s"] = [estimated.get(step, math.nan) for step in steps.step] if estimated else []
    lowest = {"mfu_pct": 0.0, "time_s": 1e-12}  # nanoGPT prints -100 % before it has measured
    series = {}
    for name, values in columns.items():
        least = lowest.get(name, -math.inf)
        finite = array("f", [y if least <= y < math.inf else math.nan for y in values])
        if len(list(islice((y for y in finite if y == y), 2))) == 2:
            series[name] = _thinned(steps.step[:], finite, MOST_POINTS)
    return series


def _thinned(steps: "array[int]", values: "array[float]", most: int) -> "tuple[array[int], array[float]]":
    if len(values) <= most:
        return steps, values
    kept = extremes(values, most)
    return array("q", [steps[i] for i in kept]), array("f", [values[i] for i in kept])


def _encoded(series: "Mapping[str, tuple[array[int], array[float]]]", most: int) -> Json:
    """The columns as the script reads them; steps that all of them have are written once."""
    thinned = {name: _thinned(steps, values, most) for name, (steps, values) in series.items()}
    common = next(iter(thinned.values()))[0] if thinned else array("q")
    columns = {
        name: {"y": _base64(values)} if steps == common else {"x": _steps(steps), "y": _base64(values)}
        for name, (steps, values) in thinned.items()
    }
    return {"steps": _steps(common), "series": columns}


def extremes(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` values, among them the lowest and the highest of every stretch: spikes stay."""
    if len(values) <= most:
        return list(range(len(values)))
    size = math.ceil(2 * len(values) / (most - 2))
    kept = {0, len(values) - 1}
    has_gaps = any(value != value for value in values)
    for start in range(0, len(values), size):
        stretch = values[start : start + size]
        there = [value for value in stretch if value == value] if has_gaps else stretch
        if there:
            kept |= {start + stretch.index(min(there)), start + stretch.index(max(there))}
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
