"""What each hand-written function of model/cpu_kernels.py gains alone, against its plain torch equivalent.

    python benchmarks/kernels.py [--rows 4x128,6x384,12x768] [--only NAME,…] [--seconds 20]

CPU time of a forward and a backward pass (of a forward pass alone for `rotate`, which evaluations use) on one thread,
with everything as it is and with one function replaced, in turns in one process. Printed: the median ratio
turn by turn, plain by ours; above 1, ours is faster.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch.nn import functional as F

from nanoscope.model import ModelConfig, build_model, cpu_kernels

SHAPES: dict[str, tuple[int, dict[str, Any]]] = {  # the batch, and the model: the rows of RESULTS.md
    "4x128": (12, {"vocab_size": 65, "block_size": 64, "n_layer": 4, "n_head": 4, "n_embd": 128}),
    "6x384": (16, {"vocab_size": 65, "block_size": 256, "n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.2}),
    "12x768": (1, {"vocab_size": 50304, "block_size": 512, "n_layer": 12, "n_head": 12, "n_embd": 768}),
}
RECIPES: dict[str, dict[str, Any]] = {
    "classic": {"recipe": "classic"},
    "modern": {"recipe": "modern", "ngrams": 4, "ngram_dropout": 0.5, "token_shift": 3},
}


def plain_attention(qkv: Any, n_head: int, dropout: float = 0.0, rotation: Any = None, **_: Any) -> Any:
    q, k, v = cpu_kernels._heads(qkv, n_head, rotation)
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    return y.transpose(1, 2).flatten(2)


def plain_shift(x: Any, weight: Any, before: Any = None) -> Any:
    reach, T = len(weight), x.shape[1]
    padded = F.pad(x, (0, 0, reach, 0)) if before is None else torch.cat((before, x), dim=1)
    y = x
    for back, share in enumerate(weight, start=1):
        y = y + padded[:, reach - back : reach - back + T] * share
    return y


def plain_rotate(x: Any, rotation: Any) -> Any:
    (even, odd), (cos, sin) = torch.unflatten(x, -1, (-1, 2)).unbind(-1), rotation.unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)


PLAIN: dict[str, Callable[..., Any]] = {
    "causal_attention": plain_attention,
    "cross_entropy": lambda logits, targets: F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten()),
    "dropout_factors": lambda like, p: F.dropout(torch.ones_like(like), p),
    "token_shift": plain_shift,
    "relu_squared": lambda x: F.relu(x).square(),
    "tied_embedding": lambda tokens, table: F.embedding(tokens, table),
    "rotate": plain_rotate,
}


@contextmanager
def replaced(name: str | None) -> Iterator[None]:
    ours = getattr(cpu_kernels, name) if name else None
    try:
        if name:
            setattr(cpu_kernels, name, PLAIN[name])
        yield
    finally:
        if name:
            setattr(cpu_kernels, name, ours)


def applies(name: str, recipe: str, shape: dict[str, Any]) -> bool:
    modern = recipe == "modern"
    needed = {"token_shift": modern, "relu_squared": modern, "rotate": modern, "tied_embedding": not modern}
    needed["dropout_factors"] = modern or shape.get("dropout", 0) > 0
    needed["cross_entropy"] = shape["vocab_size"] > 65
    return needed.get(name, True)


def gain(name: str, model: torch.nn.Module, dtype: torch.dtype, tokens: torch.Tensor, seconds: float) -> list[float]:
    evaluates = name == "rotate"
    model.train(not evaluates)

    def once() -> float:
        began = time.process_time()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32), torch.set_grad_enabled(not evaluates):
            loss = model(tokens, tokens)
        if not evaluates:
            loss.backward()
        took = time.process_time() - began
        model.zero_grad(set_to_none=True)
        return took

    ratios, end = [], time.process_time() + seconds
    for turn in range(1000):
        times = {}
        for which in (name, None) if turn % 2 else (None, name):
            with replaced(which):
                times[which] = once()
        if turn:
            ratios.append(times[name] / times[None])
        if turn >= 3 and time.process_time() > end:
            break
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(SHAPES))
    parser.add_argument("--only", default=",".join(PLAIN))
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for row in options.rows.split(","):
        batch, shape = SHAPES[row]
        for recipe, settings in RECIPES.items():
            torch.manual_seed(0)
            model = build_model(ModelConfig(**shape, **settings))
            tokens = torch.randint(shape["vocab_size"], (batch, shape["block_size"]))
            for dtype in (torch.float32, torch.bfloat16):
                for name in options.only.split(","):
                    if applies(name, recipe, shape):
                        ratios = gain(name, model, dtype, tokens, options.seconds)
                        spread = f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} turns)"
                        print(f"{row} {recipe} {str(dtype)[6:]} {name}: {spread}", flush=True)


if __name__ == "__main__":
    main()
