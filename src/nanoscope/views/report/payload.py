"""Runs and their findings as one plain dict: the numbers once, the texts in every language.

The page's script draws from this dict alone, so the report file and the live server show the same page.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from nanoscope.analysis.analyse import Options, analyse, log_errors
from nanoscope.analysis.compare import compare
from nanoscope.analysis.compare.clock import seconds_at
from nanoscope.analysis.findings import Analysis, AsleepNote, Comparison, Overfitting, SlowRecord, SlowStepNote
from nanoscope.analysis.notes import note_findings
from nanoscope.analysis.schema import plain
from nanoscope.runs.own import RunDetails
from nanoscope.runs.run import Log, Run
from nanoscope.untrusted import printable
from nanoscope.views.compare import comparison_texts, short_names
from nanoscope.views.report.labels import labels
from nanoscope.views.report.series import Series, extremes, packed, smoothed, thinned_series
from nanoscope.views.sections import MOST_ADVICE, safe_error, sections, source_line, tone
from nanoscope.words.language import LANGUAGES, Language
from nanoscope.words.sentences import sentence
from nanoscope.words.timing import causes_name
from nanoscope.words.verdicts import verdict_title

MAX_EVALUATIONS = 1000
MAX_EXPLAINED = 200  # slow steps that get a sentence, the costliest; the others are shown with their cause only
CLOCK_POINTS = 100
PHASE_NAMES = {"step": "steps", "evaluation": "eval"}

Json = dict[str, Any]


class Source(NamedTuple):
    """A run to describe."""

    name: str
    run: Run
    log: Log

    @property
    def details(self) -> RunDetails:
        """What only nanoscope's own runs record; empty for other logs."""
        return self.run.details or RunDetails()


@dataclass(eq=False)
class DescribedRun:
    """All that a page shows of one run."""

    name: str
    run: Run
    analysis: Analysis
    numbers: Json
    series: Series
    texts: Mapping[str, Json]  # by language


def describe(sources: Sequence[Source], options: Options, language: str) -> Json:
    """The payload of one run, or of several with their comparison."""
    return payload([describe_run(source, options) for source in sources], language)


def describe_run(source: Source, options: Options) -> DescribedRun:
    """Analyse one run and put the findings into words."""
    run = source.run
    analysis = analyse(run, options, source.log)
    texts = {code: _texts(source, analysis, Language(code)) for code in LANGUAGES}
    return DescribedRun(source.name, run, analysis, _numbers(source, analysis), thinned_series(run), plain(texts))


def payload(runs: Sequence[DescribedRun], language: str) -> Json:
    """Everything that the page shows; it opens in `language`."""
    names = [each.name for each in runs]
    comparison = None
    if len(runs) > 1:
        comparison = compare([each.run for each in runs], names, analyses=[each.analysis for each in runs])
    document = {
        "language": language,
        "runs": [
            {"label": label, **each.numbers, **packed(each.series, len(runs))}
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
        "runs": [each.texts[language.code] for each in runs],
        "comparison": comparison and vars(comparison_texts(comparison, language)),
    }


def _texts(source: Source, analysis: Analysis, language: Language) -> Json:
    errors = log_errors([error for error in source.log.errors if error.run in (None, source.run)])
    notes = [(n, sentence(n, language)) for n in note_findings(source.details.notes)]
    reasons = {n.step: text for n, text in notes if isinstance(n, SlowStepNote | AsleepNote)}
    phases = _phases(source.run, analysis)
    wall_seconds = sum(seconds for _, seconds in phases)
    return {
        # Without the folders: a report may be sent to others.
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


def _slow_step(slow: SlowRecord, language: Language) -> str:
    time = language.isolate(language.duration(slow.time_s))
    return f"{language.say('step')} {slow.step}: {time}{language.say('. ')}{sentence(slow, language)}"


def _costliest(analysis: Analysis) -> list[SlowRecord]:
    """The slow steps that get a sentence, costliest first."""
    return sorted(analysis.slow_steps, key=lambda s: -s.extra_s)[:MAX_EXPLAINED]


def _key(causes: Sequence[str]) -> str:
    return "+".join(causes) or "stall"


# --- numbers ---


def _numbers(source: Source, analysis: Analysis) -> Json:
    run, details = source.run, source.details
    evals = [e for e in run.evals if math.isfinite(e.val)]
    evals = [evals[i] for i in extremes([e.val for e in evals], MAX_EVALUATIONS)]
    slow = _costliest(analysis)
    explained = set(map(id, slow))
    slow += [s for s in analysis.slow_steps if id(s) not in explained]
    onset = next((v.onset_step for v in analysis.verdicts if isinstance(v, Overfitting)), None)
    return {
        "name": printable(source.name),
        "metric": analysis.evals.metric if analysis.evals else "loss",
        "smooth": smoothed(run.steps.step, run.steps.loss),
        "pace": smoothed(run.steps.step, run.steps.time_s, without={s.step for s in slow}),
        "evals": [(e.step, e.val, e.stderr, e.train_loss) for e in evals],
        "best": analysis.evals and (analysis.evals.best_step, analysis.evals.best_val),
        "onset": onset,
        "slow": [(s.step, float(f"{s.time_s:.6g}"), _key(s.causes)) for s in slow],
        "phases": _phases(run, analysis),
        "tokens_per_step": analysis.progress.tokens_per_step,
        "clock": _clock(run, analysis),
        "config": details.config or [(printable(str(k)), printable(str(v))) for k, v in run.config.items()],
        "environment": details.environment,
        "samples": details.samples,
    }


def _phases(run: Run, analysis: Analysis) -> list[tuple[str, float]]:
    """Seconds by phase: as the run recorded them, or else as estimated from the printed times."""
    if run.phases:
        known = [(PHASE_NAMES.get(name, name), seconds) for name, seconds in run.phases.items() if seconds > 0]
        rest = (run.wall_seconds or 0.0) - sum(seconds for _, seconds in known)
        is_unaccounted = "step" not in run.phases and rest > 0  # before the end of a run, the rest is training
        return [*known, ("steps", rest)] if is_unaccounted else known
    costs = [cost for cost in analysis.phase_costs if cost.share > 0]
    if not costs:
        return []
    known = [(PHASE_NAMES.get(cost.phase, cost.phase), cost.total_s) for cost in costs]
    wall = costs[0].total_s / costs[0].share
    return [("steps", max(0.0, wall - sum(seconds for _, seconds in known))), *known]


def _clock(run: Run, analysis: Analysis) -> list[tuple[int, float]]:
    """Seconds at which the run reached some of its steps, to overlay runs at equal times."""
    steps = sorted({*run.steps.step[:1], *run.steps.step[-1:], *(e.step for e in run.evals)})
    some = {steps[round(i * (len(steps) - 1) / (CLOCK_POINTS - 1))] for i in range(CLOCK_POINTS)} if steps else set()
    times = [(step, seconds_at(float(step), run, analysis)) for step in sorted(some)]
    return [(step, seconds) for step, seconds in times if seconds is not None]
