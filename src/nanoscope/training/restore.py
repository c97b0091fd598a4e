"""Reading a checkpoint back: find it, see that it is whole, give model and optimizer what it holds. No pickle."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from nanoscope.errors import JobError, UsageError
from nanoscope.model import LanguageModel, ModelConfig
from nanoscope.training.checkpoint import STATE_VERSION, Progress
from nanoscope.training.run_folder import checkpoint_folders, read_pointer


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


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def load_model_weights(model: LanguageModel, weights: dict[str, Tensor]) -> None:
    """Weights by name; the output layer is the token table, so it may be missing."""
    try:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:  # a shape: the second line says which
        raise JobError(f"the weights do not fit the model: {' '.join(str(error).split()[-30:])}") from None
    missing = [name for name in missing if name != "lm_head.weight"]
    if missing or unexpected:
        raise JobError(f"the weights do not fit the model: missing {missing[:3]}, unexpected {unexpected[:3]}")
