"""Writing checkpoints: safetensors and JSON in a folder that appears complete or not at all. No pickle.

Training waits for a save. On two cores that costs the least in total, or as little as any other way: a background
thread takes the cores from the steps and needs a copy first (benchmarks/LOG.md). A GPU waits too; not measured there.

At any moment a complete checkpoint is on disk: a new one is written under a temporary name, synced and renamed, then
the pointers are moved, and only then are old checkpoints removed. What a killed process leaves has a name with a dot,
and is removed when the next one starts. Checksums are verified when a checkpoint is loaded.
"""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from nanoscope.checkpoint_files import (
    BEST,
    LAST,
    OPTIMIZER,
    STATE,
    STATE_VERSION,
    TOKENIZER,
    WEIGHTS,
    checkpoint_name,
    checkpoints_from,
    read_pointer,
    state_checksum,
)
from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import JobError
from nanoscope.files import file_sha256, make_folder, sync_to_disk, write_atomically
from nanoscope.messages import Shown
from nanoscope.model import LanguageModel
from nanoscope.model.checkpoint import TrainingState
from nanoscope.training.lock import LockLostError
from nanoscope.training.run_folder import RunFolder

Tensors = dict[str, Tensor]


def checkpoint_tensors(model: LanguageModel, optimizer: torch.optim.Optimizer) -> dict[str, Tensors]:
    """What the two files of tensors hold. The tensors are training's own."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}  # tied: one name
    moments = {
        f"{names[parameter]}.{key}": value.detach()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    return {WEIGHTS: {name: parameter.detach() for parameter, name in names.items()}, OPTIMIZER: moments}


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, moments: Tensors) -> None:
    """Give each parameter the optimizer state that was saved under its name."""
    parameters = dict(model.named_parameters())
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    places = {id(parameter): place for place, parameter in enumerate(ordered)}
    state: dict[int, Tensors] = {}
    for key, value in moments.items():
        name, _, slot = key.rpartition(".")
        if name in parameters:
            if value.dim() and value.shape != parameters[name].shape:
                raise JobError(
                    "the optimizer state does not fit the model: that of {name} has another shape", name=name
                )
            state.setdefault(places[id(parameters[name])], {})[slot] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


class CheckpointWriter:
    """Saves the checkpoints of one run and removes old ones."""

    RETRY_SECONDS = 30.0

    def __init__(self, run: RunFolder, keep: int) -> None:
        self.run, self.keep = run, keep
        self.saved_step: int | None = None
        """The step of the newest checkpoint that this run has."""
        with suppress(OSError):
            self._clean_up()

    @property
    def folder(self) -> Path:
        """Asked anew before each change, because the run's folder may have been moved, or taken over."""
        return self.run.checkpoints

    def save(
        self,
        model: LanguageModel,
        optimizer: torch.optim.Optimizer,
        progress: TrainingState,
        facts: dict[str, Any],
        tokenizer: Tokenizer | None = None,
    ) -> Shown | None:
        """Save a checkpoint. Returns why it could not be saved, if so: then the older ones are as they were.

        `facts`: what else state.json says, `scaler`, `run` and `settings`.
        """
        try:
            files: dict[str, Tensors | str] = {**checkpoint_tensors(model, optimizer)}
            if tokenizer is not None:
                files[TOKENIZER] = json.dumps(tokenizer.to_json(), ensure_ascii=False)
            name, state = checkpoint_name(progress.step), msgspec.structs.asdict(progress)
            about = {"version": STATE_VERSION, "progress": state, "model": vars(model.config), **facts}
            self._write_folder(name, files, about)
            # A resume follows LAST, so it moves last.
            for pointer in (BEST, LAST) if progress.best_step == progress.step else (LAST,):
                write_atomically(self.folder / pointer, name + "\n", sync=True)
            self._prune()
        except LockLostError:
            raise
        except Exception as error:  # also too little memory: training can continue
            with suppress(OSError):
                self._clean_up()  # a full disk gets its space back
            if isinstance(error, OSError) and error.strerror:
                return f"{error.strerror} ({error.filename or self.folder})"
            return str(error) or type(error).__name__
        self.saved_step = progress.step
        return None

    def _write_folder(self, name: str, files: dict[str, Tensors | str], state: dict[str, Any]) -> None:
        self._clean_up()
        temporary = self.folder / f".{name}.{os.getpid()}.tmp"
        make_folder(temporary.parent)
        temporary.mkdir()
        state["sha256"] = {name: _write_file(temporary / name, content) for name, content in files.items()}
        state["checksum"] = state_checksum(state)
        _write_file(temporary / STATE, json.dumps(state, indent=1))
        sync_to_disk(temporary)
        target = self.folder / name
        old = target.with_name(f".{name}.old")  # a step repeated after a resume; checkpoint_folders knows this name
        if target.exists():
            target.rename(old)
        target.with_name(temporary.name).rename(target)
        sync_to_disk(target.parent)
        shutil.rmtree(old, ignore_errors=True)

    def _clean_up(self) -> None:
        """Remove what a killed process left half-written; put back a checkpoint that was about to be replaced."""
        for old in self.folder.glob(".step-*.old"):
            place = self.folder / old.name[1:].removesuffix(".old")
            shutil.rmtree(old, ignore_errors=True) if place.exists() else old.rename(place)
        for left in self.folder.glob(".*.tmp"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()

    def _prune(self) -> None:
        """Keep the newest `keep` and the best. Later steps, which a run that went back may have, stay."""
        best = read_pointer(self.folder, BEST)
        for old in checkpoints_from(self.folder)[self.keep :] if self.keep > 0 else []:
            if old.name != best:
                hidden = old.with_name(f".{old.name}.pruned.tmp")  # nobody must find half of it
                with suppress(OSError):
                    old.rename(hidden)
                shutil.rmtree(hidden, ignore_errors=True)


def _write_file(path: Path, content: Tensors | str) -> str:
    """Write a file of a checkpoint to the disk itself, and return its checksum."""
    if isinstance(content, str):
        path.write_bytes(content.encode())
    else:
        save_file({name: tensor.cpu().contiguous() for name, tensor in content.items()}, path, {"format": "pt"})
    sync_to_disk(path)
    return file_sha256(path)
