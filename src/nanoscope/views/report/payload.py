"""Runs and their findings as one plain dict: the numbers once, the texts in every language.

The page's script draws from this dict alone, so the report file and the live server show the same page.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from nanoscope.findings.analyse import Analysis, Options, analyse, log_errors
from nanoscope.findings.clock import seconds_at
from nanoscope.findings.compare import Comparison, compare
from nanoscope.findings.compare.effects import Effect
from nanoscope.findings.declared import Diverged, NonFinite, notes_of
from nanoscope.findings.known import known_numbers
from nanoscope.findings.progress import train_tokens
from nanoscope.findings.slow import SlowRecord, named
from nanoscope.ladder import knowledge
from nanoscope.messages import LANGUAGES, Message, printable
from nanoscope.runs.details import RunDetails
from nanoscope.runs.events import Asleep, SlowStep
from nanoscope.runs.load_many import NamedRun
from nanoscope.runs.run import Run
from nanoscope.views.compare import ComparisonTexts, comparison_texts
from nanoscope.views.labels import concepts_of_names, labels, lesson
from nanoscope.views.report.series import PackedSeries, PackedSteps, Series, extremes, packed, thinned_series
from nanoscope.views.report.tiles import Tile, evidence, facts, tiles
from nanoscope.views.sections import MOST_ADVICE, error_texts, sections, source_line
from nanoscope.words.concepts import CONCEPTS
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence, verdict_title

MAX_EVALUATIONS = 1000
MAX_EXPLAINED = 200  # slow steps that get a sentence; the others are shown with their cause only
CLOCK_POINTS = 100
MAX_SETTINGS = 6  # that differ between runs and get a chart of their own
# Nothing to choose.
RESULTS = {"parameters", "tokens_per_step", "total_batch_size", "device", "device_name", "seed", "trainer"}
# What is printed, saved and evaluated changes no loss.
ONLY_WATCHED = re.compile(r"(eval|log|save|sample|out|checkpoint|keep|tracker|wandb)_|.*_(interval|dir)$")
PHASE_NAMES = {"step": "steps", "evaluation": "eval"}


class VerdictWords(msgspec.Struct):
    tone: Literal["good", "fair", "bad"]
    title: str
    text: str


class RunWords(msgspec.Struct):
    """What is said about a run, in one language."""

    source: str
    tiles: list[Tile]
    facts: str
    rungs: list[str]
    evidence: list[tuple[str, str, str]]  # title, text, and the concept of the title
    here: dict[str, str]  # what the concepts are in this run; empty where the log has no number
    verdicts: list[VerdictWords]
    errors: list[str]
    advice: list[str]
    sections: list[tuple[str, list[str]]]
    notes: list[str]
    slow: list[str]
    causes: dict[str, str]
    phases: list[str]


class RunNumbers(msgspec.Struct):
    """A run without words."""

    name: str
    metric: Literal["loss", "bpb"]
    state: Literal["finished", "stopped", "failed", "unfinished"]
    evals: list[tuple[int, float, float | None, float | None]]  # step, validation loss, its error, training loss
    best: tuple[int | None, float | None] | None
    failure: Literal["nan", "diverged"] | None
    result: float | None  # that it is ranked by
    broken: int | None  # the step from which the loss is not a number
    clip: float | None
    rungs: list[float]
    uniform: float | None
    slow: list[tuple[int, float, str]]  # step, seconds, causes: the costliest first
    phases: list[tuple[str, float]]
    tokens_per_step: float | None
    epoch_tokens: float | None
    clock: list[tuple[int, float]]
    config: list[tuple[str, str]]
    environment: list[tuple[str, str]]
    samples: list[tuple[int, str]]
    steps: PackedSteps | None = None
    series: dict[str, PackedSeries] = {}
    resume: str | None = None  # the command that resumes it
    can_sample: bool = False  # it has a checkpoint


class ChosenSetting(msgspec.Struct):
    """A setting that somebody chose differently, and its value in each run."""

    key: str
    values: list[str | int | float | bool | None]


class Words(msgspec.Struct):
    """All that is said on a page, in one language."""

    runs: list[RunWords]
    lessons: dict[str, dict[str, str]]
    comparison: ComparisonTexts | None


class PageLanguage(msgspec.Struct):
    """What a page says whatever its runs."""

    name: str
    direction: Literal["ltr", "rtl"]
    labels: dict[str, str]


class Payload(msgspec.Struct):
    """Everything that the page shows."""

    language: str  # that it opens in
    runs: list[RunNumbers]
    settings: list[ChosenSetting]
    concepts: dict[str, str]
    words: dict[str, Words]
    languages: dict[str, PageLanguage] = {}  # of a report; the server's page has them already
    versions: dict[str, str] = {}  # of the runs: what the list shows may be newer
    leisure_seconds: float = 0.0  # until it is worth asking again
    view: str = ""  # how the charts are shown


@dataclass(eq=False)
class DescribedRun:
    """All that a page shows of one run."""

    name: str
    run: Run
    analysis: Analysis
    numbers: RunNumbers
    series: Series
    texts: Mapping[str, RunWords]  # by language
    concepts: Mapping[str, str]  # that charts, phases and settings open, by the page's names for these


def describe(sources: Sequence[NamedRun], options: Options, language: str) -> Payload:
    """The payload of one run, or of several with their comparison, for a page that can change its language."""
    page = payload([describe_run(source, options) for source in sources], language, tuple(LANGUAGES))
    page.languages = page_languages()
    return page


def page_languages() -> dict[str, PageLanguage]:
    return {
        code: PageLanguage(name, "rtl" if Language(code).right_to_left else "ltr", labels(code))
        for code, name in LANGUAGES.items()
    }


def describe_run(source: NamedRun, options: Options) -> DescribedRun:
    """Analyse one run and put the findings into words, in every language."""
    run = source.run
    analysis = analyse(run, options, source.log)
    series = thinned_series(run, {slow.step for slow in analysis.slow_steps})
    numbers = _numbers(source, analysis)
    charts = {"loss", numbers.metric, *("memory" if name.endswith("_gb") else name for name in series)}
    concepts = concepts_of_names(charts, dict(numbers.phases), dict(numbers.config))
    texts = {code: _texts(source, analysis, Language(code), concepts) for code in LANGUAGES}
    return DescribedRun(source.name, run, analysis, numbers, series, texts, concepts)


def payload(runs: Sequence[DescribedRun], language: str, languages: Sequence[str]) -> Payload:
    """Everything that the page shows, in these languages; it opens in `language`."""
    comparison = None
    if len(runs) > 1:
        names = [each.name for each in runs]
        comparison = compare([each.run for each in runs], names, analyses=[each.analysis for each in runs])
    return Payload(
        language,
        [msgspec.structs.replace(each.numbers, **packed(each.series, len(runs))) for each in runs],
        _chosen_settings(comparison) if comparison else [],
        {name: concept for each in runs for name, concept in each.concepts.items()},
        {code: _words(runs, comparison, code) for code in languages},
    )


# --- words ---


def _words(runs: Sequence[DescribedRun], comparison: Comparison | None, code: str) -> Words:
    names = tuple(printable(each.name) for each in runs)
    return Words(
        [each.texts[code] for each in runs],
        {key: lesson(key, code) for each in runs for key in each.texts[code].here},
        comparison_texts(comparison, Language(code), names) if comparison else None,
    )


def _texts(source: NamedRun, analysis: Analysis, language: Language, concepts: Mapping[str, str]) -> RunWords:
    run, log, details = source.run, source.log, _details(source.run)
    errors = log_errors([error for error in log.errors if error.run in (None, run)])
    notes = [(event, language.render(said, event)) for event, said in notes_of(details.notes)]
    reasons = {event.step: text for event, text in notes if isinstance(event, SlowStep | Asleep)}
    phases = _phases(run, analysis)
    wall_seconds = sum(seconds for _, seconds in phases)
    shown, weighed = tiles(run, analysis, language), evidence(analysis, language)
    opened = {*concepts.values(), *(tile.concept for tile in shown), *(concept for *_, concept in weighed)}
    known = known_numbers(run, analysis)
    return RunWords(
        # Without the folders: a report may be sent to others.
        source=source_line(replace(log, source=Path(log.source).name), language),
        tiles=shown,
        facts=printable(facts(run, language)),
        rungs=[language.render(said) for _, said in _rungs(details)],
        evidence=weighed,
        here={key: CONCEPTS[key].teach(known, language).here for key in sorted(opened - {""})},
        verdicts=[
            VerdictWords(v.tone, verdict_title(v, language) + language.say(". "), sentence(v, language))
            for v in analysis.verdicts
        ],
        errors=error_texts(analysis, errors, language),
        advice=[sentence(advice, language) for advice in analysis.advice[:MOST_ADVICE]],
        sections=[(title, [t for t in texts if t]) for title, texts in sections(analysis, language) if any(texts)],
        notes=[text for _, text in notes],
        slow=[
            f"{language.say('step')} {slow.step}: {language.isolate(language.duration(slow.time_s))}"
            f"{language.say('. ')}{sentence(slow, language)} {reasons.get(slow.step, '')}".rstrip()
            for slow in _costliest(analysis)[:MAX_EXPLAINED]
        ],
        causes={_key(s.causes): language.render(named(s.causes or ("stall",))) for s in analysis.slow_steps},
        phases=[f"{language.duration(s)} ({language.isolate(language.percent(s / wall_seconds))})" for _, s in phases],
    )


def _details(run: Run) -> RunDetails:
    """What only nanoscope's own runs record; empty for other logs."""
    return run.details or RunDetails()


