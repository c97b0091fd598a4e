"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all, written while training goes on.

checkpoints/step-000500/{model.safetensors, optimizer.safetensors, tokenizer.json, state.json}, and the small files
`last` and `best` that hold the name of one of these folders. No pickle is written or read.
"""

import hashlib
import json
import os
import shutil
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from nanoscope.errors import JobError, UsageError
from nanoscope.model import GPT, ModelConfig
from nanoscope.training.run_folder import checkpoint_folders, read_pointer

STATE_VERSION = 1


@dataclass
class Progress:
    """How far a run has come: all that its next iteration depends on besides the weights and the optimizer."""

    step: int = 0
    """Iterations done; the number of the next one."""
    sequences: int = 0
    """Sequences read from the training split: the loader's position."""
    best_val_loss: float | None = None
    best_step: int | None = None
    evaluated_at: int | None = None
    evaluations_since_best: int = 0


@dataclass
class Checkpoint:
    """A checkpoint that was read and found undamaged."""

    folder: Path
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    progress: Progress
    model_config: ModelConfig
    tokenizer: dict[str, Any] | None
    scaler: dict[str, Any]
    run: dict[str, Any]
    """What the run's other settings were when it was saved (seed, dataset fingerprint …)."""


@dataclass
class Snapshot:
    """A copy of everything a checkpoint holds, which training no longer changes."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    tokenizer: dict[str, Any] | None


class CheckpointWriter:
    """Saves checkpoints of one run, one at a time; large ones in a thread while training goes on; prunes old ones."""

    # Writing takes a core. A small checkpoint costs a small model as much in slower steps as in waiting, but waiting
    # is counted where it belongs (benchmarks/LOG.md).
    SMALL_BYTES = 64 << 20

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        self._thread: threading.Thread | None = None
        self._failures: list[str] = []

    def save(self, snapshot: Snapshot, *, best: bool) -> tuple[Path, bool]:
        """Write, or begin to; returns where, and whether it goes on in the background. The one before is waited for."""
        self.wait()
        target = self.folder / f"step-{snapshot.state['progress']['step']:06d}"
        tensors = [*snapshot.model.values(), *snapshot.optimizer.values()]
        if sum(tensor.nbytes for tensor in tensors) <= self.SMALL_BYTES:
            self._write(snapshot, target, best)
            return target, False
        self._thread = threading.Thread(target=self._write, args=(snapshot, target, best), name="checkpoint")
        self._thread.start()
        return target, True

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def failures(self) -> list[str]:
        """What went wrong since the last call."""
        found, self._failures = self._failures, []
        return found

    def _write(self, snapshot: Snapshot, target: Path, best: bool) -> None:
        aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            save_file(snapshot.model, aside / "model.safetensors", {"format": "pt"})
            save_file(snapshot.optimizer, aside / "optimizer.safetensors", {"format": "pt"})
            if snapshot.tokenizer is not None:
                (aside / "tokenizer.json").write_text(json.dumps(snapshot.tokenizer, ensure_ascii=False), "utf-8")
            snapshot.state["sha256"] = {file.name: file_sha256(file) for file in sorted(aside.iterdir())}
            (aside / "state.json").write_text(json.dumps(snapshot.state, indent=1), "utf-8")
            for file in aside.iterdir():
                _sync(file)
            _sync(aside)
            _move_into_place(aside, target)
            for pointer in ("last", "best") if best else ("last",):
                _replace_text(self.folder / pointer, target.name + "\n")
            self._prune()
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            self._failures.append(f"{target.name} could not be saved: {error}")

    def _prune(self) -> None:
        if self.keep == 0:
            return
        pointed = {read_pointer(self.folder, pointer) for pointer in ("last", "best")}
        for old in checkpoint_folders(self.folder)[self.keep :]:
            if old.name not in pointed:
                shutil.rmtree(old, ignore_errors=True)


def take_snapshot(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    *,
    scaler: dict[str, Any],
    tokenizer: dict[str, Any] | None,
    run: dict[str, Any],
) -> Snapshot:
    """Copy weights, optimizer state and progress to memory that training does not touch."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}  # tied: one name
    weights = {name: _copy(parameter) for parameter, name in names.items()}
    moments = {
        f"{names[parameter]}.{key}": _copy(value)
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    state = {
        "version": STATE_VERSION,
        "progress": asdict(progress),
        "model": asdict(model.config),
        "scaler": scaler,
        "run": run,
    }
    return Snapshot(weights, moments, state, tokenizer)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, moments: dict[str, Tensor]) -> None:
    """Give each parameter back the optimizer state that was saved under its name."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    saved = optimizer.state_dict()
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in moments.items():
        name, _, slot = key.rpartition(".")
        by_name.setdefault(name, {})[slot] = value
    saved["state"] = {i: by_name[names[p]] for i, p in enumerate(ordered) if names[p] in by_name}
    optimizer.load_state_dict(saved)


def load_model_weights(model: GPT, weights: dict[str, Tensor]) -> None:
    """Weights by name; the output layer is the token table, so it may be missing."""
    try:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:  # a shape: the second line says which
        raise JobError(f"the weights do not fit the model: {' '.join(str(error).split()[-30:])}") from None
    missing = [name for name in missing if name != "lm_head.weight"]
    if missing or unexpected:
        raise JobError(f"the weights do not fit the model: missing {missing[:3]}, unexpected {unexpected[:3]}")


# --- reading -----------------------------------------------------------------------------------------------------


def find_checkpoint(run: Path, wanted: str = "last") -> tuple[Checkpoint, list[str]]:
    """The checkpoint of a run that `last`, `best` or its own name points at.

    If it is damaged, the newest undamaged one before it, and what was found wrong on the way.
    """
    if not run.is_dir():
        raise JobError(f"there is no run in {run}: {'it is a file' if run.exists() else 'no such folder'}")
    folder = run / "checkpoints" if (run / "checkpoints").is_dir() else run
    if (folder / "state.json").is_file():
        return load_checkpoint(folder), []
    available = checkpoint_folders(folder)
    if not available:
        raise JobError(
            f"{run} holds no checkpoint\nA run saves one at its first evaluation, when it is stopped and when it ends."
        )
    named = read_pointer(folder, wanted) if wanted in ("last", "best") else wanted
    if named is None:
        named = available[0].name
    names = [path.name for path in available]
    if named not in names:
        raise UsageError(f"{run} has no checkpoint {named!r}; it has {', '.join(names)}")
    problems: list[str] = []
    for candidate in available[names.index(named) :]:
        try:
            return load_checkpoint(candidate), problems
        except JobError as error:
            problems.append(str(error))
    raise JobError("no checkpoint can be used:\n" + "\n".join(problems))


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read one checkpoint; JobError names the file that is missing or damaged."""
    try:
        state = json.loads((folder / "state.json").read_text("utf-8"))
        if state["version"] != STATE_VERSION:
            raise JobError(f"{folder} was written by another version of nanoscope (format {state['version']})")
        for name, expected in state["sha256"].items():
            if Path(name).name != name or file_sha256(folder / name) != expected:
                raise JobError(f"{folder / name} is damaged: its checksum differs from the one in state.json")
        tokenizer = folder / "tokenizer.json"
        return Checkpoint(
            folder=folder,
            model=load_file(folder / "model.safetensors"),
            optimizer=load_file(folder / "optimizer.safetensors"),
            progress=Progress(**state["progress"]),
            model_config=ModelConfig(**state["model"]),
            tokenizer=json.loads(tokenizer.read_text("utf-8")) if tokenizer.is_file() else None,
            scaler=state["scaler"],
            run=state["run"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise JobError(f"checkpoint {folder} is not whole: {type(error).__name__}: {error}") from None


# --- files -------------------------------------------------------------------------------------------------------


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _move_into_place(aside: Path, target: Path) -> None:
    """Rename, also where a checkpoint of the same step is there already (a step done again after a resume)."""
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        aside.rename(target)
    _sync(target.parent)


def _replace_text(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text, "utf-8")
    _sync(aside)
    aside.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk itself hold it. Windows cannot open a folder; there the rename is all there is."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
