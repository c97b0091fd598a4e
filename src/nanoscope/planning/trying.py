"""`nanoscope try`: short runs with and without each change to a run, from the same seeds and batches.

Each question is asked of the run with the changes that were confirmed before. The best of several changes looks good by
chance alone, so it is proposed only if it helps again with other seeds, in runs twice as long if there is room.
Nothing is written: no folder, no checkpoint.
"""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.data.find import find_dataset
from nanoscope.messages import Message, Shown
from nanoscope.optim.schedule import learning_rate
from nanoscope.paired import Difference, paired, settle
from nanoscope.planning.measure import Workplace
from nanoscope.planning.tuning import Settings, flags
from nanoscope.training.engine import Engine

Question = Literal["warm_up", "rate", "batch", "dropout"]
QUESTIONS: tuple[Question, ...] = ("warm_up", "rate", "batch", "dropout")

RATES = (0.3, 0.1, 0.03, 0.01), (3.0, 10.0, 30.0, 100.0)
BATCHES = (4.0, 16.0, 64.0), (0.25, 0.0625)
WARM_UP, NO_WARM_UP = 0.1, 0.02  # of the iterations: what is tried, and what is as good as none

ARMS = 45  # about as many of one length as all questions take
FEWEST_ITERS = 40  # of a trial, unless the run has fewer: shorter ones say nothing
LONGER = 2  # times: the length of the runs that confirm, unless the trials are as long as the run already
LOOKS = 3, 5, 8  # pairs that confirm; more only if fewer leave it open
SURE = 0.995  # one-sided, at each look
WORTH = 0.005  # of the loss: what gains less is not worth a change
PACE_ITERS, PACE_PAIRS = 10, 3
WINDOWS = 256  # of the validation split, on which trials are compared


class Outcome(NamedTuple):
    """What an arm, one short run, came to."""

    loss: float
    """On some validation windows, at the end; that of guessing, if training broke down."""
    step_seconds: float = 0.0
    """The median."""


class Arms:
    """Trains arms with the engine and the evaluator that `train` uses: their weights are those of such a run."""

    def __init__(self, run: TrainConfig) -> None:
        self.place = Workplace(run, run.dataset)
        self.engine: Engine | None = None

    def train(self, config: TrainConfig, windows: int = 0) -> Outcome:
        """`windows`: 0 if only the time is wanted."""
        self.engine, loader = self.place.set_up(config)
        engine, guessing = self.engine, math.log(self.place.dataset.vocab_size)
        times = []
        with closing(loader):
            for step in range(config.max_iters):
                done = engine.step(loader.next(), step, learning_rate(step, config))
                if not done or not done.finite:
                    return Outcome(guessing)
                times.append(done.seconds)
        found = self.place.evaluator(engine, windows, "val").evaluate(engine.plain_model) if windows else None
        loss = found["val"].loss if found else 0.0
        return Outcome(loss if math.isfinite(loss) else guessing, median(times))


@dataclass
class Change:
    change: Settings
    factor: float = 1.0
    """Its place in a range of rates or batch sizes; 1 is the run's own."""
    time_ratio: float = 1.0
    """Iterations with the change that take as long as one without it."""
    gain: Difference | None = None
    """By how much the loss is lower."""


@dataclass
class Finding:
    """The answer to a question."""

    question: Question
    verdict: Literal["helps", "not_confirmed", "nothing_better", "unfinished"] = "unfinished"
    loss: float = 0.0
    """Of the run without a change, in the trials."""
    tried: list[Change] = field(default_factory=list)
    best: Change | None = None
    """With the gain of the confirmation, with seeds that had no part in choosing it."""


class NoTimeLeftError(Exception):
    """No further arm can be trained in time."""


