"""Weights from files: read, checked against the model's shape, and loaded. Anyone may have written the file."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nanoscope.errors import JobError
from nanoscope.messages import printable
from nanoscope.model import LanguageModel, ModelConfig, build_model

HEADER_LIMIT_BYTES = 4 << 20  # the header of a thousand layers takes half of it
LAYER_TENSORS = 4  # the least that a layer has
ROTATION_LIMIT_BYTES = 1 << 28  # the table of rotary positions isn't in the file; this is for half a million


def what_is_wrong(error: Exception) -> str:
    """One line about an error with a file that anyone may have written."""
    return printable(" ".join(f"{type(error).__name__}: {error}".split())[:160])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name. ValueError if it isn't a valid one."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    if header_bytes > HEADER_LIMIT_BYTES:
        raise ValueError(f"{path.name} claims a header of {header_bytes:,} bytes")
    try:
        return load_file(path)
    except Exception as error:  # the library raises several kinds
        raise ValueError(f"{path.name}: {error}") from None


def check_weights(config: ModelConfig, weights: dict[str, Tensor]) -> None:
    """ValueError unless these are exactly the weights of such a model. Takes no memory, whatever sizes are claimed."""
    if LAYER_TENSORS * config.n_layer > len(weights):  # building so many layers would take long
        raise ValueError(f"its n_layer {config.n_layer} is more than it has weights for")
    if config.recipe == "modern" and 4 * config.block_size * config.n_embd // config.n_head > ROTATION_LIMIT_BYTES:
        raise ValueError(f"its block_size is {config.block_size}")
    expected = parameter_shapes(config)
    for name in [*expected, *weights]:
        if name not in weights or name not in expected:
            raise ValueError(f"{name[:60]} is {'missing' if name in expected else 'not part of such a model'}")
        if weights[name].shape != expected[name]:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, the model needs {expected[name]}")
        if not weights[name].is_floating_point():
            raise ValueError(f"{name} is {weights[name].dtype}, not floating point")


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter by its name, from a model without memory. ValueError for impossible sizes."""
    try:
        with torch.device("meta"), _ShapesOnly():
            model = build_model(config)
    except RuntimeError as error:  # more elements than can be counted
        raise ValueError(str(error)) from None
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


class _ShapesOnly(TorchFunctionMode):
    """Runs on the CPU, or skips, the functions whose meta versions take a second to import."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is nn.init.normal_:
            return None
        cpu = {"device": "cpu"} if function is torch.arange else {}
        return function(*args, **(kwargs or {}), **cpu)


def load_model_weights(model: LanguageModel, weights: dict[str, Tensor]) -> None:
    """Copy the weights into the model. GPT-2's output layer is its token table, so it may be missing.

    Learned positions beyond the model's context are left out; rotary ones are not stored.
    """
    if model.config.recipe == "classic":
        positions = weights["transformer.wpe.weight"][: model.config.block_size]
        weights = weights | {"lm_head.weight": weights["transformer.wte.weight"], "transformer.wpe.weight": positions}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:  # with all that is missing or has another shape
        reason = " ".join(str(error).split()[-30:])
        raise JobError("the weights do not fit the model: {reason}", reason=reason) from None
