"""The search for the fastest way to carry out a run on this machine: one setting at a time, then all of them at once.

Each candidate takes turns with the best settings so far. What seems faster is believed only after a longer trial of
all changes together against the settings as they were, in fresh processes: two processes with the same settings differ
by a few percent for as long as they live, which turns alone don't show. `Rig` is a process that trains on demand
(tuning_rig.py); tests use made-up ones.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Protocol

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError
from nanoscope.hardware.probe import ProbeResult
from nanoscope.messages import Text
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

FEWEST_PAIRS, MOST_PAIRS = 3, 8
ROUND_SECONDS = 0.5  # of one measurement; one micro-batch and one update at least
LONG_SECONDS = 15.0  # a pair that takes longer is not repeated: the confirmation does that
FRESH_PAIRS, MOST_FRESH_PAIRS = 3, 6  # of processes, to confirm
FEWEST_FRESH_PAIRS = 2  # where each takes long
ROUNDS = 4  # of each process in the confirmation


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


@dataclass(frozen=True)
class Trial:
    """One change that was tried, or was not for a reason."""

    settings: Settings
    gain: Gain | None = None
    """Of the whole run's time, against the best settings before it."""
    reason: Text | None = None
    """Why it is not used; None if it is."""


@dataclass(frozen=True)
class Figures:
    """What a configuration takes on this machine."""

    step_seconds: float
    eval_seconds: float
    run_seconds: float
    memory_bytes: int