class Trial:
    """Asks the questions, one after another, until a deadline (by time.monotonic)."""

    def __init__(self, train: Callable[..., Outcome], run: TrainConfig, deadline: float = math.inf) -> None:
        self._train, self._deadline = train, deadline
        self._losses: dict[str, float] = {}
        self.run = self.proposed = run  # with every change that was confirmed
        self.iters = self.confirmed_iters = run.max_iters
        self.findings: list[Finding] = []
        self.arms = 0
        self.stopped: Message | None = None

    def choose_length(self) -> None:
        """The longest trials that fit into the time, whole runs if possible. Short of time, not all is tried."""
        whole, began = self.run.max_iters, time.monotonic()
        arm = self._arm(replace(self.run, max_iters=PACE_ITERS), windows=WINDOWS)
        ready = time.monotonic()
        besides = ready - began - PACE_ITERS * arm.step_seconds  # setting up and the loss at the end: for each arm
        fitting = min(((self._deadline - ready) / ARMS - besides) / arm.step_seconds, whole)
        self.iters = min(max(int(fitting), FEWEST_ITERS), whole)
        self.confirmed_iters = min(LONGER * self.iters, whole)

    def ask_all(self, advised: Iterable[str]) -> None:
        """`advised`: the actions that explain advises."""
        for question in QUESTIONS:
            if question == "dropout" and self.iters < self.run.max_iters:
                continue  # overfitting shows only in runs of the whole length
            if directions := changes(question, self.proposed, advised):
                self.findings.append(Finding(question))
                try:
                    self._ask(self.findings[-1], directions)
                except KeyboardInterrupt:
                    self.stopped, self._deadline = Message("interrupted"), 0.0
                except NoTimeLeftError:
                    self.stopped = self.stopped or Message("no time left")

    def _ask(self, finding: Finding, directions: list[list[Change]]) -> None:
        """Go on in each direction while that helps, with one seed; then confirm the best change with others."""
        finding.loss = self._loss(self.proposed, self.iters)
        worth = WORTH * finding.loss
        best, most = None, worth / 2
        for direction in directions:
            last = 0.0
            for change in direction:
                if finding.question == "batch":
                    change.time_ratio = self._time_ratio(change)
                gain = self._gain(change, 0, self.iters)
                finding.tried.append(replace(change, gain=paired([gain])))
                best, most = (change, gain) if gain > most else (best, most)
                if gain <= last:
                    break
                last = gain
        if best is None:
            finding.verdict = "nothing_better"
            return
        best.gain = settle(lambda seed: self._gain(best, seed + 1, self.confirmed_iters), LOOKS, worth, SURE)
        finding.best, finding.verdict = best, "not_confirmed"
        if best.gain.verdict(worth, SURE) == "better":
            finding.verdict = "helps"
            changed = replace(self.proposed, **best.change)
            self.proposed = with_length(changed, best.time_ratio * changed.max_iters)

    def _gain(self, change: Change, seed: int, iters: int) -> float:
        """By how much the loss is lower after the same iterations, or the same time."""
        run = replace(self.proposed, seed=self.run.seed + seed)
        return self._loss(run, iters) - self._loss(replace(run, **change.change), change.time_ratio * iters)

    def _time_ratio(self, change: Change) -> float:
        """Measured in turns."""
        short = replace(self.proposed, max_iters=PACE_ITERS)
        both = short, replace(short, **change.change)
        pairs = ([self._arm(each).step_seconds for each in both] for _ in range(PACE_PAIRS))
        return median(before / after for before, after in pairs)

    def _loss(self, config: TrainConfig, iters: float) -> float:
        short = with_length(config, iters)
        if (key := repr(short)) not in self._losses:
            self._losses[key] = self._arm(short, windows=WINDOWS).loss
        return self._losses[key]

    def _arm(self, config: TrainConfig, **options: Any) -> Outcome:
        if time.monotonic() > self._deadline:
            raise NoTimeLeftError
        self.arms += 1
        return self._train(config, **options)


def try_run(folder: Path, advised: Iterable[str], minutes: float, on_progress: Callable[[Shown, float], None]) -> Trial:
    """Train the trials of a run, in at most about so many minutes. Its folder is only read."""
    began, run = time.monotonic(), resolve([str(folder)]).config
    data = str(find_dataset(run.dataset, run.tokenizer, run=folder))
    # Compiling would take longer than it saves, once for each arm.
    run = replace(run, dataset=data, tokenizer="auto", compile=False, wandb_log=False, tensorboard=False)
    arms = Arms(run)

    def train(config: TrainConfig, **options: Any) -> Outcome:
        spent = (time.monotonic() - began) / 60 / minutes
        on_progress(Message("trying {settings}", settings=flags(differences(config, run))), min(spent, 1.0))
        return arms.train(config, **options)

    trial = Trial(train, run, began + 60 * minutes)
    trial.choose_length()
    trial.ask_all(advised)
    return trial


def differences(config: TrainConfig, run: TrainConfig) -> Settings:
    """The settings in which a configuration differs from a run's."""
    return {key: value for key, value in vars(config).items() if value != getattr(run, key)}


def changes(question: Question, config: TrainConfig, advised: Iterable[str]) -> list[list[Change]]:
    """What to try for a run: lists of changes that go on in one direction."""
    iters = config.max_iters
    match question:
        case "warm_up":
            longer = max(round(WARM_UP * iters), 2 * config.warmup)
            wanted = config.warmup < NO_WARM_UP * iters or "warm_up" in advised
            tried = wanted and config.decay_lr and 0 < longer < iters / 2
            return [[Change({"warmup_iters": longer})]] if tried else []
        case "rate":
            return [[Change(_scaled(config, factor), factor) for factor in way] for way in RATES]
        case "batch":
            found = [[Change(_batch(config, factor), factor) for factor in way] for way in BATCHES]
            return [way for way in ([each for each in way if each.change] for way in found) if way]
        case "dropout":
            more = round(max(0.2, config.dropout + 0.1), 3)
            return [[Change({"dropout": more})]] if "regularise" in advised else []


def _scaled(config: TrainConfig, factor: float) -> Settings:
    return {"lr_scale": float(f"{config.lr_scale * factor:.3g}")}


def _batch(config: TrainConfig, factor: float) -> Settings:
    """More or fewer sequences per iteration, and rates × √factor, which suit AdamW then. Empty if it can't be."""
    key = "gradient_accumulation_steps" if config.gradient_accumulation_steps > 1 else "batch_size"
    sequences = getattr(config, key) * factor
    if sequences != int(sequences):
        return {}
    settings = {key: int(sequences), **_scaled(config, math.sqrt(factor))}
    if key == "batch_size" and config.eval_iters != "full":  # as many windows in an evaluation as before
        settings["eval_iters"] = max(1, round(config.eval_iters / factor))
    return settings


def with_length(config: TrainConfig, iters: float) -> TrainConfig:
    """The same run with so many iterations: its schedule is shrunk with it."""
    share = round(iters) / config.max_iters
    changed: Settings = {"max_iters": round(iters), "warmup_iters": round(share * config.warmup)}
    if config.lr_decay_iters != "auto":
        changed["lr_decay_iters"] = max(round(share * config.lr_decay_iters), 1)
    return config if share == 1 else replace(config, **changed)
