"""Measures nanoGPT in a child process: python -m benchmarks.nanogpt.theirs TASK JSON, run in its checkout.

Its train.py can't be imported, only run, so its model.py is imported and train.py's steps are repeated here.
torch is imported inside the tasks: memory is counted from there.
"""

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.nanogpt.child import WARM_UP, answer, peak_resident_mb, resident_mb

if TYPE_CHECKING:
    from torch import Tensor


def step(shape: dict[str, Any], dataset: str, vocab_size: int, compile: bool, iterations: int) -> dict[str, Any]:
    """The times of whole iterations, and the memory used in addition to torch's own."""
    import torch

    before_mb = resident_mb()
    model = _model(shape, vocab_size)
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")
    if compile:
        model = torch.compile(model)
    ends = []
    batch = _batch(dataset, "train", shape)
    for _ in range(WARM_UP + iterations):
        _, loss = model(*batch)
        batch = _batch(dataset, "train", shape)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        ends.append(time.perf_counter())
    ms = [1000 * (end - begin) for begin, end in pairwise(ends[WARM_UP - 1 :])]
    return {"ms": ms, "added_mb": peak_resident_mb() - before_mb}


def evaluation(shape: dict[str, Any], dataset: str, vocab_size: int, eval_iters: int) -> dict[str, Any]:
    """Its estimate_loss: random batches of both splits, one after another."""
    import torch

    model = _model(shape, vocab_size).eval()
    with torch.no_grad():
        model(*_batch(dataset, "val", shape))  # warm-up
        began = time.perf_counter()
        for split in ("train", "val"):
            for _ in range(eval_iters):
                model(*_batch(dataset, split, shape))[1].item()
    return {"seconds": time.perf_counter() - began}


def sample(shape: dict[str, Any], tokens: int) -> dict[str, Any]:
    import torch

    model = _model(shape, 65).eval()
    prompt = torch.zeros(1, 1, dtype=torch.int64)
    for count in (10, tokens):  # the first few are the warm-up
        began = time.perf_counter()
        model.generate(prompt, count, temperature=0.8, top_k=200)
    return {"seconds": time.perf_counter() - began}


def loss(checkpoint: str, dataset: str) -> dict[str, Any]:
    """The loss of its checkpoint over the whole validation split, computed by its own model.py, window after window."""
    import numpy as np
    import torch

    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    arguments = saved["model_args"]
    model = _model(
        {key: arguments[key] for key in arguments if key not in ("vocab_size", "bias")}, arguments["vocab_size"]
    )
    model.load_state_dict(saved["model"])
    model.eval()
    length = arguments["block_size"]
    ids = torch.from_numpy(np.fromfile(Path(dataset, "val.bin"), np.uint16).astype(np.int64))
    windows = (len(ids) - 1) // length
    tokens, targets = (ids[shift : shift + windows * length].view(windows, length) for shift in (0, 1))
    with torch.no_grad():
        losses = [model(tokens[i : i + 1], targets[i : i + 1])[1].item() for i in range(windows)]
    return {"loss": sum(losses) / windows, "windows": windows}


def _model(shape: dict[str, Any], vocab_size: int) -> Any:
    import torch

    sys.path.insert(0, str(Path.cwd()))
    from model import GPT, GPTConfig  # type: ignore[import-not-found]  # nanoGPT's

    torch.manual_seed(1337)
    sizes = {key: value for key, value in shape.items() if key != "batch_size"}
    return GPT(GPTConfig(vocab_size=vocab_size, bias=False, **sizes))


def _batch(dataset: str, split: str, shape: dict[str, Any]) -> "tuple[Tensor, Tensor]":
    """As its loader does: maps the file again each time, cuts out and converts each row by itself."""
    import numpy as np
    import torch

    data = np.memmap(Path(dataset, f"{split}.bin"), np.uint16, "r")
    length = shape["block_size"]
    starts = torch.randint(len(data) - length, (shape["batch_size"],))

    def rows(shift: int) -> "Tensor":
        cut = (data[start + shift : start + shift + length].astype(np.int64) for start in starts)
        return torch.stack([torch.from_numpy(row) for row in cut])

    return rows(0), rows(1)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "step": step,
    "evaluation": evaluation,
    "sample": sample,
    "loss": loss,
}

if __name__ == "__main__":
    answer(TASKS)
