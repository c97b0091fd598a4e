"""The numbers of one run that concepts are explained with, by name: from its findings and its settings."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.mfu import share_of_device
from nanoscope.findings.progress import train_tokens, trained_parameters
from nanoscope.findings.schema import paths, value_at
from nanoscope.messages import Epoch
from nanoscope.runs.run import Run

Numbers = Mapping[str, Any]  # what the log does not say is missing; losses are in nats unless the trainer's are not

DTYPES = ("float32", "bfloat16", "float16")
ADAMW_BYTES = 16  # a parameter in float32: weight, gradient, and the optimizer's two averages

# What follows from other numbers, where they are known; each may use those before it.
_DERIVED: dict[str, Callable[[Numbers], Any]] = {
    "overfits": lambda k: k["overfitting"].code == "overfitting",
    "one_evaluation": lambda k: k["evaluations"] == 1,
    "chance": lambda k: 1 / k["perplexity"],  # the probability of the right token, as a geometric mean
    "guess": lambda k: math.log(k["vocab_size"]),  # the loss of guessing
    "gap": lambda k: k["val"] - k["eval_train"],
    "twice": lambda k: 1.96 * k["stderr"],  # 19 of 20 values of a normal distribution lie within so many errors
    "lr_part": lambda k: k["lr"] / k["lr_highest"] if k["stage"] in ("decay", "ended") else None,
    "warmup_share": lambda k: k["warmup_step"] / k["total_steps"],
    "done": lambda k: 1.0 if k.get("finished") else min(1.0, k["last_step"] / k["total_steps"]),
    "left_range": lambda k: (k["left_low"], k["left_high"]),
    "step_s": lambda k: k["typical_s"] if k["unit"] == "step" else None,
    "last_step": lambda k: Epoch(k["last_step"]) if k["unit"] == "epoch" else None,
    "at_once": lambda k: k["batch_size"] * k["block_size"],  # tokens of a micro-batch
    "multiplies": lambda k: k["at_once"] * k["accumulation"] == k["tokens_per_step"],
    "table": lambda k: k["vocab_size"] * k["n_embd"],  # numbers in the embedding of the tokens
    "head_size": lambda k: None if k["n_embd"] % k["n_head"] else k["n_embd"] // k["n_head"],
    "flops_token": lambda k: 6.0 * k["parameters"],
    "flops": lambda k: k["flops_token"] * k["tokens_seen"],
    "adamw_gb": lambda k: ADAMW_BYTES * k["parameters"] / 1e9,
}


def known_numbers(run: Run, analysis: Analysis) -> Numbers:
    """All that is known about a run."""
    start, evals = run.details.start if run.details else None, analysis.evals
    roots = vars(analysis) | {
        "settings": {key: value for key, value in run.config.items() if _is_amount(value)},
        "series": run.series,
        "val": evals if evals is not None and evals.metric == "loss" and evals.last_val is not None else None,
        "eta": None if analysis.progress.finished else analysis.eta,
    }
    mfu, peak_tflops = share_of_device(analysis.mfu, analysis.achieved)
    dtype = (start and start.dtype) or run.config.get("dtype")
    amounts = {name: _first(roots, path) for name, path in paths("amounts").items()} | {
        "train_tokens": train_tokens(run),
        "parameters": trained_parameters(run),
        "mfu": mfu,
        "peak_tflops": peak_tflops,
        "dtype": dtype if dtype in DTYPES else None,
        "compiled": bool(start and start.compiled) or run.config.get("compile") is True,
    }
    numbers = {name: _first(roots, path) for name, path in paths("numbers").items()}
    return with_derived(numbers | {name: amount or None for name, amount in amounts.items()})


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _first(roots: Mapping[str, Any], where: str | list[str]) -> Any:
    found = (value_at(roots, path) for path in ([where] if isinstance(where, str) else where))
    return next((value for value in found if value is not None), None)


def with_derived(numbers: Numbers) -> Numbers:
    """These numbers, and what follows from them; what is None is left out."""
    found = {name: value for name, value in numbers.items() if value is not None}
    for name, derive in _DERIVED.items():
        with suppress(KeyError, ZeroDivisionError):
            if (value := derive(found)) is not None:
                found[name] = value
    return found
