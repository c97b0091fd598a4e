"""One of several runs that are compared: its settings, which of them matter to what is learnt, and its data."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.declared.base import Confidence, Finding
from nanoscope.messages import Message, Said, printable
from nanoscope.runs.run import NOT_FINITE, ConfigValue, Run

KINDS = tomllib.loads(Path(__file__).with_name("settings.toml").read_text("utf-8"))
NOT_LEARNT = {*KINDS["bookkeeping"], *KINDS["not_learnt"], "seed"}
ROUNDED_ABOVE = 100_000  # such numbers may have been rounded ('10.65M')
ALL_SETTINGS = 20  # a log that shows so many shows all
MANY_SETTINGS = 8  # in common, of those that can change what is learnt: another difference is unlikely to be hidden
PADDING = 128  # vocabularies are often rounded up to a multiple of this
SAME_SIZE = 0.001
OTHER_START = 0.5  # nats between the losses of two untrained models: other vocabularies

Setting = tuple[str, str]  # name and value


class Compared(Finding):
    """Base of what is said about several runs. Runs are numbers: their places in the comparison."""

    confidence: Confidence = field(default="likely", kw_only=True)

    def said(self, names: Sequence[str]) -> Said:
        """One or a few sentences about runs of these names."""
        return self.text()


REASONS = {
    "unit": Message("The losses of {run} and {other} can't be compared: one is in bits per byte, the other per token."),
    "bits": Message("The losses of {run} and {other} can't be compared: one is in bits, the other in nats."),
    "vocabulary": Message(
        "The losses of {run} and {other} can't be compared: their vocabularies have {one} and {two} tokens."
    ),
    "data": Message("The losses of {run} and {other} can't be compared: they learn from different data."),
    "start": Message(
        "The losses of {run} and {other} probably can't be compared: they begin at {one} and {two}, so "
        "their vocabularies or initial weights differ."
    ),
}


class NotComparable(Compared):
    """The losses of `run` and `other` are not of the same data, tokenizer or unit."""

    run: int
    other: int
    reason: Literal["unit", "bits", "vocabulary", "data", "start"]
    values: tuple[str, ...]  # what differs, where it can be told

    def said(self, names: Sequence[str]) -> Said:
        shown = dict(zip(("one", "two"), self.values, strict=False))
        return Message(REASONS[self.reason].template, run=names[self.run], other=names[self.other], **shown)


class UnknownData(Compared):
    """The logs do not say what the runs learn from."""

    runs: tuple[int, ...]

    TEXT = Message(
        "The logs don't say what the runs learn from. Their losses can be compared only if it is the same text and "
        "tokenizer."
    )


@dataclass(eq=False, repr=False)
class ComparedRun:
    """A run, its findings and its settings; `index` is its number in the comparison."""

    index: int
    run: Run
    analysis: Analysis

    @cached_property
    def settings(self) -> Mapping[str, ConfigValue]:
        """With what 'auto' turned out to be, and what a resume changed."""
        results = {"tokens_per_step": self.analysis.progress.tokens_per_step, "trainer": self.run.format}
        settings = self.run.config | {key: value for key, value in results.items() if value}
        settings = {key: value for key, value in settings.items() if key not in KINDS["results"] or value}
        if self.run.details:
            start = self.run.details.start
            device = str(start.device_name) if start.device_name else None
            resolved = {"dtype": start.dtype, "compile": start.compiled, "device_name": device}
            settings |= {key: value for key, value in resolved.items() if value is not None}
            for resume in self.run.details.resumes:
                changed = ((key, f"{written(was)} → {written(now)}") for key, (was, now) in resume.changed.items())
                settings |= {key: value for key, value in changed if key not in NOT_LEARNT}
        # Sentences will quote them.
        return {printable(key): printable(v) if isinstance(v, str) else v for key, v in settings.items()}

    @cached_property
    def printed(self) -> dict[tuple[str, int], float]:
        """Its losses, as printed."""
        evals = {("val", e.step): e.val for e in self.run.evals if e.step > 0}
        return evals | {("train", at): loss for at, loss in zip(self.run.steps.step, self.run.steps.loss, strict=True)}

    @property
    def last_step(self) -> int:
        return self.analysis.progress.last_step or 0

    @property
    def is_broken(self) -> bool:
        """Whether it ended with a loss that is not finite."""
        return NOT_FINITE in (*self.run.steps.loss[-1:], *(e.val for e in self.run.evals[-1:]))

    @property
    def fingerprint(self) -> str | None:
        return self.run.details.start.dataset_fingerprint if self.run.details else None

    @property
    def dataset(self) -> str:
        return _last_part(str(self.settings.get("dataset", "")).replace("\\", "/"))

    def size(self, key: str) -> int:
        """A number of tokens; 0 if it is unknown."""
        value = self.settings.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    @property
    def first_loss(self) -> float | None:
        """The loss before training, where the log begins with it."""
        if self.run.begins_with_resume or "init_from" in self.settings:
            return None
        evaluated = [e.val for e in self.run.evals[:1] if e.step == 0]
        printed = list(self.run.steps.loss[:1]) if self.run.steps and self.run.steps.step[0] <= 1 else []
        return next(filter(math.isfinite, evaluated + printed), None)


Group = Sequence[ComparedRun]


# --- the data ---


def obstacle(one: ComparedRun, two: ComparedRun) -> NotComparable | None:
    """Why the losses of two runs cannot be ranked; None if nothing speaks against it."""

    def because(reason: str, *values: object) -> NotComparable:
        return NotComparable(one.index, two.index, reason, tuple(map(str, values)))  # type: ignore[arg-type]

    if len({each.analysis.evals.metric for each in (one, two) if each.analysis.evals}) > 1:
        return because("unit")
    if len({each.run.loss_in_bits for each in (one, two) if each.analysis.train_loss.first is not None}) > 1:
        return because("bits")
    if one.fingerprint and two.fingerprint:
        return None if one.fingerprint == two.fingerprint else because("data")
    vocabularies = one.size("vocab_size"), two.size("vocab_size")
    low, high = sorted(vocabularies)
    padded = high % 64 == 0 and high - low < PADDING < low
    if low and low != high and not padded:
        return because("vocabulary", *vocabularies)
    sizes = one.size("train_tokens"), two.size("train_tokens")
    if all(sizes):
        return None if math.isclose(*sizes, rel_tol=SAME_SIZE) else because("data")
    # As many different characters, by chance, in two texts: possible, but rare.
    same_characters = 0 < low == high and low not in KINDS["common_vocabularies"]
    if one.dataset and two.dataset and one.dataset != two.dataset and not same_characters:
        return because("data")
    starts = one.first_loss, two.first_loss
    if not low and starts[0] and starts[1] and abs(starts[0] - starts[1]) > OTHER_START:
        return because("start", f"{starts[0]:.2f}", f"{starts[1]:.2f}")
    return None


def knows_data(group: Group) -> bool:
    """Whether something says what each run learns from; a vocabulary of characters is nearly a fingerprint."""
    vocabularies = {each.size("vocab_size") for each in group}
    if len(vocabularies) == 1 and not vocabularies & {0, *KINDS["common_vocabularies"]}:
        return True
    return all(each.dataset or each.fingerprint or each.size("train_tokens") for each in group)


# --- the settings ---


def learning_factors(runs: Group) -> list[str]:
    """The settings that differ and can change what is learnt, without those that only follow from others."""
    keys = dict.fromkeys(key for each in runs for key in each.settings if key not in NOT_LEARNT)
    differing = [key for key in keys if differs(runs, key)]
    split = [key for key in differing if key in KINDS["split"]]
    tokens = [each.settings.get("tokens_per_step") for each in runs]
    if None not in tokens and (len(split) > 1 or len(set(tokens)) == 1):
        # How the tokens of a step are split up does not change what is learnt from them.
        differing = [key for key in differing if key not in split]
    return [key for key in differing if not _follows(key, set(differing) - {key}, runs)]


def _follows(key: str, others: set[str], runs: Group) -> bool:
    """Whether a setting differs only because another one does."""
    leader = KINDS["leaders"].get(key)
    if not others.isdisjoint(KINDS["follows"].get(key, ())):
        return True
    if leader not in others:
        return False
    pairs = [(each.settings.get(key), each.settings.get(leader)) for each in runs]
    if not all(isinstance(value, int | float) and value for pair in pairs for value in pair):
        return False
    ratios: list[float] = [a / b for a, b in pairs]  # type: ignore[operator]
    return max(ratios) - min(ratios) <= 1e-6 * max(ratios)


def differs(runs: Group, key: str) -> bool:
    """Whether the runs that state a setting state different values."""
    known = [each.settings[key] for each in runs if key in each.settings]
    return any(not _alike(known[0], value) for value in known[1:])


def _alike(one: ConfigValue, two: ConfigValue) -> bool:
    """Whether two values are the same; a large number may have been rounded."""
    numbers = [value for value in (one, two) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == 2:
        return math.isclose(*numbers, rel_tol=0.01 if min(numbers) > ROUNDED_ABOVE else 1e-9)
    return _last_part(one) == _last_part(two)


def _last_part(path: ConfigValue) -> str:
    return str(path).rstrip("/").rsplit("/", 1)[-1]


def shows_all(runs: Group) -> bool:
    return all(len(each.settings) >= ALL_SETTINGS for each in runs)


def shows_enough(runs: Group) -> bool:
    """Whether a setting that the logs don't show is unlikely to differ."""
    common = set.intersection(*({*each.settings} - NOT_LEARNT for each in runs))
    return len({each.run.format for each in runs}) == 1 and (shows_all(runs) or len(common) >= MANY_SETTINGS)


def written(value: Any) -> str:
    """A value as one types it; empty if it is not known."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def value_of(run: ComparedRun, factor: str) -> str:
    return written(run.settings.get(factor))


def settings_in(factors: Sequence[str], run: ComparedRun) -> tuple[Setting, ...]:
    return tuple((factor, value_of(run, factor)) for factor in factors if factor in run.settings)
