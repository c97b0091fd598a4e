"""Reading a checkpoint back: find it, see that it is whole, give model and optimizer what it holds. No pickle.

Anybody may have written it, so every value is looked at, and the sizes before memory is taken for them.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nanoscope.errors import JobError, UsageError
from nanoscope.model import LanguageModel, ModelConfig, build_model
from nanoscope.training.checkpoint import STATE_VERSION, Progress, state_checksum
from nanoscope.training.run_folder import checkpoint_folders
from nanoscope.untrusted import printable, read_json, read_small

WEIGHTS, MOMENTS, TOKENIZER = "model.safetensors", "optimizer.safetensors", "tokenizer.json"
HEADER_LIMIT_BYTES = 4 << 20  # a thousand layers have less than half of it
TABLE_LIMIT_BYTES = 1 << 28  # of the rotary positions, which no file holds: half a million tokens of 128 channels


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
    names = [path.name for path in available]
    named = _pointed_at(folder / wanted, names) if wanted in ("last", "best") else wanted
    if named not in names:
        raise UsageError(f"{run} has no checkpoint {named!r}; it has {', '.join(names)}")
    problems: list[str] = []
    for candidate in available[names.index(named) :]:
        try:
            return load_checkpoint(candidate), problems
        except JobError as error:
            problems.append(str(error))
    raise JobError("no checkpoint can be used:\n" + "\n".join(problems))


def _pointed_at(pointer: Path, names: list[str]) -> str:
    """The checkpoint that `last` or `best` names, if it is one of the run's; else the newest."""
    try:
        named = read_small(pointer, limit_bytes=100).decode("utf-8").strip()
    except (JobError, OSError, UnicodeDecodeError):
        named = ""
    return named if named in names else names[0]


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read one checkpoint; JobError names the file that is missing or damaged."""
    try:
        state = read_json(folder / "state.json")
        if state["version"] != STATE_VERSION:
            raise JobError(f"{folder} was written by another version of nanoscope (format {state['version']!r:.20})")
        if state.get("checksum") != state_checksum(state):
            raise JobError(f"{folder / 'state.json'} is damaged: its checksum differs from the one that it holds")
        _check_files(folder, state["sha256"])
        config, weights = ModelConfig(**state["model"]), read_tensors(folder / WEIGHTS)
        check_weights(config, weights)
        return Checkpoint(
            folder=folder,
            model=weights,
            optimizer=read_tensors(folder / MOMENTS),
            progress=_progress(state["progress"]),
            model_config=config,
            tokenizer=read_json(folder / TOKENIZER) if TOKENIZER in state["sha256"] else None,
            scaler=_dictionary(state, "scaler"),
            run=_dictionary(state, "run"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise JobError(f"checkpoint {folder} is not whole: {printable(reason[:200])}") from None


def _check_files(folder: Path, sha256: dict[str, str]) -> None:
    for name in {WEIGHTS, MOMENTS, *sha256}:
        if Path(name).name != name or not (folder / name).is_file():  # a device or pipe would never end
            raise JobError(f"checkpoint {folder} is not whole: {printable(name[:60])} is missing")
        if file_sha256(folder / name) != sha256.get(name):
            raise JobError(f"{folder / name} is damaged: its checksum differs from the one in state.json")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; ValueError if it is none."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    if header_bytes > HEADER_LIMIT_BYTES:
        raise ValueError(f"{path.name} claims a header of {header_bytes:,} bytes")
    try:
        return load_file(path)
    except Exception as error:  # the library has several for what may be wrong with a file
        raise ValueError(f"{path.name}: {error}") from None


class _ShapesAlone(TorchFunctionMode):
    """Leaves out random numbers and positions: torch can do these without memory only after an import of seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return None
        return torch.empty(0, device="cpu") if func is torch.arange else func(*args, **(kwargs or {}))


def check_weights(config: ModelConfig, weights: dict[str, Tensor]) -> None:
    """ValueError unless these are all the weights of such a model. Takes no memory, whatever the sizes claim."""
    if config.n_layer > len(weights):
        raise ValueError(f"its n_layer {config.n_layer} is more than it has weights for")
    try:
        with torch.device("meta"), _ShapesAlone():
            model = build_model(replace(config, n_layer=1))
    except (RuntimeError, TypeError) as error:  # more than torch can count
        raise ValueError(str(error)) from None
    expected = {
        name.replace(".0.", f".{layer}."): parameter.shape  # the layers are alike
        for name, parameter in model.named_parameters()
        for layer in range(config.n_layer if ".0." in name else 1)
    }
    for name in [*expected, *weights]:
        if name not in weights or name not in expected:
            raise ValueError(f"{name[:60]} is {'missing' if name in expected else 'not part of such a model'}")
        if weights[name].shape != expected[name]:
            raise ValueError(f"{name} is {tuple(weights[name].shape)}, its sizes say {tuple(expected[name])}")
        if not weights[name].is_floating_point():
            raise ValueError(f"{name} is {weights[name].dtype}, no tensor of weights")
    if config.recipe == "modern" and 4 * config.block_size * config.n_embd // config.n_head > TABLE_LIMIT_BYTES:
        raise ValueError(f"its block_size is {config.block_size}")


def _progress(values: dict[str, Any]) -> Progress:
    """How far the run had come, each value of the type that it ought to have."""
    progress = Progress(**values)
    for name, kind in get_type_hints(Progress).items():
        if not _is(getattr(progress, name), kind):
            raise ValueError(f"its {name} is {getattr(progress, name)!r:.40}")
    return progress


def _dictionary(state: dict[str, Any], name: str) -> dict[str, Any]:
    """Numbers and texts by name."""
    values: dict[str, Any] = state[name]
    if not isinstance(values, dict) or not all(_is(value, float | str) for value in values.values()):
        raise ValueError(f"its {name} is {values!r:.40}")
    return values


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is(value, option) for option in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is(item, *get_args(kind)) for item in value)
    if kind is int:
        return type(value) is int and 0 <= value < 2**62
    if kind is float:
        return type(value) in (int, float) and abs(value) < 2**62  # neither infinite nor NaN
    return isinstance(value, kind)


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, moments: dict[str, Tensor]) -> None:
    """Give each parameter back the optimizer state that was saved under its name."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    saved = optimizer.state_dict()
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in moments.items():
        name, _, slot = key.rpartition(".")
        by_name.setdefault(name, {})[slot] = value
    for parameter, name in names.items():
        if any(value.dim() and value.shape != parameter.shape for value in by_name.get(name, {}).values()):
            raise JobError(f"the optimizer's state does not fit the model: that of {name} has another shape")
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
