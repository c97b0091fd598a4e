"""`nanoscope try`: short runs with and without each change to a run, from the same seeds and batches.

The runs that confirm a change have other seeds, and are twice as long if there is room. Nothing is written: no folder,
no checkpoint.
"""

import math
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.data.find import find_dataset
from nanoscope.messages import Message
from nanoscope.optim.schedule import learning_rate
from nanoscope.planning.measure import Workplace
from nanoscope.planning.search import Search, Settings, differences, flags
from nanoscope.training.evaluate import evaluation_starts

QUESTIONS = "warm_up", "lower_rate", "higher_rate", "larger_batch", "smaller_batch", "dropout"
FACTORS = {
    "lower_rate": (0.3, 0.1, 0.03, 0.01),
    "higher_rate": (3.0, 10.0, 30.0, 100.0),
    "larger_batch": (4.0, 16.0, 64.0),
    "smaller_batch": (0.25, 0.0625),
}
ADVISED = {
    "warm_up": "warm_up",
    "lower_learning_rate": "lower_rate",
    "lower_accumulation": "smaller_batch",
    "regularise": "dropout",
}
"""The question that a piece of advice asks; the others can't be tried in short runs."""
FATES = {
    "upheld": Message("holds:"),
    "withdrawn": Message("withdrawn, because the trials don't bear it out:"),
    "unfinished": Message("not decided:"),
    "not_tried": Message("not tried:"),
}
WARM_UP, NO_WARM_UP = 0.1, 0.02  # of the iterations: what is tried, and what is as good as none

ARMS = 45  # about as many of one length as all questions take
FEWEST_ITERS = 40  # of a trial, unless the run has fewer: shorter ones say nothing
LONGER = 2  # times: the length of the runs that confirm, unless the trials are as long as the run already
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

    def train(self, config: TrainConfig, windows: int = 0) -> Outcome:
        """`windows`: 0 if only the time is wanted."""
        engine, data = self.place.set_up(config)
        evaluator, guessing, times = data.evaluator, math.log(self.place.dataset.vocab_size), []
        with closing(data):
            for step in range(config.max_iters):
                done = engine.step(data.loader.next(), step, learning_rate(step, config))
                if not done or not done.finite:
                    return Outcome(guessing)
                times.append(done.seconds)
        del evaluator.splits["train"]
        evaluator.starts["val"] = evaluation_starts(len(evaluator.splits["val"]), config.block_size, windows)
        found = evaluator.evaluate(engine.plain_model) if windows else None
        loss = found["val"].loss if found else 0.0
        return Outcome(loss if math.isfinite(loss) else guessing, median(times))