def _rungs(details: RunDetails) -> list[tuple[float, Message]]:
    """The losses of the models that the run is compared with; guessing is known of other logs too."""
    ladder = details.ladder
    if ladder is None:
        return []
    return [
        (rung.loss, Message("knowing {what}", what=knowledge(rung.known or 0, ladder.unit)))
        for rung in ladder.rungs()[1:]
    ]


def _costliest(analysis: Analysis) -> list[SlowRecord]:
    return sorted(analysis.slow_steps, key=lambda slow: -slow.extra_s)


def _key(causes: Sequence[str]) -> str:
    return "+".join(causes) or "stall"


# --- numbers ---


def _numbers(source: NamedRun, analysis: Analysis) -> RunNumbers:
    run, details, evaluated = source.run, _details(source.run), analysis.evals
    evals = [e for e in run.evals if math.isfinite(e.val)]
    evals = [evals[i] for i in extremes([e.val for e in evals], MAX_EVALUATIONS)]
    broken = next((v.step for v in analysis.verdicts if isinstance(v, NonFinite) and not v.recovered), None)
    diverged = any(isinstance(v, Diverged) for v in analysis.verdicts)
    failure: Literal["nan", "diverged"] | None = "nan" if broken is not None else "diverged" if diverged else None
    step, val = (evaluated.best_step, evaluated.best_val) if evaluated else (None, None)
    return RunNumbers(
        name=printable(source.name),
        metric=evaluated.metric if evaluated else "loss",
        state=_state(run, analysis),
        evals=[(e.step, e.val, e.stderr, e.train_loss) for e in evals],
        best=(step and int(step), val) if evaluated else None,  # JSON knows no epochs
        failure=failure,
        result=None if failure else val,
        broken=broken,
        clip=analysis.gradients.clip if analysis.gradients else None,
        rungs=[loss for loss, _ in _rungs(details)],
        uniform=analysis.train_loss.uniform_loss,
        slow=[(s.step, float(f"{s.time_s:.6g}"), _key(s.causes)) for s in _costliest(analysis)],
        phases=_phases(run, analysis),
        tokens_per_step=analysis.progress.tokens_per_step,
        epoch_tokens=train_tokens(run),
        clock=_clock(run, analysis),
        config=[(printable(str(k)), printable(str(v))) for k, v in (details.settings or run.config).items()],
        environment=details.environment,
        samples=details.samples,
    )


def _state(run: Run, analysis: Analysis) -> Literal["finished", "stopped", "failed", "unfinished"]:
    """How the log ends; whether a process still trains, only a live view knows."""
    if analysis.progress.finished:
        return "finished"
    return "stopped" if analysis.interruption else "failed" if run.failed else "unfinished"


def _chosen_settings(comparison: Comparison) -> list[ChosenSetting]:
    """The settings that somebody chose differently, those first that a finding is about."""
    effects = [finding.setting for finding in comparison.findings if isinstance(finding, Effect)]
    chosen = [each for each in comparison.config if each.key not in RESULTS and not ONLY_WATCHED.match(each.key)]
    chosen.sort(key=lambda each: effects.index(each.key) if each.key in effects else len(effects))
    return [
        ChosenSetting(
            printable(each.key),
            [value if isinstance(value, int | float | None) else printable(str(value)) for value in each.values],
        )
        for each in chosen[:MAX_SETTINGS]
    ]


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
    some = {*steps[:: 1 + len(steps) // CLOCK_POINTS], *steps[-1:]}
    times = [(step, seconds_at(float(step), run, analysis)) for step in sorted(some)]
    return [(step, seconds) for step, seconds in times if seconds is not None]
