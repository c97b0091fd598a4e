"""What a run reads: batches to train on, and the windows that it is evaluated on."""

from nanoscope.config import TrainConfig
from nanoscope.data.dataset import Dataset
from nanoscope.data.loader import BatchLoader
from nanoscope.model.checkpoint import TrainingState
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.machine import Machine


class Data:
    """A dataset, read from where a run is; `vocab_size` is that of the model."""

    def __init__(
        self, config: TrainConfig, dataset: Dataset, machine: Machine, vocab_size: int, state: TrainingState
    ) -> None:
        self.config, self.dataset, self.machine = config, dataset, machine
        self.evaluator = Evaluator(
            {name: dataset.split(name) for name in ("train", "val")},
            block_size=config.block_size,
            windows=config.eval_windows,
            vocab_size=vocab_size,
            machine=machine,
            batch=config.eval_batch_size,
        )
        self.evaluation = f"{len(self.evaluator.starts['val'])} windows of data {dataset.fingerprint[:12]}"
        """What validation losses are measured on."""
        self.loader = open_loader(config, dataset, state, machine)

    def seek(self, state: TrainingState) -> None:
        """Continue where a run of this state is."""
        self.close()
        self.loader = open_loader(self.config, self.dataset, state, self.machine)

    def close(self) -> None:
        self.loader.close()


def open_loader(config: TrainConfig, dataset: Dataset, state: TrainingState, machine: Machine) -> BatchLoader:
    return BatchLoader(
        dataset.split("train"),
        block_size=config.block_size,
        sequences_per_step=config.sequences_per_step,
        micro_batch=config.batch_size,
        seed=config.seed,
        order=config.order,
        first_step=state.step,
        first_sequence=state.sequences,
        rank=machine.processes.rank,
        world=machine.processes.world,
        pin_memory=machine.choice.type == "cuda",
    )
