"""GPT-2 weights in Hugging Face's format: model.safetensors and config.json."""

import logging
import os
from pathlib import Path

from torch import Tensor

from nanoscope.errors import JobError, UsageError
from nanoscope.model import ModelConfig
from nanoscope.model.weights import check_weights, read_tensors
from nanoscope.suggest import did_you_mean
from nanoscope.untrusted import printable, read_json

NAMES = {name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")}

# OpenAI stores these matrices as (in, out), torch's Linear as (out, in).
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def load_gpt2(source: str, block_size: int, dropout: float) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the shape and weights of GPT-2, by name (from Hugging Face's cache or hub) or from a folder."""
    weights_file, config_file = _files(source)
    try:
        described = read_json(config_file)
        if block_size > (positions := described["n_positions"]):
            raise UsageError(f"block_size={block_size} exceeds the context length of {source}, {positions}")
        shape = {key: described[key] for key in ("vocab_size", "n_layer", "n_head", "n_embd")}
        config = ModelConfig(**shape, block_size=block_size, dropout=dropout, bias=True)
        weights = from_huggingface(read_tensors(weights_file), block_size)
        check_weights(config, weights)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split())[:160])
        raise JobError(f"{source} does not contain GPT-2 weights: {reason}") from None
    return config, weights


def from_huggingface(weights: dict[str, Tensor], block_size: int) -> dict[str, Tensor]:
    """Convert Hugging Face's names and layouts to ours; positions beyond block_size are dropped."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        name = name.removeprefix("transformer.")
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue  # causal masks, and a copy of the token table
        if name == "wpe.weight":
            tensor = tensor[:block_size]
        renamed[f"transformer.{name}"] = tensor.t().contiguous() if name.endswith(TRANSPOSED) else tensor.contiguous()
    return renamed


def check_source(source: str) -> None:
    """Raise UsageError unless `source` is a GPT-2 model or a folder, before any other work is done."""
    known = ["scratch", "resume", *NAMES]
    if source not in NAMES and not os.path.isdir(source):  # noqa: PTH112  Path raises for an impossible name
        raise UsageError(f"init_from={source}: expected {', '.join(known)} or a folder.{did_you_mean(source, known)}")


def _files(source: str) -> tuple[Path, Path]:
    check_source(source)
    folder = Path(source)
    if folder.is_dir():
        files = folder / "model.safetensors", folder / "config.json"
        if missing := [file.name for file in files if not file.is_file()]:
            raise UsageError(f"init_from={source}: the folder contains no {' and no '.join(missing)}")
        return files
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        found = [Path(hf_hub_download(NAMES[source], name)) for name in ("model.safetensors", "config.json")]
    except Exception as error:  # the client has many kinds of errors
        raise JobError(
            f"cannot download the weights of {source} from Hugging Face ({type(error).__name__})\n"
            f"On a machine with a network, download model.safetensors and config.json of {NAMES[source]}, then use "
            "their folder: --init_from=FOLDER"
        ) from None
    return found[0], found[1]
