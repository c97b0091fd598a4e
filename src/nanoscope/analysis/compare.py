"""Several runs side by side: at equal steps, tokens and time, and what explains that they end at other losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nanoscope.analysis.analyse import Options, analyse
from nanoscope.analysis.curves import Curve
from nanoscope.analysis.extrapolation import extrapolate
from nanoscope.analysis.findings import (
    Analysis,
    Comparison,
    ComparisonRow,
    ConfigDifference,
    Continued,
    Diverged,
    Explanation,
    NonFinite,
    Overfitting,
    RowMeasure,
    RowReason,
)
from nanoscope.analysis.numbers import between
from nanoscope.estimates import median
from nanoscope.runs.run import ConfigValue, Run

SAME_STEPS = 0.05  # runs whose lengths differ by less have the same length
MODEL_KEYS = ("parameters", "n_layer", "n_embd", "n_head", "block_size", "model_type", "depth", "recipe")
BATCH_KEYS = ("tokens_per_step", "batch_size", "gradient_accumulation_steps")
DEVICE_KEYS = ("device", "device_name")
DATA_KEYS = ("vocab_size", "dataset")
SHOWN_KEYS = (
    *MODEL_KEYS, *BATCH_KEYS, *DATA_KEYS, "max_iters", "learning_rate", "matrix_lr", "table_lr", "ngrams",
    "ngram_dropout", "token_shift", "min_lr", "warmup_iters", "cooldown", "dropout", "weight_decay", "optimizer",
    "dtype", *DEVICE_KEYS, "compile", "seed", "eval_interval",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class _Curve:
    """The validation losses of a run over its steps (the training losses where it has no two evaluations)."""

    run: Run
    analysis: Analysis
    steps: list[int]
    values: list[float]
    of_validation: bool

    @property
    def last(self) -> float | None:
        return self.values[-1] if self.values else None

    def at(self, step: float) -> float | None:
        """The loss at a step, between the points around it; None outside the log."""
        if not self.steps or not self.steps[0] <= step <= self.steps[-1]:
            return None
        return between(step, self.steps, self.values)

    def seconds_at(self, step: float) -> float | None:
        return seconds_at(step, self.analysis, self.steps)

    def first_at(self, loss: float) -> float | None:
        """The first step at which the loss was reached."""
        index = next((i for i, value in enumerate(self.values) if value <= loss), None)
        if index is None or index == 0:
            return None if index is None else float(self.steps[0])
        above, below = self.values[index - 1], self.values[index]
        part = (above - loss) / (above - below)
        return self.steps[index - 1] + part * (self.steps[index] - self.steps[index - 1])


def seconds_at(step: float, analysis: Analysis, evaluated: Sequence[int]) -> float | None:
    """When a run was at a step: start-up, normal steps, and the evaluations at the steps `evaluated`."""
    normal = analysis.timing
    if normal is None:
        return None
    start = sum(cost.total_s for cost in analysis.phase_costs if cost.phase == "startup")
    each = analysis.evals.cost_s if analysis.evals else None
    return start + step * normal.mean_s + (each or 0.0) * sum(1 for other in evaluated if other <= step)


def compare(
    runs: Sequence[Run],
    names: Sequence[str],
    options: Options | None = None,
    analyses: Sequence[Analysis] | None = None,
) -> Comparison:
    """Put two or more runs side by side."""
    analyses = tuple(analyses or (analyse(run, options) for run in runs))
    validated = all(a.evals is not None and a.evals.best_val is not None for a in analyses)
    curves = [_curve(run, a, validated) for run, a in zip(runs, analyses, strict=True)]
    explanations = tuple(e for other in range(1, len(curves)) for e in _explain(curves, 0, other))
    return Comparison(
        names=tuple(names),
        analyses=analyses,
        rows=tuple(_rows(curves, explanations)),
        config=_config_differences(runs),
        explanations=explanations,
        continued=tuple(_continued(curves)),
        speed_ratio=_ratio([a.timing.typical_s if a.timing else None for a in analyses]),
    )


def _curve(run: Run, analysis: Analysis, validated: bool) -> _Curve:
    if validated:
        points = [(e.step, e.val) for e in run.evals if math.isfinite(e.val)]
    else:
        train = Curve.of_training(run)
        window = max(1, len(train.values) // 100)
        points = [
            (train.steps[min(i + window, len(train.steps)) - 1], median(train.values[i : i + window]))
            for i in range(0, len(train.values), window)
        ]
    points.sort()
    return _Curve(run, analysis, [step for step, _ in points], [value for _, value in points], validated)


# --- the table ---


def _rows(curves: list[_Curve], explanations: tuple[Explanation, ...]) -> list[ComparisonRow]:
    why = next((e.reason for e in explanations if e.explains), None)
    ending: RowReason = why if why and why != "noise" else "within_noise"  # type: ignore[assignment]
    analyses = [c.analysis for c in curves]
    equal = _equal_reason(explanations)
    times = [a.timing for a in analyses]
    speed, throughput = _speed_reasons(curves)
    best: RowReason = "fewer_steps" if any(e.reason == "fewer_steps" and e.explains for e in explanations) else equal
    lengths = [c.seconds_at(float(c.steps[-1])) if len(c.steps) else None for c in curves]
    rows = [
        _row("last_step", [_float(a.progress.last_step) for a in analyses], "fewer_steps", highest=True),
        _row("step_time", [t.typical_s if t else None for t in times], speed),
        _row("throughput", [t.throughput_tok_s if t else None for t in times], throughput, highest=True),
        _row("total_time", lengths, speed),
        _row("last_train_loss", [_last_train(a) for a in analyses], ending),
    ]
    if curves[0].of_validation:
        rows.append(_row("last_val_loss", [a.evals.last_val if a.evals else None for a in analyses], ending))
        rows.append(_row("best_val_loss", [a.evals.best_val if a.evals else None for a in analyses], best))
    rows.extend(_at_equal(curves, equal, throughput))
    mfus = [(a.mfu.recomputed or a.mfu.logged) if a.mfu else None for a in analyses]
    rows.append(_row("mfu", mfus, throughput, highest=True))
    return [row for row in rows if sum(value is not None for value in row.values) >= 1]


def _at_equal(curves: list[_Curve], reason: RowReason, throughput: RowReason) -> list[ComparisonRow]:
    """The loss of all runs at the same step, tokens and time, as far as the shortest of them goes."""
    if any(len(c.steps) < 2 for c in curves):
        return []
    rows = []
    common = min(float(c.steps[-1]) for c in curves)
    rows.append(_row("val_at_equal_steps", [c.at(common) for c in curves], reason, at=common))
    tokens = [c.analysis.progress.tokens_per_step for c in curves]
    if all(tokens):
        least = min(float(c.steps[-1]) * (t or 0) for c, t in zip(curves, tokens, strict=True))
        values = [c.at(least / (t or 1)) for c, t in zip(curves, tokens, strict=True)]
        rows.append(_row("val_at_equal_tokens", values, reason, at=least))
    times = [c.seconds_at(float(c.steps[-1])) for c in curves]
    if all(t is not None for t in times):
        shortest = min(t for t in times if t is not None)
        rows.append(_row("val_at_equal_time", [c.at(_step_at(c, shortest)) for c in curves], throughput, at=shortest))
    target = max(min(c.values) for c in curves)
    reached = [c.first_at(target) for c in curves]
    waits = [c.seconds_at(step) if step is not None else None for c, step in zip(curves, reached, strict=True)]
    rows.append(_row("time_to_loss", waits, throughput, at=target))
    return rows


def _step_at(curve: _Curve, seconds: float) -> float:
    """The step at which a run was after so many seconds."""
    low, high = 0.0, float(curve.steps[-1])
    for _ in range(40):
        middle = (low + high) / 2
        if (curve.seconds_at(middle) or 0.0) < seconds:
            low = middle
        else:
            high = middle
    return high


def _row(
    measure: RowMeasure,
    values: list[float | None],
    reason: RowReason,
    at: float | None = None,
    highest: bool = False,
) -> ComparisonRow:
    known = [(value, index) for index, value in enumerate(values) if value is not None]
    best = (max(known) if highest else min(known))[1] if known else None
    if len(known) < len(values):
        reason = "not_in_log"
    elif known and max(known)[0] - min(known)[0] <= (0.002 if "loss" in measure or "val" in measure else 0.02) * abs(
        max(known)[0]
    ):
        reason, best = "same", None
    return ComparisonRow(measure, tuple(values), best, at, reason)


def _equal_reason(explanations: tuple[Explanation, ...]) -> RowReason:
    """Why runs differ where the number of steps is no longer the reason."""
    for reason in ("other_data", "other_model", "other_batch"):
        if any(e.reason == reason for e in explanations):
            return reason
    return "other_settings"


def _speed_reasons(curves: list[_Curve]) -> tuple[RowReason, RowReason]:
    """Why a step, and why a token, takes another time."""
    ends = curves[0].run, curves[-1].run
    if not _differ(*ends, (*MODEL_KEYS, *BATCH_KEYS)):
        return "faster_machine", "faster_machine"
    return "other_model", "faster_machine" if _differ(*ends, DEVICE_KEYS) else "other_model"


# --- what explains the difference ---


def _explain(curves: list[_Curve], one: int, two: int) -> list[Explanation]:
    """What explains the difference of two runs; each explanation is told of the run that it is true of."""
    a, b = curves[one], curves[two]
    found: list[Explanation] = []

    def say(reason: str, explains: bool, of: int = one) -> None:
        other = two if of == one else one
        ends = curves[of].last, curves[other].last
        difference = None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
        found.append(Explanation(reason, explains, of, other, difference))  # type: ignore[arg-type]

    noise = max(x.analysis.evals.noise or 0.0 if x.analysis.evals else 0.0 for x in (a, b))
    if a.last is not None and b.last is not None and abs(a.last - b.last) <= max(2 * noise, 0.002 * abs(a.last)):
        say("noise", True)
    if _differ(a.run, b.run, DATA_KEYS):
        say("other_data", True)
    shorter, longer = sorted((one, two), key=lambda index: curves[index].analysis.progress.last_step or 0)
    steps = [curves[index].analysis.progress.last_step or 0 for index in (shorter, longer)]
    if steps[1] - steps[0] > SAME_STEPS * steps[1]:
        explains = _trained_less(curves[shorter], curves[longer])
        if explains is not None:
            say("fewer_steps", explains, shorter)
    if _differ(a.run, b.run, MODEL_KEYS):
        say("other_model", True)
    if _differ(a.run, b.run, BATCH_KEYS):
        say("other_batch", True)
    for index in (one, two) if two == 1 else (two,):  # the first run's own fault is told once
        if any(isinstance(v, Overfitting) for v in curves[index].analysis.verdicts):
            say("overfitting", True, index)
    # At the same settings and step count, neither the device nor its number format changes what is learnt by much.
    if _differ(a.run, b.run, DEVICE_KEYS):
        say("device", False)
    if _differ(a.run, b.run, ("dtype",)):
        say("precision", False)
    return found


def _trained_less(shorter: _Curve, longer: _Curve) -> bool | None:
    """Whether fewer steps explain a higher loss; None where the shorter run is not behind at all, or nobody knows."""
    if shorter.last is None or longer.last is None:
        return None
    behind = shorter.last - longer.last
    common = min(float(shorter.steps[-1]), float(longer.steps[-1]))
    then = shorter.at(common), longer.at(common)
    if then[0] is None or then[1] is None:
        return True if behind > 0 else None
    if behind <= 0:
        return False if then[0] - then[1] < 0.8 * behind else None
    return then[0] - then[1] < 0.8 * behind


def _differ(a: Run, b: Run, keys: Sequence[str]) -> bool:
    return any(key in a.config and key in b.config and not _alike(a.config[key], b.config[key]) for key in keys)


def _alike(one: ConfigValue, two: ConfigValue) -> bool:
    """Whether two settings are the same; a large number may have been rounded ('10.65M')."""
    if isinstance(one, int | float) and isinstance(two, int | float) and min(one, two) > 100_000:
        return abs(one - two) <= 0.01 * max(one, two)
    return str(one) == str(two)


def _config_differences(runs: Sequence[Run]) -> tuple[ConfigDifference, ...]:
    found = []
    for key in SHOWN_KEYS:
        values: tuple[ConfigValue | None, ...] = tuple(run.config.get(key) for run in runs)
        known = [value for value in values if value is not None]
        if any(not _alike(known[0], value) for value in known[1:]):
            found.append(ConfigDifference(key, values))
    return tuple(found)


# --- if it had gone on ---


def _continued(curves: list[_Curve]) -> list[Continued]:
    longest = max(c.analysis.progress.last_step or 0 for c in curves)
    found = []
    for index, curve in enumerate(curves):
        last = curve.analysis.progress.last_step or 0
        if last and last < (1 - SAME_STEPS) * longest:
            found.append(_extrapolate(index, curve, longest))
    return found


def _extrapolate(index: int, curve: _Curve, to_step: int) -> Continued:
    """Where the run would be, give or take its noise, or why that cannot be told."""
    verdicts = curve.analysis.verdicts
    if any(isinstance(v, Overfitting) for v in verdicts):
        return Continued(index, to_step, None, None, "overfitting")
    if any(isinstance(v, Diverged | NonFinite) for v in verdicts):
        return Continued(index, to_step, None, None, "diverged")
    guesses = extrapolate(list(zip(curve.steps, curve.values, strict=True)), to_step)
    if guesses is None:
        return Continued(index, to_step, None, None, "too_short" if curve.of_validation else "no_evaluations")
    noise = curve.analysis.evals.noise or 0.0 if curve.analysis.evals else 0.0
    doubt = max(noise, 0.01 * curve.values[-1])
    return Continued(index, to_step, max(0.0, min(guesses) - doubt), max(guesses) + doubt, None)


def _last_train(analysis: Analysis) -> float | None:
    evaluated = analysis.evals.last_train if analysis.evals else None
    return evaluated if evaluated is not None else analysis.train_loss.smoothed_last


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _ratio(values: list[float | None]) -> float | None:
    return values[1] / values[0] if len(values) > 1 and values[0] and values[1] else None
