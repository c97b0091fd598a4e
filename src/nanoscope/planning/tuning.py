"""`nanoscope tune` and `train --tune`: search for the fastest way to carry out a run on this machine. Imports no torch.

A change and the settings before it are measured in turns, each in a process of its own. Two processes with the same
settings differ by a percent or two for as long as they live, so each pair that confirms a change is of new ones.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from math import prod
from pathlib import Path
from statistics import median

import psutil

from nanoscope.child import ChildError
from nanoscope.config import TrainConfig, toml_value, without_options
from nanoscope.config_sources import Resolved
from nanoscope.data.find import find_dataset
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import write_atomically
from nanoscope.messages import Message, printable
from nanoscope.planning.rig import Rig
from nanoscope.planning.search import Search, Settings, differences, flags
from nanoscope.version import __version__

QUESTIONS = "threads", "smaller_micro_batch", "larger_micro_batch", "dtype", "eval_batch", "compile"
MINUTES = 2.0
SECONDS = 0.5  # of a measurement
ROUNDS = 3  # of a pair of processes: their median counts
WORTH, DTYPE_WORTH = 0.02, 0.05  # of the run's time: less is not worth a change; 16 bits round differently
COMPILE_PAYS = 50.0  # seconds of iterations: compiling takes about 20 and saves at most some 40 %
EVAL_SHARE = 0.04  # of the run: evaluations that take less can't be made faster by enough
BUSY_CORES = 0.5


class Tuner(Search):
    """Gains are shares of the run's time."""

    CONFIDENCE, SIZE = 0.98, ".1%"
    BETTER, WORSE = Message("{size} less time"), Message("{size} more time")
    busy_cores = 0.0
    """That other processes used before the search."""

    def __init__(
        self,
        resolved: Resolved,
        minutes: float,
        report: Callable[[Message], None],
        open_rig: Callable[[TrainConfig], Rig] = Rig,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(resolved.config, report, 60 * minutes, now)
        self._typed, self._open = resolved.typed.keys(), open_rig
        self._rigs: dict[str, Rig] = {}

    def tune(self) -> None:
        """Ctrl-C leaves no process behind."""
        self.report(Message("measuring the settings as they are"))
        try:
            rig = self._rig(self.run)
            self.facts, self.default = rig.facts, rig.measure(SECONDS)
            self.ask(QUESTIONS)
        except ChildError as error:
            raise JobError("the settings can't be measured here: {reason}", reason=error.text) from None
        finally:
            self._close()

    def worth(self, question: str) -> float:
        return DTYPE_WORTH if question == "dtype" else WORTH

    def changes(self, question: str) -> Iterator[Settings]:
        for settings in self._candidates(question):
            if settings.keys() & self._typed:  # what was typed stays as it is
                return
            yield settings

    def _candidates(self, question: str) -> Iterator[Settings]:
        config, used, on_cpu = self.best, self.facts.used, self.facts.device == "cpu"
        iterations = config.max_iters * self.default.step
        match question:
            case "threads" if on_cpu:
                yield from ({"threads": used["threads"] >> halved} for halved in range(1, used["threads"].bit_length()))
            case "smaller_micro_batch":
                yield from splits(config, [config.batch_size // times for times in (2, 4, 8, 16)])
            case "larger_micro_batch":
                yield from splits(config, [config.batch_size * times for times in (2, 4, 8, 16)])
            case "dtype" if on_cpu and config.dtype == "auto":
                yield {"dtype": "float32" if used["dtype"] == "bfloat16" else "bfloat16"}
            case "eval_batch" if 1 - iterations / self.default.run > EVAL_SHARE:
                yield from ({"eval_batch_size": times * used["eval_batch_size"]} for times in (2, 4, 8))
            case "compile" if config.compile == "auto" and (used["compile"] or iterations > COMPILE_PAYS):
                yield {"compile": not used["compile"]}

    def gain(self, changed: TrainConfig, pair: int) -> float:
        self.check_time()
        if pair:
            self._close()
        both, shares = (self.best, changed), []
        used = [self._rig(each).facts.used for each in both][1]
        if any(key in used and used[key] != value for key, value in differences(changed, self.best).items()):
            raise ChildError(Message("it does not work here"))
        for _ in range(ROUNDS):
            before, after = (self._rig(each).measure(SECONDS).run for each in both)
            shares.append(1 - after / before)
        self._close(but=self.best)
        return median(shares)

    def _rig(self, config: TrainConfig) -> Rig:
        if (key := repr(config)) not in self._rigs:
            if any(rig.facts.crowded for rig in self._rigs.values()):
                self._close()  # processes that don't fit into memory side by side take turns alone
            self._rigs[key] = self._open(config)
        return self._rigs[key]

    def _close(self, but: TrainConfig | None = None) -> None:
        for key in self._rigs.keys() - {repr(but)}:
            self._rigs.pop(key).close()

    def summary(self) -> Message:
        """What was chosen."""
        helped = [each.best for each in self.findings if each.verdict == "helps"]
        if helped:
            saved = f"{1 - prod(1 - each.gain.mean for each in helped if each and each.gain):.1%}"
            gain = Message("{size} less time", size=saved)
            return Message("{settings}: {gain}", settings=flags(self.settings), gain=gain)
        if any(each.tried for each in self.findings):
            return Message("the settings are the fastest found")
        return Message("nothing could be compared in this time; allow more with --minutes")

    def lines(self) -> Iterator[Message]:
        if self.busy_cores > BUSY_CORES:
            others = self.busy_cores
            yield Message("measured on a busy machine: other processes used {others:.1f} cores", others=others)
        yield from super().lines()

    def document(self) -> dict[str, object]:
        about = {"schema": "nanoscope.tune/3", "summary": str(self.summary()), "facts": self.facts}
        return {**about, "busy_cores": self.busy_cores, "default": self.default, **super().document()}


def splits(config: TrainConfig, sizes: Iterable[int]) -> Iterator[Settings]:
    """The settings that train the same sequences in these micro-batches, and evaluate the same windows."""
    sequences, windows = config.sequences_per_step, config.eval_windows
    for size in sizes:
        if size and sequences % size == (windows or 0) % size == 0:
            settings = {"batch_size": size, "gradient_accumulation_steps": sequences // size}
            # nanoGPT counts windows in batches, so their number follows
            yield settings | ({"eval_iters": windows // size} if windows else {})


def tune(resolved: Resolved, minutes: float, report: Callable[[Message], None]) -> Tuner:
    """Search for about so many minutes."""
    check_can_tune(resolved)
    data = find_dataset(resolved.config.dataset, resolved.config.tokenizer)
    busy = psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1)
    there = replace(resolved, config=replace(resolved.config, dataset=str(data), tokenizer="auto"))
    tuner = Tuner(there, minutes, report)
    tuner.busy_cores = busy
    tuner.tune()
    return tuner


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


def check_file(path: Path, *, overwrite: bool) -> None:
    """UsageError for a file that exists, unless it may be overwritten."""
    if path.suffix != ".toml":
        raise UsageError("--out={path} must end in .toml, so that nanoscope train can read it", path=path)
    if path.exists() and not overwrite:
        raise UsageError(
            "{path} exists\nChoose another name: --out=FILE. Or overwrite it: --overwrite=True",
            path=path,
        )


def write_file(path: Path, resolved: Resolved, tuned: Tuner) -> None:
    """All settings of the source with the changes, and in comments what they rest on."""
    left_out = {"out_dir", *({"init_from"} if resolved.given.get("init_from") == "auto" else ())}  # of one run
    settings = {key: value for key, value in without_options(resolved.given).items() if key not in left_out}
    about = f"{printable(tuned.facts.device_name)}, nanoscope {__version__}, {datetime.now():%Y-%m-%d %H:%M}"
    title = f"Written by nanoscope tune. The settings of {printable(resolved.name)}: {tuned.summary()}."
    content = [f"# {line}".replace("\n", " ").rstrip() for line in (title, about, *tuned.lines(), "")]
    content += [f"{key} = {toml_value(value)}" for key, value in (settings | tuned.settings).items()]
    try:
        write_atomically(path, "\n".join(content) + "\n")
    except OSError as error:
        raise JobError("can't write {path}: {reason}", path=path, reason=why(error)) from None