@dataclass
class Tuned:
    """What came of it. `settings` are the changes that were confirmed: none if the settings are the fastest found."""

    facts: Facts
    default: Figures
    memory_bytes: int
    """What the run can have."""
    settings: Settings = field(default_factory=dict)
    tuned: Figures | None = None
    confirmed: Gain | None = None
    """Of all changes together, from the confirmation alone."""
    compile_seconds: float = 0.0
    """What compiling takes, if it was chosen: counted in the run's time."""
    trials: list[Trial] = field(default_factory=list)
    too_slow: Text | None = None
    """Why nothing could be compared."""
    seconds: float = 0.0
    interrupted: bool = False


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
        self.config, self.seconds, self.fixed, self.cores = config, seconds, frozenset(fixed), logical_cores
        self.length = Length.of(config)
        self.best: Settings = {}
        self._open_rig, self._probe, self._report, self._now = open_rig, probe, report, now
        self._rigs: dict[str, Rig] = {}
        self._began = now()
        self._open_seconds = 0.0
        self._seconds: dict[Kind, float] = {"step": 0.0, "eval": 0.0}  # of the best settings so far
        self._cost: dict[Kind, float] = {"step": ROUND_SECONDS, "eval": ROUND_SECONDS}
        self._margins: dict[str, float] = {}

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
        self.tuned = Tuned(rig.facts, self._figures([self._seconds], rig), rig.facts.available_bytes)
        self._report(
            Text(
                "{step:seconds3} an iteration, {evaluation:seconds2} an evaluation",
                step=self._seconds["step"], evaluation=self._seconds["eval"],
            )
        )  # fmt: skip
        if (needed := self._pair_seconds() + self._confirming_seconds()) > self._left():
            minutes = (self._now() - self._began + 3 * needed) / 60
            self.tuned.too_slow = Text(
                "an iteration takes {step:duration} here, too long to compare settings in {seconds:duration}: "
                "use --minutes={minutes:.0f}",
                step=self._seconds["step"], seconds=self.seconds, minutes=minutes + 0.5,
            )  # fmt: skip
            return self._finished()
        self._explore_all()
        self._confirm()
        return self._finished()

    def _finished(self) -> Tuned:
        self.tuned.seconds = self._now() - self._began
        return self.tuned

    # The search.

    def _explore_all(self) -> None:
        on_cpu = self.tuned.facts.device == "cpu"
        found = candidates(
            self.config, self.tuned.facts, self.fixed, self._seconds["step"], self._seconds["eval"],
            logical_cores=self.cores, memory_bytes=self.tuned.memory_bytes,
            sixteen_bits=self._probe() if on_cpu and self._probe and "dtype" not in self.fixed else None,
        )  # fmt: skip
        for direction in found.directions:
            if not set(direction.steps[0]) & set(self.best):  # the other way brought something already
                self._explore(direction)
        self.tuned.trials += [Trial(each.settings, reason=each.reason) for each in found.skipped]

    def _explore(self, direction: Direction) -> None:
        for settings in direction.steps:
            if self._left() < self._pair_seconds() + self._confirming_seconds():
                self.tuned.trials.append(Trial(settings, reason=Text("not tried: no time left")))
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
            pairs, gain = self._pairs(candidate, direction)
            self._check(settings, rig)
        except RigError as error:
            return Trial(settings, reason=error.text)
        finally:
            self._close_all(but=[self.best, candidate])
        trial = Trial(settings, gain, self._objection(gain, direction.margin))
        loser = candidate if trial.reason else self.best
        self._close_all(but=[self.best if trial.reason else candidate])
        if loser is not candidate:
            self._seconds[direction.kind] = pairs[-1]
        return trial

    def _pairs(self, candidate: Settings, direction: Direction) -> tuple[list[float], Gain]:
        """What the candidate took each time, and its gain."""
        kind, pairs, after = direction.kind, list[tuple[float, float]](), list[float]()
        while True:
            before = self._measure(self.best, kind)
            after.append(self._measure(candidate, kind))
            pairs.append((self._run_seconds(self.best, kind, before), self._run_seconds(candidate, kind, after[-1])))
            gain = gain_of(pairs)
            enough = len(pairs) >= FEWEST_PAIRS and verdict(gain, direction.margin) != "unsure"
            long = 2 * self._cost[kind] > LONG_SECONDS
            if enough or long or len(pairs) == MOST_PAIRS or self._left() < self._confirming_seconds():
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
        used = {"dtype": rig.facts.dtype, "compile": rig.facts.compiled}
        if any(settings.get(key, value) != value for key, value in used.items()):
            raise RigError(rig.facts.note or Text("it does not work here"))
        if rig.memory_bytes > (1 - SPARE_MEMORY) * self.tuned.memory_bytes:
            raise RigError(
                "it leaves less than a tenth of the memory: {need:.1f} of {available:.1f} GB",
                need=rig.memory_bytes / 1e9, available=self.tuned.memory_bytes / 1e9,
            )  # fmt: skip

    # The confirmation.

    def _confirm(self) -> None:
        """Compare all changes together with the settings as they were; if that fails, the best change alone."""
        kept = [trial for trial in self.tuned.trials if trial.reason is None]
        strongest = max(kept, key=lambda trial: trial.gain.share if trial.gain else 0.0, default=None)
        for settings in [self.best, strongest.settings] if strongest and len(kept) > 1 else [self.best]:
            if not settings or self._left() < self._confirming_seconds(FEWEST_FRESH_PAIRS):
                continue
            self._report(Text("confirming {settings}", settings=flags(settings)))
            if self._confirmed(settings):
                self._withdraw(settings)
                return
        self._withdraw({})

    def _withdraw(self, settings: Settings) -> None:
        """What seemed faster but is not in the settings is said to be not confirmed."""
        self.tuned.trials = [
            replace(trial, reason=Text("not confirmed by the longer trial"))
            if trial.reason is None and not trial.settings.items() <= settings.items() and not self._passed(trial)
            else trial
            for trial in self.tuned.trials
        ]  # fmt: skip

    def _passed(self, trial: Trial) -> bool:
        """Whether a change was a step on the way to a confirmed one."""
        return bool(self.tuned.settings) and set(trial.settings) <= set(self.tuned.settings)

    def _confirmed(self, settings: Settings) -> bool:
        pairs: list[tuple[float, float]] = []
        sides: list[tuple[Figures, Figures]] = []
        try:
            while len(pairs) < MOST_FRESH_PAIRS:
                seen = len(pairs) >= FRESH_PAIRS and verdict(gain_of(pairs), MARGIN) != "unsure"
                if seen or (len(pairs) >= FEWEST_FRESH_PAIRS and self._left() < self._fresh_seconds()):
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
        found: dict[str, list[dict[Kind, float]]] = {_name(each): [] for each in order}
        rounds = 1 if 2 * self._cost["step"] > LONG_SECONDS else ROUNDS
        for _ in range(rounds):
            for each in order:
                found[_name(each)].append({kind: self._measure(each, kind) for kind in ("step", "eval")})
        self.tuned.compile_seconds = self._rig(settings).facts.compile_seconds
        before, after = (self._figures(found[_name(each)], self._rig(each)) for each in ({}, settings))
        self._close_all()
        return before, after

    def _figures(self, rounds: list[dict[Kind, float]], rig: Rig) -> Figures:
        step, evaluation = (mean(each[kind] for each in rounds) for kind in ("step", "eval"))
        seconds = self.length.seconds(step, evaluation, rig.facts.compile_seconds)
        return Figures(step, evaluation, seconds, rig.memory_bytes)

    # Processes, and the time they take.

    def _rig(self, settings: Settings) -> Rig:
        """A process with these settings: one that is there, or a new one, for which others may have to go."""
        if (rig := self._rigs.get(_name(settings))) is not None:
            return rig
        config = replace(self.config, **settings)
        if self._rigs:
            default = self.tuned.facts
            more = max(config.batch_size - self.config.batch_size, 0) * default.sequence_bytes
            used = sum(each.memory_bytes for each in self._rigs.values())
            if used + self.tuned.default.memory_bytes + more > (1 - SPARE_MEMORY) * self.tuned.memory_bytes:
                self._close_all()
        began = self._now()
        rig = self._rigs[_name(settings)] = self._open_rig(config)
        if not rig.facts.compiled:
            self._open_seconds = self._now() - began
        return rig

    def _measure(self, settings: Settings, kind: Kind) -> float:
        rig, began = self._rig(settings), self._now()
        try:
            return rig.measure(kind, ROUND_SECONDS)
        except RigError:
            self._close_all()
            raise
        finally:
            self._cost[kind] = self._now() - began

    def _run_seconds(self, settings: Settings, kind: Kind, seconds: float) -> float:
        each = {**self._seconds, kind: seconds}
        return self.length.seconds(each["step"], each["eval"], self._rig(settings).facts.compile_seconds)

    def _left(self) -> float:
        return self.seconds - (self._now() - self._began)

    def _pair_seconds(self) -> float:
        """What comparing one candidate takes at least."""
        pair = 2 * self._cost["step"]
        return self._open_seconds + (pair if pair > LONG_SECONDS else FEWEST_PAIRS * pair)

    def _fresh_seconds(self) -> float:
        pair = 2 * (self._cost["step"] + self._cost["eval"])
        return 2 * self._open_seconds + (pair if pair > LONG_SECONDS else ROUNDS * pair)

    def _confirming_seconds(self, pairs: int | None = None) -> float:
        long = 2 * self._cost["step"] > LONG_SECONDS
        return (pairs or (FEWEST_FRESH_PAIRS if long else FRESH_PAIRS)) * self._fresh_seconds()

    def _close_all(self, but: Iterable[Settings] = ()) -> None:
        kept = {_name(settings) for settings in but}
        for name in [name for name in self._rigs if name not in kept]:
            self._rigs.pop(name).close()


