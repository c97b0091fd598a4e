"""Measures nanoscope in a child process: python -m benchmarks.nanogpt.ours TASK JSON.

Steps and evaluations are those of a real `nanoscope train`, by the times in the events it writes. torch is imported
inside the tasks: memory is counted from there, and some environment variables must be set before.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.nanogpt.child import WARM_UP, answer, peak_resident_mb, resident_mb
from nanoscope.errors import JobError
from nanoscope.hardware.probe import make_cpu_ready


def machine() -> dict[str, Any]:
    """With the dtype that training chooses here."""
    make_cpu_ready("cpu", "auto", training=True)
    from nanoscope.hardware.device import set_up_device
    from nanoscope.planning.bench import machine

    return machine(set_up_device("cpu", "auto", training=True)[0])


def peak(dtype: str) -> dict[str, Any]:
    make_cpu_ready("cpu", dtype)
    from nanoscope.hardware.device import set_up_device
    from nanoscope.planning.bench import matmul_gflops

    found = matmul_gflops(dtype, set_up_device("cpu", "float32", training=True)[0])
    return {"gflops": found if isinstance(found, float) else None}


def step(
    shape: dict[str, Any], dataset: str, iterations: int, dtype: str = "auto", compile: bool = False
) -> dict[str, Any]:
    """The times of whole iterations, and the memory used in addition to torch's own."""
    make_cpu_ready("cpu", dtype, training=True)
    import torch  # noqa: F401

    before_mb = resident_mb()
    events = _train(shape, dataset, dtype=dtype, compile=compile, max_iters=WARM_UP + iterations, log_interval=1)
    ends = [event["t"] for event in events if event["event"] == "iter"]
    ms = [1000 * (end - begin) for begin, end in pairwise(ends[WARM_UP - 1 :])]
    return {"ms": ms, "added_mb": peak_resident_mb() - before_mb}


def evaluation(shape: dict[str, Any], dataset: str, eval_iters: int, dtype: str = "auto") -> dict[str, Any]:
    """The second evaluation of a run, after one step; the first is the warm-up."""
    events = _train(shape, dataset, dtype=dtype, max_iters=1, eval_interval=1, eval_iters=eval_iters)
    _, second = (event["seconds"] for event in events if event["event"] == "eval")
    return {"seconds": second}


def sample(shape: dict[str, Any], tokens: int, streams: int) -> dict[str, Any]:
    import torch

    from nanoscope.generation.sampler import Sampling, generate
    from nanoscope.model import GPT, ModelConfig

    sizes = {key: value for key, value in shape.items() if key != "batch_size"}
    model = GPT(ModelConfig(vocab_size=65, recipe="classic", **sizes))
    prompt = torch.zeros(streams, 1, dtype=torch.int64)
    for count in (10, tokens):  # the first few are the warm-up
        began = time.perf_counter()
        for _ in generate(model, prompt, Sampling(max_new_tokens=count, temperature=0.8, top_k=200), 65):
            pass
    return {"seconds": time.perf_counter() - began}


def loss(
    dataset: str, block_size: int, run: str | None = None, nanogpt: str | None = None, windows: int | None = None
) -> dict[str, Any]:
    """The validation loss of a run's last checkpoint, or of nanoGPT's, in the same windows: all, or at most so many."""

    from nanoscope.data.dataset import open_dataset
    from nanoscope.hardware.device import DeviceConfig
    from nanoscope.interop.models import open_model
    from nanoscope.training.distributed import Processes
    from nanoscope.training.evaluate import Evaluator
    from nanoscope.training.machine import Machine

    model = open_model(nanogpt or run or "", "last").build()
    if model.config.block_size < block_size:
        raise JobError(f"a model with a context of {model.config.block_size} can't read windows of {block_size}")
    evaluator = Evaluator(
        {"val": open_dataset(dataset).splits["val"]}, block_size=block_size, windows=windows,
        vocab_size=model.config.vocab_size,
        machine=Machine(DeviceConfig("cpu", "", "float32", False, ()), Processes()),
    )  # fmt: skip
    found = evaluator.evaluate(model)
    assert found is not None
    return {"loss": found["val"].loss, "windows": len(found["val"].losses)}


def _train(shape: dict[str, Any], dataset: str, **settings: int | str) -> list[dict[str, Any]]:
    """The events of a run with the classic recipe on the CPU; evaluates only if `settings` say so."""
    from nanoscope.cli import run

    fixed = {"recipe": "classic", "device": "cpu", "overwrite": True,
             "gradient_accumulation_steps": 1, "out_dir": "run", "dataset": dataset}  # fmt: skip
    values = {"compile": False, "eval_interval": 10**9, "eval_iters": 1, **fixed, **shape, **settings}
    if status := run(["train", *(f"--{key}={value}" for key, value in values.items())]):
        sys.exit(status)
    events = [json.loads(line) for line in Path("run/events.jsonl").read_text("utf-8").splitlines()]
    shutil.rmtree("run")  # a checkpoint of 12×768 takes 1.5 GB
    return events


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "machine": machine,
    "peak": peak,
    "step": step,
    "evaluation": evaluation,
    "sample": sample,
    "loss": loss,
}

if __name__ == "__main__":
    answer(TASKS)
