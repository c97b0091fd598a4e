"""The search for the fastest way to carry out a run on this machine: one setting at a time, then all of them at once.

Each candidate takes turns with the best settings so far. What seems faster is believed only after a longer trial of
all changes together against the settings as they were, in fresh processes: two processes with the same settings differ
by a few percent for as long as they live, which turns alone don't show. `Rig` is a process that trains on demand
(tuning_rig.py); tests use made-up ones.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import mean, median
from typing import Protocol

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError
from nanoscope.hardware.probe import ProbeResult
from nanoscope.messages import Text
from nanoscope.planning.tuning_budget import (
    FEWEST_FRESH_PAIRS,
    FEWEST_PAIRS,
    FRESH_PAIRS,
    ROUND_SECONDS,
    Budget,
    name_of,
)
from nanoscope.planning.tuning_candidates import (
    MARGIN,
    SPARE_MEMORY,
    Direction,
    Facts,
    Kind,
    Length,
    Settings,
    candidates,
)
from nanoscope.planning.tuning_pairs import Gain, gain_of, verdict
from nanoscope.planning.tuning_result import Figures, Trial, Tuned, describe, flags

MOST_PAIRS = 8
MOST_FRESH_PAIRS = 6
HOPELESS = -0.15  # a gain like this, in one pair, needs no second one


class RigError(JobError):
    """Settings that cannot be measured: they crash, don't fit into memory, or fall back to others."""


class Rig(Protocol):
    facts: Facts

    def measure(self, kind: Kind, seconds: float) -> float:
        """Seconds of an iteration, or of an evaluation, from about so many seconds of it. Raises RigError."""

    @property
    def memory_bytes(self) -> int:
        """The most it has used so far."""

    def close(self) -> None: ...


def no_report(text: Text) -> None:
    """Say nothing."""


