"""`nanoscope tune` and `train --tune`: search for the fastest way to carry out a run on this machine. Imports no torch.

One setting after another is changed and measured in turns with the best so far, each in a process of its own. Two
processes with the same settings differ by a percent or two for as long as they live, so what seems faster is used only
if all changes together are faster again, in pairs of new processes.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import psutil

from nanoscope.child import ChildError
from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.data.find import find_dataset
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message, joined
from nanoscope.paired import Difference, settle
from nanoscope.planning.rig import Facts, Figures, Rig

Settings = dict[str, Any]
KINDS = "threads", "smaller", "larger", "dtype", "compile", "evaluations"
MINUTES = 2.0
SEARCH_SHARE = 0.6  # of the time; the rest is for the confirmation
SECONDS = 0.5  # of a measurement
ROUNDS = 3  # of a pair of new processes: the median of the pairs counts
PAIRS, FRESH_PAIRS = (3, 5, 8), (3, 6)
CONFIDENCE = 0.95
MARGIN, DTYPE_MARGIN = 0.02, 0.05  # of the run's time: less is not worth a change; 16 bits round differently
HOPELESS = -0.15  # a gain like this, in one pair, needs no second one
FACTOR = 1.6  # between the micro-batches that are tried: halves, or what comes near
COMPILE_PAYS = 50.0  # seconds of iterations: compiling takes about 20 and saves at most some 40 %
EVAL_SHARE = 0.04  # of the run: evaluations that take less can't be made faster by enough


@dataclass(frozen=True)
class Trial:
    """One change that was tried, or why it was not."""

    settings: Settings
    gain: Difference | None = None
    """The share of the run's time that it saves, against the best settings before it."""
    reason: Message | None = None
    """Why it is not used; None if it is."""


@dataclass
class Tuned:
    """`settings` are the changes that were confirmed: none if the settings are the fastest found."""

    facts: Facts
    default_seconds: Figures
    settings: Settings = field(default_factory=dict)
    gain: Difference | None = None
    """Of all changes together, from the confirmation alone."""
    trials: list[Trial] = field(default_factory=list)
    busy_cores: float = 0.0
    """That other processes used before the search."""