def flags(settings: Settings) -> str:
    """Settings as they are typed."""
    return " ".join(f"--{key}={value}" for key, value in settings.items())


def describe(trial: Trial) -> Text:
    """A trial in one line."""
    settings = flags(trial.settings)
    if trial.gain is None:
        return Text("{settings}: {reason}", settings=settings, reason=trial.reason)
    gain = described(trial.gain)
    if trial.reason is None:
        return Text("{settings}: {gain}", settings=settings, gain=gain)
    return Text("{settings}: {gain}; {reason}", settings=settings, gain=gain, reason=trial.reason)


def described(gain: Gain) -> Text:
    """A gain in words, with its error."""
    share, error = abs(gain.share), gain.error
    if gain.pairs == 1:
        if gain.share < 0:
            return Text("about {share:.1%} longer (one pair)", share=share)
        return Text("about {share:.1%} shorter (one pair)", share=share)
    if gain.share < 0:
        return Text("{share:.1%} ± {error:.1%} longer", share=share, error=error)
    return Text("{share:.1%} ± {error:.1%} shorter", share=share, error=error)


def _name(settings: Settings) -> str:
    return flags(dict(sorted(settings.items())))


def _mean_figures(side: Iterable[Figures]) -> Figures:
    each = list(side)
    return Figures(
        mean(one.step_seconds for one in each), mean(one.eval_seconds for one in each),
        mean(one.run_seconds for one in each), max(one.memory_bytes for one in each),
    )  # fmt: skip
