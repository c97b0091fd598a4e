"""A run at work: its parts, and how it returns to a checkpoint. startup.py puts it together, trainer.py uses it."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nanoscope.config import LAST_NOTE, RUN_NOTES, TrainConfig, to_toml, without_options
from nanoscope.data.dataset import Dataset
from nanoscope.data.loader import BatchLoader
from nanoscope.errors import JobError, why
from nanoscope.files import write_atomically
from nanoscope.ladder import Place, place_of
from nanoscope.messages import Text
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState, find_checkpoint
from nanoscope.runs.events import Note, OutOfMemory, Start
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.machine import Machine
from nanoscope.training.pace import Pace
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Reporter
from nanoscope.training.resume import Changes, Resumed, update_records
from nanoscope.training.run_folder import RunFolder

ENVIRONMENT = (
    "nanoscope",
    "torch",
    "python",
    "platform",
    "device",
    "device_name",
    "dtype",
    "compiled",
    "processes",
    "peak_flops",
    "peak_source",
    "dataset_fingerprint",
    "parameters",
)
"""The fields of `Start` that the run's settings come with."""


@dataclass
class Books:
    """What a run records about itself."""

    reporter: Reporter
    clock: PhaseClock
    pace: Pace


@dataclass
class Session:
    config: TrainConfig
    folder: RunFolder
    machine: Machine
    dataset: Dataset
    loader: BatchLoader
    evaluator: Evaluator
    engine: Engine
    state: TrainingState
    checkpoints: CheckpointWriter
    books: Books
    resumed: Resumed | None = None
    """How the settings of a resumed run were changed; None for a new run."""
    start: Start = field(default_factory=Start)
    best_stderr: float | None = None
    """Of the best validation loss, if it was measured in this session."""
    resources: ExitStack = field(default_factory=ExitStack)
    """Closed at the end: the loader's thread, the log files, the lock of the folder."""

    def note_smaller_micro_batch(self, before: int, now: int) -> None:
        """Memory ran out: the engine continues with micro-batches of half the size, and so will a resumed run."""
        self.state.micro_batch = now
        self.books.reporter.emit(OutOfMemory(step=self.state.step, micro_batch_before=before, micro_batch=now))

    @property
    def read_only(self) -> bool:
        """Whether an existing run is only evaluated: then nothing in its folder changes."""
        return self.config.eval_only and self.resumed is not None

    @property
    def for_session(self) -> Changes:
        """Settings that were typed for this session only."""
        return self.resumed.for_session if self.resumed else {}

    @property
    def evaluation(self) -> str:
        """What validation losses are measured on. Those of two evaluations can be compared if it is the same."""
        return f"{len(self.evaluator.starts['val'])} windows of data {self.dataset.fingerprint[:12]}"

    @property
    def best_place(self) -> Place | None:
        """Where the best validation loss stands on the dataset's ladder."""
        best, ladder = self.state.best_val_loss, self.start.ladder
        return None if best is None or ladder is None else place_of(best, self.best_stderr, ladder)

    def write_config(self, *, if_missing: bool = False) -> None:
        """Write config.toml: the run's own settings, the versions and the machine.

        With `if_missing`, only if somebody has deleted it.
        """
        file = self.folder.path / "config.toml"
        if if_missing and file.exists():
            return
        try:
            write_atomically(file, to_toml(self.settings), sync=True)
        except OSError as error:
            if not if_missing:
                raise JobError("can't write {file}: {reason}", file=file, reason=why(error)) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The run's own settings, without what was typed for this session, and the table RUN_NOTES."""
        notes = {key: getattr(self.start, key) for key in ENVIRONMENT}
        if (cpu_dtype := self._cpu_dtype()) is not None:
            notes["cpu_dtype"] = cpu_dtype
        notes[LAST_NOTE] = str(self.dataset.folder.resolve())  # so that it is found from any folder
        own = replace(self.config, **{key: before for key, (before, _) in self.for_session.items()})
        return {**without_options(asdict(own)), RUN_NOTES: notes}

    def _cpu_dtype(self) -> str | None:
        """What dtype=auto means for this run on a CPU; a dtype that was typed for this session doesn't count."""
        if self.machine.choice.type == "cpu" and self.config.dtype == "auto":
            return self.machine.choice.dtype
        return self.resumed.cpu_dtype if self.resumed else None

    def set_aside_damaged(self, used: LoadedCheckpoint) -> None:
        """Rename the checkpoints that were found damaged on the way to the one that is used, and say so."""
        for place in self.checkpoints.set_aside_damaged(used) if self.machine.processes.first else ():
            text = Text("the damaged checkpoint is kept as {place}; delete it if you like", place=place)
            self.books.reporter.emit(Note(text=text))

    def go_back(self) -> None:
        """Return to the newest undamaged checkpoint: weights, optimizer, scaler and place in the data."""
        checkpoint, problems = find_checkpoint(self.folder.path)
        self.books.reporter.emit(*(Note(text=str(problem)) for problem in problems))
        self.set_aside_damaged(checkpoint)
        self.engine.restore(checkpoint)
        update_records(checkpoint, self.config, self.evaluation)
        self.state = checkpoint.progress
        self.checkpoints.saved_step = self.state.step
        self.loader.close()
        self.loader = open_loader(self.config, self.dataset, self.state, self.machine)


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
