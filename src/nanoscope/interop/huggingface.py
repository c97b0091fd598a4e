"""GPT-2 weights as Hugging Face keeps them: model.safetensors and config.json."""

import logging
import os
from pathlib import Path

from torch import Tensor

from nanoscope.errors import JobError, UsageError, did_you_mean
from nanoscope.model import ModelConfig
from nanoscope.training.restore import check_weights, read_tensors
from nanoscope.untrusted import printable, read_json

NAMES = {name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")}

# OpenAI's layers keep these matrices as (in, out); torch's Linear keeps (out, in).
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def load_gpt2(source: str, block_size: int, dropout: float) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The shape and weights of GPT-2 by name (Hugging Face's cache, else its hub) or from a folder."""
    weights_file, config_file = _files(source)
    try:
        described = read_json(config_file)
        if block_size > (positions := described["n_positions"]):
            raise UsageError(f"block_size={block_size} is more than the {positions} positions that {source} has learnt")
        shape = {key: described[key] for key in ("vocab_size", "n_layer", "n_head", "n_embd")}
        config = ModelConfig(**shape, block_size=block_size, dropout=dropout, bias=True)
        weights = from_huggingface(read_tensors(weights_file), block_size)
        check_weights(config, weights)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split())[:160])
        raise JobError(f"{source}: these are not GPT-2 weights: {reason}") from None
    return config, weights


def from_huggingface(weights: dict[str, Tensor], block_size: int) -> dict[str, Tensor]:
    """Hugging Face's names and layouts → ours; positions beyond block_size are left out."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        name = name.removeprefix("transformer.")
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue  # causal masks, and the token table once more
        if name == "wpe.weight":
            tensor = tensor[:block_size]
        renamed[f"transformer.{name}"] = tensor.t().contiguous() if name.endswith(TRANSPOSED) else tensor.contiguous()
    return renamed


def check_source(source: str) -> None:
    """Whether there is such a model to begin with, before anything else is done for it."""
    known = ["scratch", "resume", *NAMES]
    if source not in NAMES and not os.path.isdir(source):  # noqa: PTH112  False for a name that is no name
        raise UsageError(f"init_from={source}: it is {', '.join(known)} or a folder{did_you_mean(source, known)}")


def _files(source: str) -> tuple[Path, Path]:
    check_source(source)
    folder = Path(source)
    if folder.is_dir():
        files = folder / "model.safetensors", folder / "config.json"
        if missing := [file.name for file in files if not file.is_file()]:
            raise UsageError(f"init_from={source}: the folder has no {' and no '.join(missing)}")
        return files
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        found = [Path(hf_hub_download(NAMES[source], name)) for name in ("model.safetensors", "config.json")]
    except Exception as error:  # the hub's client has errors of its own for each way of being out of reach
        raise JobError(
            f"the weights of {source} are neither in Hugging Face's cache nor to be had from its hub "
            f"({type(error).__name__})\nFetch model.safetensors and config.json of {NAMES[source]} on a machine with a "
            "network, and give their folder: --init_from=FOLDER"
        ) from None
    return found[0], found[1]
