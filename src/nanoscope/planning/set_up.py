"""What `train` sets up before its first step, without a run: `plan`, `tune` and `try` measure and train with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.dataset import Dataset, TokenSplit, open_dataset
from nanoscope.data.loader import BatchLoader
from nanoscope.data.tokenizer import dtype_for
from nanoscope.model.checkpoint import TrainingState
from nanoscope.training.data import open_loader
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.initial_model import initial_model
from nanoscope.training.machine import choose_machine
from nanoscope.training.resume import open_weights

RANDOM_TOKENS = 2**20  # of each split, if there is no data


@dataclass(frozen=True)
class Parts:
    """Of one run. The loader has to be closed."""

    engine: Engine
    loader: BatchLoader
    notes: list[str]


class Workplace:
    """What runs of one configuration share: the machine, the data, and the weights that they begin with.

    `data`: the folder of a prepared dataset; None: random tokens of a vocabulary of `vocab_size`.
    """

    def __init__(self, config: TrainConfig, data: Path | str | None, vocab_size: int = 0) -> None:
        self.machine, self.notes = choose_machine(config, Processes())
        self.dataset = open_dataset(data) if data else random_tokens(vocab_size, config.block_size)
        self.weights = open_weights(config) if config.init_from != "scratch" else None

    def set_up(self, config: TrainConfig) -> Parts:
        """A new model with its engine and batches, as `train` would start with."""
        torch.manual_seed(config.seed)
        model, config, notes = initial_model(config, self.dataset, self.machine, weights=self.weights)
        loader = open_loader(config, self.dataset, TrainingState(), self.machine)
        return Parts(Engine(config, model, self.machine), loader, notes)

    def evaluator(self, engine: Engine, windows: int | None, *splits: Literal["train", "val"]) -> Evaluator:
        return Evaluator(
            {name: self.dataset.split(name) for name in splits},
            block_size=engine.config.block_size,
            windows=windows,
            vocab_size=engine.plain_model.config.vocab_size,
            machine=self.machine,
            batch=engine.config.eval_batch_size,
        )


def random_tokens(vocab_size: int, block_size: int) -> Dataset:
    count = max(RANDOM_TOKENS, 2 * block_size + 2)
    ids = np.random.default_rng(0).integers(vocab_size, size=count).astype(dtype_for(vocab_size))
    split = TokenSplit({"random tokens": ids}, vocab_size)
    return Dataset(Path("random"), None, vocab_size, "random", {"train": split, "val": split})