class Tuner:
    def __init__(
        self,
        resolved: Resolved,
        minutes: float,
        report: Callable[[Message], None],
        open_rig: Callable[[TrainConfig], Rig] = Rig,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._typed = resolved.config, resolved.typed.keys()
        self._report, self._open, self._now = report, open_rig, now
        self._search_until = now() + SEARCH_SHARE * 60 * minutes
        self._rigs: dict[str, Rig] = {}

    def run(self) -> Tuned:
        """Change one setting after another, further in the same direction while that is faster, and confirm.

        Ctrl-C leaves no process behind.
        """
        self._report(Message("measuring the settings as they are"))
        best: Settings = {}
        try:
            self.tuned = Tuned(self._rig({}).facts, self._rig({}).measure(SECONDS))
            for kind in KINDS:
                while (settings := self._candidate(kind, best)) and self._try(best, settings):
                    best |= settings
            if best:
                self._confirm(best)
        except ChildError as error:
            raise JobError("the settings can't be measured here: {reason}", reason=error.text) from None
        finally:
            self._close()
        return self.tuned

    def _candidate(self, kind: str, best: Settings) -> Settings:
        config = replace(self._config, **best)
        settings = candidate(kind, config, self._rig(best).facts, self.tuned.default_seconds)
        return {} if settings.keys() & self._typed else settings  # what was typed stays as it is

    def _try(self, best: Settings, settings: Settings) -> bool:
        """Whether the run is faster with these settings, too."""
        self._report(Message("trying {settings}", settings=flags(settings)))
        try:
            trial = self._compare(best, settings)
        except ChildError as error:
            trial = Trial(settings, reason=error.text)
        self._close(but=best if trial.reason else None)
        self.tuned.trials.append(trial)
        self._report(describe(trial))
        return trial.reason is None

    def _compare(self, best: Settings, settings: Settings) -> Trial:
        if self._now() > self._search_until:
            late = Message("not tried: it takes longer than the time that is left; allow more with --minutes")
            return Trial(settings, reason=late)
        both, margin = best | settings, DTYPE_MARGIN if settings.get("dtype") == "bfloat16" else MARGIN
        if not settings.items() <= (settings | self._rig(both).facts.used).items():
            return Trial(settings, reason=Message("it does not work here"))
        first = self._pair(best, both)
        looks = PAIRS if first > HOPELESS else (1,)
        gain = settle(lambda number: self._pair(best, both) if number else first, looks, margin, CONFIDENCE)
        reasons = {"better": None, "too_small": Message("it saves less than {margin:.0%} of the run", margin=margin)}
        verdict = gain.verdict(margin, CONFIDENCE)
        return Trial(settings, gain, reasons.get(verdict, Message("not faster by more than the noise")))

    def _confirm(self, best: Settings) -> None:
        """All changes together against the settings as they were."""
        self._report(Message("confirming {settings}", settings=flags(best)))

        def fresh_pair(number: int) -> float:
            self._close()
            return median(self._pair({}, best) for _ in range(ROUNDS))

        gain = settle(fresh_pair, FRESH_PAIRS, MARGIN, CONFIDENCE)
        if gain.verdict(MARGIN, CONFIDENCE) == "better":
            self.tuned.settings, self.tuned.gain = best, gain
        else:
            unconfirmed = Message("not confirmed")
            self.tuned.trials = [replace(each, reason=each.reason or unconfirmed) for each in self.tuned.trials]

    def _pair(self, before: Settings, after: Settings) -> float:
        """The share of the run's time that is saved, measured one after the other."""
        self._rig(before), self._rig(after)
        old, new = (self._rig(each).measure(SECONDS).run for each in (before, after))
        return 1 - new / old

    def _rig(self, settings: Settings) -> Rig:
        if (key := flags(settings)) not in self._rigs:
            if any(rig.facts.crowded for rig in self._rigs.values()):
                self._close()  # processes that don't fit into memory side by side take turns alone
            self._rigs[key] = self._open(replace(self._config, **settings))
        return self._rigs[key]

    def _close(self, but: Settings | None = None) -> None:
        for key in [key for key in self._rigs if but is None or key != flags(but)]:
            self._rigs.pop(key).close()


def candidate(kind: str, config: TrainConfig, facts: Facts, default: Figures) -> Settings:
    """The next change of a kind that is worth trying; empty if there is none."""
    used, on_cpu, size = facts.used, facts.device == "cpu", config.batch_size
    steps = config.max_iters * default.step
    match kind:
        case "threads" if on_cpu and used["threads"] > 1:
            return {"threads": used["threads"] // 2}
        case "smaller":
            return split(config, [each for each in micro_batches(config) if FACTOR * each <= size][-1:])
        case "larger":
            return split(config, [each for each in micro_batches(config) if each >= FACTOR * size][:1])
        case "dtype" if on_cpu and config.dtype == "auto":
            return {"dtype": "float32" if used["dtype"] == "bfloat16" else "bfloat16"}
        case "compile" if config.compile == "auto" and (used["compile"] or steps > COMPILE_PAYS):
            return {"compile": not used["compile"]}
        case "evaluations" if 1 - steps / default.run > EVAL_SHARE:
            return {"eval_batch_size": 2 * used["eval_batch_size"]}
    return {}


def micro_batches(config: TrainConfig) -> list[int]:
    """Those that leave the sequences of an iteration as they are, and the windows of an evaluation."""
    sequences, windows = config.sequences_per_step, config.eval_windows or 0
    return [size for size in range(1, sequences + 1) if sequences % size == windows % size == 0]


def split(config: TrainConfig, sizes: list[int]) -> Settings:
    """The settings that train the same sequences in micro-batches of this size, and evaluate the same windows."""
    if not sizes:
        return {}
    settings: Settings = {"batch_size": sizes[0], "gradient_accumulation_steps": config.sequences_per_step // sizes[0]}
    if config.eval_windows:  # nanoGPT counts them in batches, so their number follows
        settings["eval_iters"] = config.eval_windows // sizes[0]
    return settings


def tune(resolved: Resolved, minutes: float, report: Callable[[Message], None]) -> Tuned:
    """Search for about so many minutes."""
    check_can_tune(resolved)
    data = find_dataset(resolved.config.dataset, resolved.config.tokenizer)
    busy = psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1)
    there = replace(resolved, config=replace(resolved.config, dataset=str(data), tokenizer="auto"))
    return replace(Tuner(there, minutes, report).run(), busy_cores=busy)


def check_can_tune(resolved: Resolved) -> None:
    """UsageError where there is nothing to choose: a resumed run, or one of several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "torchrun's processes can't tune\nRun nanoscope tune by itself, then train with the file it writes."
        )
    if resolved.config.init_from == "resume":
        raise UsageError(
            "a resumed run keeps its settings, so there is nothing to tune\n"
            "Tune before a run begins, or type what should change: --batch_size=8, --threads=1"
        )


def flags(settings: Settings) -> str:
    """Settings as they are typed."""
    return " ".join(f"--{key}={value}" for key, value in settings.items())


def describe(trial: Trial) -> Message:
    """A trial in one line."""
    gain = trial.gain and described(trial.gain)
    return Message("{label}: {amount}", label=flags(trial.settings), amount=joined("; ", (gain, trial.reason)))


def described(gain: Difference) -> Message:
    """A share of time in words, with its standard error; a single pair has none."""
    share = f"{abs(gain.mean):.1%}" if gain.pairs == 1 else f"{abs(gain.mean):.1%} ± {gain.error:.1%}"
    return Message("{size} more time", size=share) if gain.mean < 0 else Message("{size} less time", size=share)
