"""GPT-2 weights in Hugging Face's format: model.safetensors and config.json."""

import logging
from pathlib import Path

import msgspec
from torch import Tensor

from nanoscope.errors import JobError
from nanoscope.files import read_json
from nanoscope.model import ModelConfig
from nanoscope.model.weights import check_weights, read_tensors, what_is_wrong

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# Model → the commit of its repository. What is published there later is not taken unseen.
NAMES = {
    "gpt2": "607a30d783dfa663caf39e06633721c8d4cfcd7e",
    "gpt2-medium": "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
    "gpt2-large": "32b71b12589c2f8d625668d2335a01cac3249519",
    "gpt2-xl": "15ea56dee5df4983c59b2538573817e1667135e2",
}

# OpenAI stores these matrices as (in, out), torch's Linear as (out, in).
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def load_gpt2(source: str) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the shape and weights of GPT-2, by name (from Hugging Face's cache or hub) or from a folder."""
    folder = Path(source)
    if folder.is_dir():
        weights_file, config_file = folder / WEIGHTS, folder / CONFIG
    else:
        weights_file, config_file = _downloaded(source)
    try:
        described = read_json(config_file)
        config = msgspec.convert(described | {"block_size": described["n_positions"], "bias": True}, ModelConfig)
        weights = from_huggingface(read_tensors(weights_file))
        check_weights(config, weights)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise JobError(
            "{source} does not contain GPT-2 weights: {reason}", source=source, reason=what_is_wrong(error)
        ) from None
    return config, weights


def from_huggingface(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert Hugging Face's names and layouts to ours."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        name = name.removeprefix("transformer.")
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue  # causal masks, and a copy of the token table
        renamed[f"transformer.{name}"] = tensor.t().contiguous() if name.endswith(TRANSPOSED) else tensor.contiguous()
    return renamed


def _downloaded(name: str) -> tuple[Path, Path]:
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    repository = f"openai-community/{name}"
    try:
        weights, config = (hf_hub_download(repository, file, revision=NAMES[name]) for file in (WEIGHTS, CONFIG))
    except Exception as error:  # the client has many kinds of errors
        raise JobError(
            "cannot download the weights of {name} from Hugging Face ({error})\n"
            "On a machine with a network, download {weights} and {config} of {repository}, and use their folder "
            "instead of {name}.",
            name=name,
            error=type(error).__name__,
            weights=WEIGHTS,
            config=CONFIG,
            repository=repository,
        ) from None
    return Path(weights), Path(config)
