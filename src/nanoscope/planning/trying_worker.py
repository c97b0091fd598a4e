"""Trains the arms of trials, one after another in one process, and keeps nothing of them: no folder, no checkpoint.

An arm is trained by the parts that `train` is made of, so its weights are those of such a run, to the last bit. Orders
come as lines of JSON on standard input; answers, and a sign of life while an arm is trained, go to standard output.
"""

import dataclasses
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

SIGN_OF_LIFE_SECONDS = 0.5


class Arm(msgspec.Struct):
    """One short run: its settings, and on how many validation windows its loss is measured at the end."""

    settings: dict[str, Any]
    windows: int = 0
    """0: none, only its time is wanted."""
    evaluates: bool = False
    """Whether it also evaluates as a run with these settings does."""


class Outcome(msgspec.Struct):
    losses: list[float] = []
    """Of each validation window at the end; if training broke down, those of guessing."""
    step_seconds: float = 0.0
    """The median."""
    seconds: float = 0.0
    """Of all iterations and evaluations; not of the loss at the end."""
    problem: str = ""
    """'not finite', 'out of memory', or another reason why there is no loss."""


class Answer(msgspec.Struct):
    """A sign of life, or the end of an arm."""

    step: int = 0
    outcome: Outcome | None = None
    error: str = ""
    """Why no arm at all can be trained here."""


class Workshop:
    """What all arms of a run share: machine, data, and the weights that the run began with."""

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        from nanoscope.config import build
        from nanoscope.data.dataset import open_dataset
        from nanoscope.data.find import find_dataset
        from nanoscope.training.distributed import Processes
        from nanoscope.training.machine import choose_machine
        from nanoscope.training.resume import open_weights

        config = build(settings)
        self.machine, _ = choose_machine(config, Processes())
        self.dataset = open_dataset(find_dataset(config.dataset, config.tokenizer, run=run))
        self.weights = open_weights(config) if config.init_from != "scratch" else None

    def train(self, arm: Arm, on_step: Callable[[int], None] = lambda step: None) -> tuple[Outcome, Any]:
        """Train an arm from its first iteration to its last. Also returns the model."""
        import torch

        from nanoscope.config import build
        from nanoscope.hardware.memory import is_out_of_memory, release
        from nanoscope.model.checkpoint import TrainingState
        from nanoscope.training.engine import Engine
        from nanoscope.training.initial_model import initial_model
        from nanoscope.training.session import open_loader

        config = build(arm.settings)
        torch.manual_seed(config.seed)
        model, config, _ = initial_model(config, self.dataset, self.machine, weights=self.weights)
        learner = Engine(config, model, self.machine)
        loader = open_loader(config, self.dataset, TrainingState(), self.machine)
        evaluator = self._evaluator(config, model, ("val",), arm.windows)
        outcome = Outcome([math.log(self.dataset.vocab_size)] * len(evaluator.starts["val"]))
        try:
            self._iterate(arm, config, learner, loader, outcome, on_step)
            found = evaluator.evaluate(model) if arm.windows and not outcome.problem else None
            if found and all(map(math.isfinite, found["val"].losses)):
                outcome.losses = found["val"].losses
            elif found:
                outcome.problem = "not finite"
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            release(self.machine.device)
            outcome.problem = "out of memory"
        finally:
            loader.close()
        return outcome, model

    def _iterate(self, arm: Arm, config: Any, learner: Any, loader: Any, outcome: Outcome, on_step: Any) -> None:
        from nanoscope.estimates import median
        from nanoscope.optim.schedule import learning_rate

        windows = None if config.eval_iters == "full" else config.eval_iters * config.batch_size
        evaluator = self._evaluator(config, learner.plain_model, ("train", "val"), windows) if arm.evaluates else None
        times = []
        began = time.perf_counter()
        for step in range(config.max_iters):
            before = time.perf_counter()
            done = learner.step(loader.next(), step, learning_rate(step, config))
            if done is None or not done.finite:
                outcome.problem = "not finite"
                break
            times.append(time.perf_counter() - before)
            if evaluator is not None and (step + 1) % config.eval_interval == 0:
                evaluator.evaluate(learner.plain_model)
            on_step(step + 1)
        outcome.seconds = time.perf_counter() - began
        outcome.step_seconds = median(times) if times else 0.0

    def _evaluator(
        self, config: Any, model: Any, splits: tuple[Literal["train", "val"], ...], windows: int | None
    ) -> Any:
        from nanoscope.training.evaluate import Evaluator

        return Evaluator(
            {name: self.dataset.split(name) for name in splits},
            block_size=config.block_size,
            windows=windows,
            vocab_size=model.config.vocab_size,
            device=self.machine.device,
            autocast=self.machine.autocast,
            processes=self.machine.processes,
        )


def main() -> None:
    """Answer orders until there are no more. The first is [folder of the run, its settings]."""
    from nanoscope.errors import JobError, UsageError
    from nanoscope.hardware.probe import make_cpu_ready

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer

    def say(answer: Answer) -> None:
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()

    try:
        folder, settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=tuple[str, dict[str, Any]])
        make_cpu_ready(settings["device"], settings["dtype"], training=True)
        workshop = Workshop(Path(folder), settings)
        say(Answer())
        for line in sys.stdin.buffer:
            last = time.monotonic()

            def on_step(step: int) -> None:
                nonlocal last
                if time.monotonic() - last > SIGN_OF_LIFE_SECONDS:
                    last = time.monotonic()
                    say(Answer(step))  # raises if the parent is gone

            outcome, _ = workshop.train(msgspec.json.decode(line, type=Arm), on_step)
            say(Answer(outcome=outcome))
    except BrokenPipeError:
        os._exit(1)
    except (JobError, UsageError) as error:
        say(Answer(error=str(error)))


def plain(config: Any) -> dict[str, Any]:
    """Settings as an order carries them."""
    return dataclasses.asdict(config)


if __name__ == "__main__":
    main()