class Trials(Search):
    """Gains are lower losses. `advised`: the actions that explain advises."""

    CONFIDENCE, SIZE = 0.995, ".3f"
    BETTER, WORSE = Message("validation loss {size} lower"), Message("validation loss {size} higher")

    def __init__(
        self,
        train: Callable[[TrainConfig, int], Outcome],
        run: TrainConfig,
        report: Callable[[Message], None],
        advised: Iterable[str] = (),
        seconds: float = math.inf,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(run, report, seconds, now)
        self._train, self._advised = train, list(advised)
        self._losses: dict[str, float] = {}
        self.iters = self.confirmed_iters = run.max_iters

    def choose_length(self) -> None:
        """The longest trials that fit into the time, whole runs if possible. Short of time, not all is tried."""
        whole, began = self.run.max_iters, self.now()
        arm = self._arm(replace(self.run, max_iters=PACE_ITERS), WINDOWS)
        ready = self.now()
        besides = ready - began - PACE_ITERS * arm.step_seconds  # setting up and the loss at the end: for each arm
        fitting = min(((self.deadline - ready) / ARMS - besides) / arm.step_seconds, whole)
        self.iters = min(max(int(fitting), FEWEST_ITERS), whole)
        self.confirmed_iters = min(LONGER * self.iters, whole)

    def worth(self, question: str) -> float:
        return WORTH * self._loss(self.best, 0)

    def gain(self, changed: TrainConfig, pair: int) -> float:
        return self._loss(self.best, pair) - self._loss(changed, pair)

    def changes(self, question: str) -> Iterator[Settings]:
        config = self.best
        match question:
            case "warm_up":
                longer = max(round(WARM_UP * config.max_iters), 2 * config.warmup)
                wanted = config.warmup < NO_WARM_UP * config.max_iters or question in self._advised
                if wanted and config.decay_lr and 0 < longer < config.max_iters / 2:
                    yield {"warmup_iters": longer}
            case "dropout":  # overfitting shows only in runs of the whole length
                if "regularise" in self._advised and self.iters == self.run.max_iters:
                    yield {"dropout": round(max(0.2, config.dropout + 0.1), 3)}
            case "lower_rate" | "higher_rate":
                for factor in FACTORS[question]:
                    yield scaled_rate(config, factor)
            case _:
                for factor in FACTORS[question]:
                    if larger := scaled_batch(config, factor):
                        yield differences(self._at_equal_time(replace(config, **larger)), config)

    def _at_equal_time(self, changed: TrainConfig) -> TrainConfig:
        """With as many iterations as take as long as those of `best`, by step times measured in turns."""
        both = [replace(each, max_iters=PACE_ITERS) for each in (self.best, changed)]
        pairs = ([self._arm(each).step_seconds for each in both] for _ in range(PACE_PAIRS))
        return shortened(changed, median(before / after for before, after in pairs))

    def _loss(self, config: TrainConfig, pair: int) -> float:
        iters = self.confirmed_iters if pair else self.iters
        short = shortened(replace(config, seed=config.seed + pair), iters / self.run.max_iters)
        if (key := repr(short)) not in self._losses:
            self._losses[key] = self._arm(short, WINDOWS).loss
        return self._losses[key]

    def _arm(self, config: TrainConfig, windows: int = 0) -> Outcome:
        self.check_time()
        return self._train(config, windows)

    def lines(self) -> Iterator[Message]:
        whole = self.run.max_iters
        yield Message(
            "trials of {iters:d} iterations, confirmed in runs of {longer:d}; the run has {whole:d}",
            iters=self.iters,
            longer=self.confirmed_iters,
            whole=whole,
        )
        yield from super().lines()
        if self.confirmed_iters < whole:
            yield Message(
                "Short runs favor higher learning rates and fewer tokens per iteration: the gains are those after "
                "{iters:d} iterations, not after {whole:d}.",
                iters=self.confirmed_iters,
                whole=whole,
            )

    def fate(self, action: str) -> str:
        """What became of a piece of `explain`'s advice: upheld, withdrawn, unfinished or not_tried."""
        asked = [each.verdict for each in self.findings if each.question == ADVISED.get(action)]
        known = {"helps": "upheld", "unfinished": "unfinished"}
        return known.get(asked[0], "withdrawn") if asked else "not_tried"

    def command(self, folder: Path) -> str | None:
        """How to train the run with what was confirmed; None if nothing was."""
        changed = flags(self.settings)
        out = folder.parent / f"{folder.resolve().name}-tried"
        where = ["nanoscope", "train", str(folder), f"--out_dir={out}", f"--dataset={self.run.dataset}"]
        return f"{shlex.join(where)} {changed}" if changed else None


def try_run(folder: Path, advised: Iterable[str], minutes: float, show: Callable[[Message, float], None]) -> Trials:
    """Train the trials of a run, in at most about so many minutes. Its folder is only read."""
    run = resolve([str(folder)]).config
    data = str(find_dataset(run.dataset, run.tokenizer, run=folder))
    # Compiling would take longer than it saves, once for each arm.
    run = replace(run, dataset=data, tokenizer="auto", compile=False, wandb_log=False, tensorboard=False)

    def report(text: Message) -> None:
        show(text, min(1 - (trials.deadline - trials.now()) / 60 / minutes, 1.0))

    trials = Trials(Arms(run).train, run, report, advised, 60 * minutes)
    trials.choose_length()
    try:
        trials.ask(QUESTIONS)
    except KeyboardInterrupt:
        trials.stopped = Message("interrupted")
    return trials


def scaled_rate(config: TrainConfig, factor: float) -> Settings:
    return {"lr_scale": float(f"{config.lr_scale * factor:.3g}")}


def scaled_batch(config: TrainConfig, factor: float) -> Settings:
    """More or fewer sequences per iteration, and rates × √factor, which suit AdamW then. Empty if it can't be."""
    key = "gradient_accumulation_steps" if config.gradient_accumulation_steps > 1 else "batch_size"
    sequences = getattr(config, key) * factor
    if sequences != int(sequences):
        return {}
    settings = {key: int(sequences), **scaled_rate(config, math.sqrt(factor))}
    if key == "batch_size" and config.eval_iters != "full":  # as many windows in an evaluation as before
        settings["eval_iters"] = max(1, round(config.eval_iters / factor))
    return settings


def shortened(config: TrainConfig, share: float) -> TrainConfig:
    """The same run with a share of its iterations: its schedule is shrunk with it."""
    if share == 1:
        return config
    decay = config.lr_decay_iters
    return replace(
        config,
        max_iters=round(share * config.max_iters),
        warmup_iters=round(share * config.warmup) if config.warmup else config.warmup_iters,
        lr_decay_iters=decay if decay == "auto" else max(round(share * decay), 1),
    )
