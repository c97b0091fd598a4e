"""Reading a checkpoint: find it, verify that it is complete and undamaged, check every value. No pickle.

Anyone may have written it, so sizes are checked before memory is taken for them.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from torch import Tensor

from nanoscope.checkpoint_files import (
    LAST,
    OPTIMIZER,
    STATE,
    TOKENIZER,
    WEIGHTS,
    checkpoint_folders,
    checkpoints_from,
    read_state,
)
from nanoscope.errors import JobError, UsageError
from nanoscope.files import file_sha256, read_json
from nanoscope.messages import Message, joined, printable
from nanoscope.model import ModelConfig
from nanoscope.model.weights import check_weights, read_tensors, what_is_wrong
from nanoscope.suggest import did_you_mean_run

Count = Annotated[int, Meta(ge=0, lt=2**62)]
Number = Annotated[float, Meta(gt=-(2.0**62), lt=2.0**62)]  # neither infinite nor NaN
Plain = dict[str, Annotated[int, Meta(gt=-(2**62), lt=2**62)] | Number | str]


class TrainingState(msgspec.Struct, forbid_unknown_fields=True):
    """How far a run has come: everything its next iteration depends on besides weights and optimizer state."""

    step: Count = 0
    """Iterations done; also the number of the next one."""
    sequences: Count = 0
    """Sequences read from the training split: the loader's position."""
    best_val_loss: Number | None = None
    best_step: Count | None = None
    evaluated_at: Count | None = None
    evaluations_since_best: Count = 0
    micro_batch: Count = 0
    """Sequences per micro-batch if memory was too small for batch_size, else 0."""
    rollbacks: Count = 0
    lr_factor: Number = 1.0
    """What rollbacks have left of the learning rates."""
    skipped: list[Count] = []
    """Iterations left out because their batches made the loss non-finite."""


class State(msgspec.Struct):
    """state.json."""

    version: int
    progress: TrainingState
    model: ModelConfig
    scaler: Plain
    run: Plain
    """What a resume compares with: dataset fingerprint, evaluation."""
    sha256: dict[str, str]


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A complete, undamaged checkpoint."""

    folder: Path
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    """Empty if only the model was wanted."""
    progress: TrainingState
    model_config: ModelConfig
    tokenizer: dict[str, Any] | None
    scaler: Plain
    run: Plain


def find_checkpoint(run: Path, wanted: str = LAST, *, optimizer: bool = True) -> tuple[LoadedCheckpoint, list[Message]]:
    """The checkpoint of a run that `wanted` names: `last`, `best` or its own name.

    If it is damaged: the newest undamaged one before it, and the problems found on the way. Without `optimizer`, only
    the model has to be undamaged.
    """
    if not run.is_dir():
        raise JobError("there is no run in {run}: no such folder.{hint}", run=run, hint=did_you_mean_run(run))
    folder = run / "checkpoints" if (run / "checkpoints").is_dir() else run
    if (folder / STATE).is_file() or (folder / WEIGHTS).is_file():
        return load_checkpoint(folder, optimizer=optimizer), []
    candidates = checkpoints_from(folder, wanted)
    if not candidates:
        if names := ", ".join(path.name for path in checkpoint_folders(folder)):
            raise UsageError("{run} has no checkpoint {named!r}; it has {names}", run=run, named=wanted, names=names)
        raise JobError(
            "{run} has no checkpoint\nA run saves one at its first evaluation, when it is stopped and when it ends.",
            run=run,
        )
    problems: list[Message] = []
    for candidate in candidates:
        try:
            return load_checkpoint(candidate, optimizer=optimizer), problems
        except JobError as error:
            problems.append(error.text)
    raise JobError("no checkpoint can be used:\n{problems}", problems=joined("\n", problems))


def load_checkpoint(folder: Path, *, optimizer: bool = True) -> LoadedCheckpoint:
    """Read one checkpoint, with or without the optimizer. JobError names the file that is missing or damaged."""
    try:
        content = read_state(folder)
        if unknown := content["model"].keys() - {item.name for item in fields(ModelConfig)}:
            raise ValueError(f"its model has {unknown}")
        state = msgspec.convert(content, State)
        _check_files(folder, state.sha256, {WEIGHTS, OPTIMIZER} if optimizer else {WEIGHTS})
        weights = read_tensors(folder / WEIGHTS)
        check_weights(state.model, weights)
        return LoadedCheckpoint(
            folder=folder,
            model=weights,
            optimizer=read_tensors(folder / OPTIMIZER) if optimizer else {},
            progress=state.progress,
            model_config=state.model,
            tokenizer=read_json(folder / TOKENIZER) if TOKENIZER in state.sha256 else None,
            scaler=state.scaler,
            run=state.run,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise JobError(
            "checkpoint {folder} is incomplete or damaged: {reason}", folder=folder, reason=what_is_wrong(error)
        ) from None


def _check_files(folder: Path, sha256: dict[str, str], needed: set[str]) -> None:
    for name in needed | sha256.keys() - {OPTIMIZER}:
        if Path(name).name != name or not (folder / name).is_file():  # reading a device or pipe would never end
            raise JobError(
                "checkpoint {folder} is incomplete: {name} is missing", folder=folder, name=printable(name[:60])
            )
        if file_sha256(folder / name) != sha256.get(name):
            raise JobError(
                "{file} is damaged: its checksum differs from the one in {state}", file=folder / name, state=STATE
            )