class Tuner:
    def __init__(
        self,
        config: TrainConfig,
        open_rig: Callable[[TrainConfig], Rig],
        *,
        seconds: float,
        fixed: Iterable[str] = (),
        logical_cores: int = 1,
        probe: Callable[[], ProbeResult] | None = None,
        report: Callable[[Text], None] = no_report,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.fixed, self.cores = config, frozenset(fixed), logical_cores
        self.length = Length.of(config)
        self.best: Settings = {}
        self._open_rig, self._probe, self._report, self._now = open_rig, probe, report, now
        self._rigs: dict[str, Rig] = {}
        self._budget = Budget(config, seconds, now)
        self._seconds: dict[Kind, float] = {"step": 0.0, "eval": 0.0}  # of the best settings so far

    def run(self) -> Tuned:
        """Search, confirm and return what was found. Ctrl-C returns what is confirmed by then, or is raised."""
        try:
            return self._run()
        finally:
            self._close_all()

    def _run(self) -> Tuned:
        self._report(Text("measuring the settings as they are"))
        try:
            rig = self._rig({})
            self._seconds = {kind: self._measure({}, kind) for kind in ("step", "eval")}
        except RigError as error:
            raise JobError("the settings can't be measured here: {reason}", reason=error.text) from None
        self.tuned = Tuned(
            rig.facts, self._figures(self._seconds["step"], self._seconds["eval"], rig), rig.facts.available_bytes
        )
        self._report(
            Text(
                "{step:seconds3} an iteration, {evaluation:seconds2} an evaluation",
                step=self._seconds["step"],
                evaluation=self._seconds["eval"],
            )
        )
        self._explore_all()
        self._confirm()
        return self._finished()

    def _finished(self) -> Tuned:
        self.tuned.seconds = self._budget.spent
        return self.tuned

    # The search.

    def _explore_all(self) -> None:
        on_cpu = self.tuned.facts.device == "cpu"
        found = candidates(
            self.config,
            self.tuned.facts,
            self.fixed,
            self._seconds["step"],
            self._seconds["eval"],
            logical_cores=self.cores,
            memory_bytes=self.tuned.memory_bytes,
            sixteen_bits=self._probe() if on_cpu and self._probe and "dtype" not in self.fixed else None,
        )
        needed = min((self._budget.to_try({}, each.steps[0]) for each in found.directions), default=0.0)
        if needed > self._budget.left:
            self.tuned.too_slow = Text(
                "comparing settings takes longer than {seconds:duration} here; use --minutes={minutes:.0f}",
                seconds=self._budget.seconds,
                minutes=(self._budget.spent + 3 * needed) / 60 + 0.5,
            )
        for direction in found.directions:
            if not set(direction.steps[0]) & set(self.best):  # the other way brought something already
                self._explore(direction)
        self.tuned.trials += [Trial(each.settings, reason=each.reason) for each in found.skipped]

    def _explore(self, direction: Direction) -> None:
        for settings in direction.steps:
            if self._budget.left < self._budget.to_try(self.best, {**self.best, **settings}):
                self.tuned.trials.append(
                    Trial(
                        settings,
                        reason=Text("not tried: it takes longer than the time that is left; allow more with --minutes"),
                    )
                )
                return
            trial = self._try(settings, direction)
            self.tuned.trials.append(trial)
            self._report(describe(trial))
            if trial.reason is not None:
                return
            self.best = {**self.best, **settings}

    def _try(self, settings: Settings, direction: Direction) -> Trial:
        candidate = {**self.best, **settings}
        self._report(Text("trying {settings}", settings=flags(settings)))
        try:
            rig = self._rig(candidate)
            self._check(settings, rig)
            after, gain = self._pairs(candidate, direction)
            self._check(settings, rig)
        except RigError as error:
            self._close_all(but=[self.best])
            return Trial(settings, reason=error.text)
        trial = Trial(settings, gain, self._objection(gain, direction.margin))
        self._close_all(but=[self.best if trial.reason else candidate])
        if trial.reason is None:
            self._seconds[direction.kind] = after[-1]
        return trial

    def _pairs(self, candidate: Settings, direction: Direction) -> tuple[list[float], Gain]:
        """What the candidate took each time, and its gain."""
        kind, pairs, after = direction.kind, list[tuple[float, float]](), list[float]()
        long = self._budget.is_long(self.best, candidate)
        while True:
            before = self._seconds[kind] if long else self._measure(self.best, kind)
            after.append(self._measure(candidate, kind))
            pairs.append((self._run_seconds(self.best, kind, before), self._run_seconds(candidate, kind, after[-1])))
            gain = gain_of(pairs)
            enough = len(pairs) >= FEWEST_PAIRS and verdict(gain, direction.margin) != "unsure"
            if (
                enough
                or long
                or gain.share < HOPELESS
                or len(pairs) == MOST_PAIRS
                or self._budget.left < self._budget.to_confirm(candidate)
            ):
                self._seconds[kind] = before
                return after, gain

    def _objection(self, gain: Gain, margin: float) -> Text | None:
        """Why a change is not kept, if it isn't. A single pair has no noise to compare with, so it must save more."""
        if gain.share >= 2 * margin if gain.pairs == 1 else verdict(gain, margin) == "faster":
            return None
        if gain.high < 0 or (gain.pairs == 1 and gain.share < 0):
            return Text("slower")
        if gain.low > 0 or gain.high < margin:
            return Text("it saves less than {margin:.0%} of the run", margin=margin)
        return Text("not faster by more than the noise")

    def _check(self, settings: Settings, rig: Rig) -> None:
        """Refuse what was replaced by something else on this machine, or leaves too little memory."""
        facts = rig.facts
        used = {"dtype": facts.dtype, "compile": facts.compiled}
        if any(settings.get(key, value) != value for key, value in used.items()):
            raise RigError(Text("it does not work here: {problem}", problem=facts.note or "?"))
        if rig.memory_bytes > (1 - SPARE_MEMORY) * self.tuned.memory_bytes:
            raise RigError(
                Text(
                    "it leaves less than a tenth of the memory: {need:.1f} of {available:.1f} GB",
                    need=rig.memory_bytes / 1e9,
                    available=self.tuned.memory_bytes / 1e9,
                )
            )

    # The confirmation.

    def _confirm(self) -> None:
        """Compare all changes together with the settings as they were; if that fails, the best change alone."""
        kept = [trial for trial in self.tuned.trials if trial.reason is None]
        strongest = max(kept, key=lambda trial: trial.gain.share if trial.gain else 0.0, default=None)
        for settings in [self.best, strongest.settings] if strongest and len(kept) > 1 else [self.best]:
            if not settings or self._budget.left < FEWEST_FRESH_PAIRS * self._budget.of_a_fresh_pair(settings):
                continue
            self._report(Text("confirming {settings}", settings=flags(settings)))
            if self._confirmed(settings):
                self._withdraw(settings)
                return
        self._withdraw({})

    def _withdraw(self, settings: Settings) -> None:
        """What seemed faster but is not in the settings is said to be not confirmed."""
        self.tuned.trials = [
            replace(trial, reason=Text("not confirmed"))
            if trial.reason is None and not trial.settings.items() <= settings.items() and not self._passed(trial)
            else trial
            for trial in self.tuned.trials
        ]

    def _passed(self, trial: Trial) -> bool:
        """Whether a change was a step on the way to a confirmed one."""
        return bool(self.tuned.settings) and set(trial.settings) <= set(self.tuned.settings)

    def _confirmed(self, settings: Settings) -> bool:
        pairs: list[tuple[float, float]] = []
        sides: list[tuple[Figures, Figures]] = []
        try:
            while len(pairs) < MOST_FRESH_PAIRS:
                seen = len(pairs) >= FRESH_PAIRS and verdict(gain_of(pairs), MARGIN) != "unsure"
                if seen or (
                    len(pairs) >= FEWEST_FRESH_PAIRS and self._budget.left < self._budget.of_a_fresh_pair(settings)
                ):
                    break
                sides.append(self._fresh_pair(settings, swapped=len(pairs) % 2 == 1))
                pairs.append((sides[-1][0].run_seconds, sides[-1][1].run_seconds))
        except RigError as error:
            self._report(error.text)
            return False
        except KeyboardInterrupt:
            if len(pairs) < FEWEST_FRESH_PAIRS or verdict(gain_of(pairs), MARGIN) != "faster":
                raise
            self.tuned.interrupted = True
        gain = gain_of(pairs)
        if len(pairs) < FEWEST_FRESH_PAIRS or verdict(gain, MARGIN) != "faster":
            return False
        self.tuned.settings, self.tuned.confirmed = settings, gain
        self.tuned.default, self.tuned.tuned = (_mean_figures(side) for side in zip(*sides, strict=True))
        return True

    def _fresh_pair(self, settings: Settings, *, swapped: bool) -> tuple[Figures, Figures]:
        """Both ways in new processes, in turns: what each takes."""
        self._close_all()
        order: list[Settings] = [settings, {}] if swapped else [{}, settings]
        found: dict[tuple[str, Kind], list[float]] = defaultdict(list)
        for _ in range(self._budget.rounds(settings)):
            for each in order:
                found[name_of(each), "step"].append(self._measure(each, "step"))
        for each in order:
            found[name_of(each), "eval"].append(self._measure(each, "eval"))
        self.tuned.compile_seconds = self._rig(settings).facts.compile_seconds
        steps = found[name_of({}), "step"], found[name_of(settings), "step"]
        usual = median(steps[0])
        ratio = median(new / old for old, new in zip(*steps, strict=True))  # of neighbours, which saw the same machine
        before = self._figures(usual, found[name_of({}), "eval"][0], self._rig({}))
        after = self._figures(usual * ratio, found[name_of(settings), "eval"][0], self._rig(settings))
        self._close_all()
        return before, after

    def _figures(self, step: float, evaluation: float, rig: Rig) -> Figures:
        seconds = self.length.seconds(step, evaluation, rig.facts.compile_seconds)
        return Figures(step, evaluation, seconds, rig.memory_bytes)

    # Processes, and the time they take.

    def _rig(self, settings: Settings) -> Rig:
        """A process with these settings: one that is there, or a new one, for which others may have to go."""
        if (rig := self._rigs.get(name_of(settings))) is not None:
            return rig
        config = replace(self.config, **settings)
        if self._rigs:
            default = self.tuned.facts
            more = max(config.batch_size - self.config.batch_size, 0) * default.sequence_bytes
            used = sum(each.memory_bytes for each in self._rigs.values())
            if used + self.tuned.default.memory_bytes + more > (1 - SPARE_MEMORY) * self.tuned.memory_bytes:
                self._close_all()
        began = self._now()
        rig = self._rigs[name_of(settings)] = self._open_rig(config)
        if "compile" not in settings:
            self._budget.open_seconds, self._budget.threads = self._now() - began, max(rig.facts.threads, 1)
        return rig

    def _measure(self, settings: Settings, kind: Kind) -> float:
        rig, began = self._rig(settings), self._now()
        try:
            return rig.measure(kind, ROUND_SECONDS)
        except RigError:
            self._close_all()
            raise
        finally:
            self._budget.took(settings, kind, self._now() - began)

    def _run_seconds(self, settings: Settings, kind: Kind, seconds: float) -> float:
        each = {**self._seconds, kind: seconds}
        return self.length.seconds(each["step"], each["eval"], self._rig(settings).facts.compile_seconds)

    def _close_all(self, but: Iterable[Settings] = ()) -> None:
        kept = {name_of(settings) for settings in but}
        for name in [name for name in self._rigs if name not in kept]:
            self._rigs.pop(name).close()


def _mean_figures(side: Iterable[Figures]) -> Figures:
    each = list(side)
    return Figures(
        mean(one.step_seconds for one in each),
        mean(one.eval_seconds for one in each),
        mean(one.run_seconds for one in each),
        max(one.memory_bytes for one in each),
    )
